"""An assessment is what the metrics say of the classifier's own decisions, and calibration reaches its scores."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.uncertainty.calibration import brier_score, expected_calibration_error
from protoattend.uncertainty.selective import guaranteed_threshold, risk_coverage


@pytest.fixture(scope="module")
def tumours() -> tuple[ProtoAttendClassifier, np.ndarray, np.ndarray]:
    """A classifier of two classes, and samples it has not seen."""
    X, y = load_breast_cancer(return_X_y=True)
    names = np.where(y == 0, "malignant", "benign")
    return (
        ProtoAttendClassifier(max_epochs=8, random_state=0, verbose=0).fit(X[:250], names[:250]),
        X[250:],
        names[250:],
    )


def test_assessment_is_of_the_decisions(tumours: Any) -> None:
    classifier, X, y = tumours
    seen = classifier.assess(X, y, name="tumours")
    assert len(seen) == len(y)
    np.testing.assert_array_equal(seen.correct, classifier.predict(X) == y)
    np.testing.assert_array_equal(seen.confidence, classifier.confidence(X))
    np.testing.assert_array_equal(seen.probabilities, classifier.predict_proba(X))
    metrics = seen.metrics()
    assert metrics["accuracy"] == pytest.approx(classifier.score(X, y))
    assert metrics["aurc"] == risk_coverage(seen.confidence, seen.correct).aurc
    assert metrics["ece"] == expected_calibration_error(seen.confidence, seen.correct)
    assert metrics["brier"] == brier_score(seen.confidence, seen.correct)
    assert all(np.isfinite(value) for value in metrics.values())
    assert seen.risk_coverage().name == seen.reliability().name == seen.adaptive_reliability().name == "tumours"
    assert seen.adaptive_reliability(bins=15).ece == metrics["adaptive_ece"]
    assert len(seen.plot().axes) == 2


def test_auc_of_the_positive_class(tumours: Any, digit_classifier: ProtoAttendClassifier, few_digits: Any) -> None:
    classifier, X, y = tumours
    seen = classifier.assess(X, y)
    benign, malignant = seen.auc_coverage("benign"), seen.auc_coverage()
    np.testing.assert_allclose(benign.auc, malignant.auc)  # with two classes the one is the other turned round
    assert malignant.auc[-1] > 0.95
    with pytest.raises(UserError, match="positive must be one of"):
        seen.auc_coverage("unknown")
    many = digit_classifier.assess(*few_digits)
    with pytest.raises(UserError, match="10 classes"):
        many.auc_coverage()
    assert many.auc_coverage(8).auc[-1] > 0.9


def test_guarantee_reaches_the_estimator(tumours: Any) -> None:
    classifier, X, y = tumours
    seen = classifier.assess(X, y)
    expected = guaranteed_threshold(seen.confidence, seen.correct, accuracy=0.9, guarantee=0.9)
    assert classifier.threshold_for(X, y, accuracy=0.9, guarantee=0.9) == expected
    assert seen.correct[seen.confidence >= expected].mean() > 0.9


def test_lengths_must_agree(tumours: Any) -> None:
    classifier, X, y = tumours
    for method in (classifier.assess, classifier.calibrate, classifier.threshold_for):
        with pytest.raises(UserError, match="one length"):
            method(X, y[:-1])


def test_calibrated_scores(tumours: Any, tmp_path: Path) -> None:
    classifier, X, y = copy.deepcopy(tumours)
    for method in (classifier.calibrated_proba, classifier.calibrated_confidence, classifier.prediction_set):
        with pytest.raises(UserError, match="needs calibration first"):
            method(X)
    before = classifier.assess(X, y)
    classifier.calibrate(X, y)
    np.testing.assert_array_equal(classifier.predict_proba(X), before.probabilities)  # the plain scores stay
    scaled = classifier.calibrated_proba(X)
    own = np.arange(len(y)), before.labels
    assert np.log(scaled[own]).mean() >= np.log(before.probabilities[own]).mean()
    calibrated = classifier.calibrated_confidence(X)
    assert brier_score(calibrated, before.correct) <= brier_score(before.confidence, before.correct)
    sets = classifier.prediction_set(X, 0.9, by_class=True)
    for label in ("malignant", "benign"):
        assert np.mean([label in some for some, truth in zip(sets, y, strict=True) if truth == label]) >= 0.9
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.calibrated_proba(X), scaled)
    np.testing.assert_array_equal(loaded.calibrated_confidence(X), calibrated)
    assert loaded.prediction_set(X, 0.9, by_class=True) == sets
