"""What judges say and how many labels are wrong, against Bayes' rule on data whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from protoattend.data_quality.label_errors import find_label_issues, inject_label_noise
from protoattend.data_quality.label_noise import calibrated, likelihoods, noise_rate

N, C = 4000, 5


def judged(rate: float, strength: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return right labels, given ones, and what a judge who has learned from given labels says, calibrated.

    The right label is drawn from the judge's own opinion, as of one who knows how much he knows.
    """
    rng = np.random.default_rng(seed)
    logits = strength * rng.normal(size=(N, C))
    opinion = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    right = (opinion.cumsum(1) > rng.random((N, 1))).argmax(1)
    given = inject_label_noise(right, rate, random_state=seed).labels
    wrong = rate / (C - 1)
    return right, given, wrong + (1 - rate - wrong) * opinion


def by_bayes(shares: np.ndarray, given: np.ndarray, rate: float) -> np.ndarray:
    wrong = rate / (C - 1)
    found = []
    for row, label in zip(shares, given, strict=True):
        joint = [(share - wrong) * (1 - rate if c == label else wrong) for c, share in enumerate(row)]
        found.append(np.array(joint) / sum(joint))
    return np.array(found)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4, 0.6])
def test_likelihoods_are_those_of_bayes(rate: float) -> None:
    right, given, shares = judged(rate, strength=4)
    assert noise_rate(shares, given) == pytest.approx(rate, abs=0.04)
    likely = likelihoods(shares, given)
    np.testing.assert_allclose(likely.sum(1), 1)
    assert np.abs(likely - by_bayes(shares, given, rate)).mean() < 0.05
    assert likely.max(1).mean() == pytest.approx((likely.argmax(1) == right).mean(), abs=0.03), (
        "they mean what they say"
    )


@pytest.mark.parametrize("strength", [2.0, 3.0, 4.0])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_correcting_does_not_make_more_labels_wrong(rate: float, strength: float) -> None:
    right, given, shares = judged(rate, strength)
    found = find_label_issues(shares, given, indices=np.arange(N), classes=np.arange(C))
    before, after = (given == right).mean(), (found.corrected(given) == right).mean()
    assert after > before - 0.01
    if rate == 0.4 and strength == 4.0:
        assert after > before + 0.2
    assert found.certainty is not None
    np.testing.assert_array_equal(found.corrected(given), likelihoods(shares, given).argmax(1))


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4])
def test_weak_judges_dispute_more_than_they_correct(rate: float) -> None:
    right, given, shares = judged(rate, strength=1.0)
    found = find_label_issues(shares, given, indices=np.arange(N), classes=np.arange(C))
    corrected = found.corrected(given)
    changed = np.flatnonzero(corrected != given)
    assert set(changed) < set(found.indices)
    disputed = given.copy()
    disputed[found.indices] = [issue.suggested_label for issue in found]
    assert (corrected == right).mean() > (disputed == right).mean() + 0.1


@pytest.mark.parametrize("strength", [4.0, 8.0])
def test_judges_who_have_not_learned_the_wrong_labels(strength: float) -> None:
    """They are as certain where a label is wrong; how often they are contradicted tells all the same."""
    right, given, shares = judged(0.1, strength)
    wrong = 0.1 / (C - 1)
    opinion = (shares - wrong) / (0.9 - wrong)
    found = find_label_issues(opinion, given, indices=np.arange(N), classes=np.arange(C))
    assert (found.corrected(given) == right).mean() > (given == right).mean() + 0.03


def test_shares_are_sharpened_and_softened_to_fit_the_labels() -> None:
    _, given, shares = judged(0.2, strength=3)
    for power in (0.5, 2.0):
        changed = shares**power / (shares**power).sum(1, keepdims=True)
        np.testing.assert_allclose(calibrated(changed, given), calibrated(shares, given), atol=0.05)


def test_judges_who_know_nothing() -> None:
    shares = np.full((20, C), 1 / C)
    likely = likelihoods(shares, np.arange(20) % C)
    np.testing.assert_array_equal(likely.argmax(1), np.arange(20) % C, "the label that is there is as good as any")


def test_no_label_is_wrong() -> None:
    likely = likelihoods(np.eye(C)[np.arange(50) % C], np.arange(50) % C)
    np.testing.assert_array_equal(likely.argmax(1), np.arange(50) % C)


def test_few_rows_without_noise_are_not_all_anchors() -> None:
    """Forty rows of which the ten clear ones carry the label they look like, and the others any."""
    rng = np.random.default_rng(0)
    clear = np.tile([0.95, 0.05], (10, 1))
    unclear = np.tile([0.55, 0.45], (30, 1))
    labels = np.concatenate([np.zeros(10, dtype=int), rng.integers(0, 2, 30)])
    assert noise_rate(np.concatenate([clear, unclear]), labels) == 0.0
