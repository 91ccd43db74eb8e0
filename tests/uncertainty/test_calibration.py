"""Reliability and recalibration, against scikit-learn and plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from protoattend.errors import UserError
from protoattend.uncertainty.calibration import (
    Recalibration,
    adaptive_calibration_error,
    adaptive_reliability,
    brier_score,
    expected_calibration_error,
    fit_isotonic,
    fit_temperature,
    multiclass_brier_score,
    reliability,
    scale_temperature,
)

rng = np.random.default_rng(0)
CONFIDENCE = np.round(rng.beta(5, 1, size=500), 2)  # with ties, and some on the edges of bins
CORRECT = rng.uniform(size=500) < CONFIDENCE**2


def drawn_logits(n: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that are too confident by `temperature`, and labels drawn from the honest ones."""
    generator = np.random.default_rng(1)
    honest = generator.dirichlet(np.ones(4), size=n)
    labels = np.array([generator.choice(4, p=row) for row in honest])
    too_sure = honest**temperature
    return too_sure / too_sure.sum(1, keepdims=True), labels


@pytest.mark.parametrize("bins", [1, 2, 10, 15])
def test_bins_are_scikit_learns(bins: int) -> None:
    found = reliability(CONFIDENCE, CORRECT, bins=bins)
    accuracy, confidence = calibration_curve(CORRECT, CONFIDENCE, n_bins=bins)
    full = found.counts > 0
    np.testing.assert_allclose(found.accuracy[full], accuracy)
    np.testing.assert_allclose(found.confidence[full], confidence)
    assert np.isnan(found.accuracy[~full]).all()
    assert found.counts.sum() == 500


def test_ece_is_its_definition() -> None:
    expected = 0.0
    edges = np.arange(16) / 15
    for low, high in pairwise(edges):
        inside = np.array([low < c <= high or (low == 0 == c) for c in CONFIDENCE])
        if inside.any():
            expected += inside.mean() * abs(CORRECT[inside].mean() - CONFIDENCE[inside].mean())
    assert expected_calibration_error(CONFIDENCE, CORRECT) == pytest.approx(expected)


def test_adaptive_bins_are_equal_where_there_are_no_ties() -> None:
    confidence = np.random.default_rng(3).permutation(np.linspace(0.3, 1, 60))
    found = adaptive_reliability(confidence, confidence > 0.5, bins=6)
    assert found.counts.tolist() == [10] * 6
    chunks = np.sort(confidence).reshape(6, 10)
    np.testing.assert_allclose(found.confidence, chunks.mean(1))
    np.testing.assert_allclose(found.accuracy, (chunks > 0.5).mean(1))
    assert adaptive_calibration_error(confidence, confidence > 0.5, bins=6) == pytest.approx(
        np.abs(chunks.mean(1) - (chunks > 0.5).mean(1)).mean()
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.4, 0.9, 1.0]), st.booleans()), min_size=1, max_size=30))
def test_adaptive_bins_keep_ties_together(samples: list[tuple[float, bool]]) -> None:
    confidence, correct = (np.array(column) for column in zip(*samples, strict=True))
    found = adaptive_reliability(confidence, correct, bins=5)
    assert found.counts.sum() == len(samples)
    assert (found.counts > 0).all()
    assert (np.diff(found.edges) > 0).all() or len(found.counts) == 1
    for low, high, count in zip(found.edges[:-1], found.edges[1:], found.counts, strict=True):
        assert count == ((confidence > low) & (confidence <= high) | (confidence == low) & (low == 0)).sum()
    shuffled = np.random.default_rng(0).permutation(len(samples))
    assert adaptive_calibration_error(confidence, correct) == pytest.approx(
        adaptive_calibration_error(confidence[shuffled], correct[shuffled])
    )


def test_calibrated_and_miscalibrated() -> None:
    generator = np.random.default_rng(0)
    confidence = generator.uniform(size=40_000)
    right = generator.uniform(size=40_000) < confidence
    assert expected_calibration_error(confidence, right) < 0.015
    assert expected_calibration_error(np.ones(4), [1, 1, 0, 0]) == 0.5
    assert expected_calibration_error(np.zeros(4), np.zeros(4)) == 0
    assert reliability(np.full(4, 0.95), [1, 1, 0, 0]).largest_gap == pytest.approx(0.45)


def test_brier_scores_are_scikit_learns() -> None:
    assert brier_score(CONFIDENCE, CORRECT) == pytest.approx(brier_score_loss(CORRECT, CONFIDENCE))
    shares, labels = drawn_logits(200, 1.5)
    # scikit-learn halves the multiclass score only where asked to.
    assert multiclass_brier_score(shares, labels) == pytest.approx(
        brier_score_loss(labels, shares, labels=[0, 1, 2, 3], scale_by_half=False)
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_temperature_is_found_again(temperature: float) -> None:
    shares, labels = drawn_logits(8000, temperature)
    found = fit_temperature(shares, labels)
    assert found == pytest.approx(temperature, rel=0.06)
    losses = {
        t: log_loss(labels, scale_temperature(shares, t), labels=range(4)) for t in (found, 0.9 * found, 1.1 * found)
    }
    assert min(losses, key=lambda t: losses[t]) == found


def test_temperature_keeps_predictions_and_sums() -> None:
    shares, _ = drawn_logits(50, 2.0)
    scaled = scale_temperature(shares, 3.0)
    np.testing.assert_array_equal(scaled.argmax(1), shares.argmax(1))
    np.testing.assert_allclose(scaled.sum(1), 1)
    np.testing.assert_allclose(scale_temperature(shares, 1.0), shares)
    np.testing.assert_allclose(scale_temperature([[1.0, 0.0]], 2.0), [[1.0, 0.0]], atol=1e-100)
    with pytest.raises(UserError, match="above 0"):
        scale_temperature(shares, 0.0)


def test_temperature_is_defined_at_the_extremes() -> None:
    confident = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert fit_temperature(confident, [0, 1]) == pytest.approx(0.05, rel=1e-3)  # all right: as cold as is searched
    assert fit_temperature(confident, [1, 0]) == pytest.approx(20, rel=1e-3)  # all wrong, of two classes: as hot
    assert fit_temperature([[0.50, 0.49, 0.01]], [1]) < 1  # of more it rules out what is neither predicted nor true
    assert fit_temperature([[1.0, 0.0], [1.0, 0.0]], [0, 1]) > 1
    assert 0.05 <= fit_temperature([[0.5, 0.5]], [0]) <= 20


def test_isotonic_map_is_scikit_learns_and_never_worse() -> None:
    confidences, accuracies = fit_isotonic(CONFIDENCE, CORRECT)
    found = Recalibration(1.0, confidences, accuracies).confidence(CONFIDENCE)
    fitted = IsotonicRegression().fit_transform(CONFIDENCE, CORRECT.astype(float))
    np.testing.assert_allclose(found, fitted)
    assert brier_score(found, CORRECT) <= brier_score(CONFIDENCE, CORRECT)
    assert np.all(np.diff(accuracies) >= 0)
    assert Recalibration(1.0, *fit_isotonic([0.7, 0.7, 0.7], [1, 0, 1])).confidence([0.1, 0.9]) == pytest.approx(2 / 3)


def test_state_comes_back() -> None:
    shares, labels = drawn_logits(50, 2.0)
    learned = Recalibration.fit(shares, labels, confidence=shares.max(1), correct=shares.argmax(1) == labels)
    again = Recalibration.from_state(learned.state())
    np.testing.assert_array_equal(again.probabilities(shares), learned.probabilities(shares))
    np.testing.assert_array_equal(again.confidence(shares[:, 0]), learned.confidence(shares[:, 0]))


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [([], [], "empty"), ([1.2], [True], "between 0 and 1"), ([np.nan], [True], "NaN"), ([0.5], [3], "true or false")],
)
def test_bad_scores(confidence: list[float], correct: list[bool], message: str) -> None:
    for measure in (reliability, adaptive_reliability, brier_score, fit_isotonic):
        with pytest.raises(UserError, match=message):
            measure(confidence, correct)


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (np.zeros((0, 2)), [], "empty"),
        ([[0.5, 0.5]], [2], "class numbers"),
        ([[0.5, 0.5]], [0.5], "class numbers"),
        ([[0.5, np.nan]], [0], "NaN"),
        ([[5.0, 3.0]], [0], "between 0 and 1"),
        ([0.5, 0.5], [0, 1], "shapes"),
    ],
)
def test_bad_probabilities(probabilities: list[list[float]], labels: list[int], message: str) -> None:
    for measure in (multiclass_brier_score, fit_temperature):
        with pytest.raises(UserError, match=message):
            measure(probabilities, labels)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [([[0.5, np.nan]], "NaN"), ([[5.0, -3.0]], "between 0 and 1"), ([0.5, 0.5], "n_classes")],
)
def test_bad_probabilities_to_scale(probabilities: list[list[float]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        scale_temperature(probabilities, 2.0)


@pytest.mark.parametrize(("confidence", "message"), [([0.5, np.nan], "NaN"), ([50.0], "between 0 and 1")])
def test_bad_confidence_to_recalibrate(confidence: list[float], message: str) -> None:
    learned = Recalibration(1.0, np.array([0.2, 0.9]), np.array([0.1, 0.8]))
    with pytest.raises(UserError, match=message):
        learned.confidence(confidence)
    assert learned.confidence([]).shape == (0,)


def test_bins_must_be_some() -> None:
    with pytest.raises(UserError, match="bins must be an integer of at least 1"):
        reliability([0.5], [True], bins=0)


def test_plot_shows_every_count() -> None:
    found = reliability([0.95, 0.92, 0.55], [True, False, True], name="ours")
    ax = found.plot()
    above = ax.child_axes[0]
    assert [text.get_text() for text in above.texts] == ["0"] * 5 + ["1", "0", "0", "0", "2"]
    assert "ours" in above.get_title(loc="left")
    assert adaptive_reliability(CONFIDENCE, CORRECT).plot(ax) is ax
