"""Thresholds and coverage, against definitions spelled out."""

from __future__ import annotations

import numpy as np
import pytest

from protoattend.errors import UserError
from protoattend.trust.conformal import Conformal
from protoattend.trust.labels import find_label_issues
from protoattend.trust.selective import accuracy_at_coverage, threshold_for_accuracy


@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_the_lowest_that_works(seed: int) -> None:
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.uniform(size=40), 1)  # many ties
    correct = rng.uniform(size=40) < confidence
    works = [t for t in np.unique(confidence) if correct[confidence >= t].mean() >= 0.8]
    if works:
        assert threshold_for_accuracy(confidence, correct, 0.8) == min(works)
    else:
        with pytest.raises(UserError, match="no confidence threshold"):
            threshold_for_accuracy(confidence, correct, 0.8)


def test_accuracy_at_coverage() -> None:
    confidence, correct = np.array([0.9, 0.1, 0.5, 0.7]), np.array([True, False, False, True])
    assert accuracy_at_coverage(confidence, correct, 0.5) == 1.0
    assert accuracy_at_coverage(confidence, correct, 1.0) == 0.5


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [([], [], "empty"), ([0.5], [True, False], "one length"), ([np.nan], [True], "NaN")],
)
def test_bad_input(confidence: list[float], correct: list[bool], message: str) -> None:
    with pytest.raises(UserError, match=message):
        accuracy_at_coverage(np.array(confidence), np.array(correct), 0.5)


def test_conformal_sets_cover_exchangeable_samples() -> None:
    rng = np.random.default_rng(0)
    support = rng.dirichlet(np.ones(5), size=4000)
    labels = np.array([rng.choice(5, p=row) for row in support])
    sets = Conformal.fit(support[:2000], labels[:2000]).sets(support[2000:], 0.9)
    assert sets[np.arange(2000), labels[2000:]].mean() == pytest.approx(0.9, abs=0.02)
    with pytest.raises(UserError, match="at least 19 calibration samples"):
        Conformal.fit(support[:10], labels[:10]).sets(support, 0.95)


def test_label_issues_by_hand() -> None:
    mass = np.array([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    found = find_label_issues(mass, np.array([0, 0, 0, 1]), indices=np.arange(10, 14), classes=np.array(["a", "b"]))
    assert [(issue.index, issue.given_label, issue.suggested_label) for issue in found] == [
        (13, "b", "a"),
        (11, "a", "b"),
    ]
    assert [issue.score for issue in found] == pytest.approx([0.9, 0.8])
