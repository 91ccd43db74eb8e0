"""Risk and coverage, against definitions spelled out: every order of tied samples, every threshold tried."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from protoattend.data_quality.label_errors import find_label_issues
from protoattend.errors import UserError
from protoattend.uncertainty.selective import (
    accuracy_at_coverage,
    auc_coverage,
    coverage_at_accuracy,
    guaranteed_threshold,
    risk_coverage,
    threshold_for_accuracy,
)

SAMPLES = st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.7, 1.0]), st.booleans()), min_size=1, max_size=5)


def aurc_in_order(correct: np.ndarray) -> float:
    """Return the area by its definition, for samples in the order in which they are answered."""
    return float(np.mean([np.mean(~correct[:k]) for k in range(1, len(correct) + 1)]))


def orders(confidence: np.ndarray) -> list[np.ndarray]:
    """Return every order of the samples in which confidence never rises."""
    every = (np.array(order) for order in permutations(range(len(confidence))))
    return [order for order in every if np.all(np.diff(confidence[order]) <= 0)]


@settings(deadline=None)
@given(SAMPLES)
def test_ties_count_as_the_mean_over_their_orders(samples: list[tuple[float, bool]]) -> None:
    confidence, correct = np.array([s[0] for s in samples]), np.array([s[1] for s in samples])
    curve = risk_coverage(confidence, correct)
    possible = orders(confidence)
    assert curve.aurc == pytest.approx(np.mean([aurc_in_order(correct[order]) for order in possible]))
    best = min(aurc_in_order(correct[list(order)]) for order in permutations(range(len(correct))))
    assert curve.e_aurc == pytest.approx(curve.aurc - best)
    for k in range(1, len(samples) + 1):
        expected = np.mean([correct[order[:k]].mean() for order in possible])
        assert accuracy_at_coverage(confidence, correct, k / len(samples)) == pytest.approx(expected)


@settings(deadline=None)
@given(SAMPLES, st.randoms(use_true_random=False))
def test_nothing_depends_on_the_order_of_samples(samples: list[tuple[float, bool]], random: Any) -> None:
    shuffled = random.sample(samples, len(samples))
    (c1, r1), (c2, r2) = (tuple(zip(*some, strict=True)) for some in (samples, shuffled))
    one, other = risk_coverage(c1, r1), risk_coverage(c2, r2)
    for name in ("thresholds", "answered", "errors"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert accuracy_at_coverage(c1, r1, 0.5) == accuracy_at_coverage(c2, r2, 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_the_lowest_that_works(seed: int) -> None:
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.uniform(size=40), 1)  # many ties
    correct = rng.uniform(size=40) < confidence
    works = [t for t in np.unique(confidence) if correct[confidence >= t].mean() >= 0.8]
    if works:
        assert threshold_for_accuracy(confidence, correct, 0.8) == min(works)
        assert coverage_at_accuracy(confidence, correct, 0.8) == (confidence >= min(works)).mean()
    else:
        assert coverage_at_accuracy(confidence, correct, 0.8) == 0
        with pytest.raises(UserError, match="no confidence threshold"):
            threshold_for_accuracy(confidence, correct, 0.8)


def test_perfect_constant_and_reversed_confidence() -> None:
    correct = np.array([True] * 6 + [False] * 2)
    assert risk_coverage(correct, correct).e_aurc == pytest.approx(0)
    assert risk_coverage(np.full(8, 0.3), correct).aurc == pytest.approx(0.25)  # any order is as good: the error rate
    assert risk_coverage(~correct, correct).aurc > 0.5
    assert risk_coverage(np.ones(3), np.ones(3)).aurc == risk_coverage(np.ones(3), np.ones(3)).e_aurc == 0
    assert risk_coverage(np.ones(3), np.zeros(3)).aurc == 1
    assert risk_coverage([0.1, 0.9], [0, 0]).e_aurc == 0


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "empty"),
        ([0.5], [True, False], "one length"),
        ([np.nan], [True], "NaN"),
        ([[0.5]], [[True]], "one length"),
        ([0.5], [np.nan], "true or false"),
        ([0.5, 0.6], [0, 2], "true or false"),
    ],
)
def test_bad_input(confidence: list[float], correct: list[bool], message: str) -> None:
    for measure in (accuracy_at_coverage, coverage_at_accuracy, threshold_for_accuracy):
        with pytest.raises(UserError, match=message):
            measure(confidence, correct, 0.5)
    with pytest.raises(UserError, match=message):
        guaranteed_threshold(confidence, correct, accuracy=0.9)


@pytest.mark.parametrize("share", [0, -1, 1.5, np.nan])
def test_shares_must_be_shares(share: float) -> None:
    for measure in (accuracy_at_coverage, coverage_at_accuracy, threshold_for_accuracy):
        with pytest.raises(UserError, match="above 0 and at most 1"):
            measure([0.5], [True], share)
    with pytest.raises(UserError, match="above 0 and below 1"):
        guaranteed_threshold([0.5], [True], accuracy=share)


@pytest.mark.parametrize(("grid", "message"), [([], "at least one threshold"), ([0.5, np.nan], "NaN")])
def test_grid_must_hold_thresholds(grid: list[float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        guaranteed_threshold([0.5], [True], accuracy=0.9, grid=grid)


def draw(rng: np.random.Generator, n: int, accuracy_at: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples of which many share the confidence 1, as sparsemax gives, with a known accuracy at each level."""
    level = rng.integers(0, 6, n)
    confidence = np.array([0.2, 0.5, 0.7, 0.91, 0.985, 1.0])[level]
    return confidence, rng.uniform(size=n) < np.asarray(accuracy_at)[level]


# Increasing, flat just below that asked (the worst case), and one whose most confident samples are worse than others.
@pytest.mark.parametrize(
    "accuracy_at",
    [(0.3, 0.6, 0.8, 0.88, 0.93, 0.99), (0.899,) * 6, (0.5, 0.97, 0.97, 0.97, 0.85, 0.899)],
)
def test_guarantee_fails_no_more_often_than_it_says(accuracy_at: tuple[float, ...]) -> None:
    rng = np.random.default_rng(0)
    true_accuracy = {
        t: np.mean([a for c, a in zip((0.2, 0.5, 0.7, 0.91, 0.985, 1.0), accuracy_at, strict=True) if c >= t])
        for t in (1.0, 0.985, 0.91, 0.7, 0.5, 0.2)
    }
    broken, runs = 0, 400
    for _ in range(runs):
        confidence, correct = draw(rng, 600, accuracy_at)
        try:
            threshold = guaranteed_threshold(confidence, correct, accuracy=0.9, guarantee=0.8)
        except UserError:
            continue
        lowest = min(t for t in true_accuracy if t >= threshold)
        broken += true_accuracy[lowest] < 0.9
    assert broken / runs <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / runs)


def test_guarantee_finds_what_many_samples_prove_and_is_stricter_than_no_guarantee() -> None:
    rng = np.random.default_rng(1)
    confidence, correct = draw(rng, 30_000, (0.3, 0.5, 0.7, 0.93, 0.96, 0.99))
    # True accuracies of answers from each level on: 0.73, 0.816, 0.895, 0.96, 0.975, 0.99.
    assert guaranteed_threshold(confidence, correct, accuracy=0.95) == pytest.approx(0.75)  # of the grid, below 0.91
    assert threshold_for_accuracy(confidence, correct, 0.95) == 0.91
    few, right = draw(rng, 60, (0.3, 0.5, 0.7, 0.93, 0.96, 0.99))
    with pytest.raises(UserError, match="more labelled samples"):
        guaranteed_threshold(few, right, accuracy=0.95)
    own_scores = guaranteed_threshold(100 * confidence, correct, accuracy=0.95, grid=range(0, 101, 10))
    assert own_scores == 80


def test_auc_by_coverage_equals_scikit_learns_on_the_answered() -> None:
    rng = np.random.default_rng(0)
    confidence, positive = np.round(rng.uniform(size=80), 1), rng.uniform(size=80) < 0.4
    scores = positive + rng.normal(size=80)
    found = auc_coverage(confidence, scores, positive)
    assert found.thresholds.tolist() == np.unique(confidence)[::-1].tolist()
    for threshold, coverage, auc in zip(found.thresholds, found.coverage, found.auc, strict=True):
        answered = confidence >= threshold
        assert coverage == pytest.approx(answered.mean())
        assert auc == pytest.approx(roc_auc_score(positive[answered], scores[answered]))
    thinned = auc_coverage(rng.uniform(size=80), scores, positive, points=7)
    assert len(thinned.auc) == 7
    assert thinned.coverage[-1] == 1


def test_auc_where_it_does_not_exist() -> None:
    found = auc_coverage([0.9, 0.8, 0.7], [1.0, 2.0, 0.0], [True, True, False])
    assert np.isnan(found.auc[:2]).all()
    assert found.auc[2] == 1
    with pytest.raises(UserError, match="two classes"):
        auc_coverage([0.9, 0.8], [1.0, 2.0], [True, True])
    with pytest.raises(UserError, match="scores must be numbers"):
        auc_coverage([0.9, 0.8], [1.0, np.nan], [True, False])
    with pytest.raises(UserError, match="one for each"):
        auc_coverage([0.9, 0.8], [1.0], [True, False])


def test_plots_compare_on_one_axis() -> None:
    ax = risk_coverage([0.9, 0.5, 0.2], [True, True, False], name="ours").plot()
    assert risk_coverage([1.0, 1.0, 0.2], [True, False, True], name="theirs").plot(ax) is ax
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [text.split()[0] for text in texts] == ["ours", "theirs"]
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines if line.get_label()[0] != "_"}
    assert len(looks) == 2
    ax = auc_coverage([0.9, 0.8, 0.7], [1.0, 2.0, 0.0], [True, True, False]).plot()
    assert ax.get_ylabel() == "AUC of the answers"


def test_label_issues_by_hand() -> None:
    mass = np.array([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    found = find_label_issues(mass, np.array([0, 0, 0, 1]), indices=np.arange(10, 14), classes=np.array(["a", "b"]))
    assert [(issue.index, issue.given_label, issue.suggested_label) for issue in found] == [
        (13, "b", "a"),
        (11, "a", "b"),
    ]
    assert [issue.score for issue in found] == pytest.approx([0.9, 0.8])
