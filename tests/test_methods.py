"""The methods that a classifier has of each room: what they refuse, and that they are what the metrics say of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.monitoring.ood_curves import ConfidenceRatios, OodCurve

Asked = Callable[[ProtoAttendClassifier, np.ndarray, np.ndarray], Any]
OF_NOTHING: dict[str, Asked] = {
    "assess": lambda classifier, X, y: classifier.assess(X, y),
    "calibrate": lambda classifier, X, y: classifier.calibrate(X, y),
    "prediction_set": lambda classifier, X, _: classifier.prediction_set(X),
    "ood_score": lambda classifier, X, _: classifier.ood_score(X),
    "ood_score of keys": lambda classifier, X, _: classifier.ood_score(X, "key-neighbours"),
    "ood_score combined": lambda classifier, X, _: classifier.ood_score(X, "combined"),
    "ood_detector": lambda classifier, X, _: classifier.ood_detector(X),
    "p_value": lambda classifier, X, _: classifier.ood_detector().p_value(X),
    "ood_curve": lambda classifier, X, _: classifier.ood_curve(X, X),
    "confidence_ratios": lambda classifier, X, _: classifier.confidence_ratios({"nothing": X}),
    "error_analysis": lambda classifier, X, y: classifier.error_analysis(X, y),
    "contrast": lambda classifier, X, _: classifier.contrast(X, 1),
    "prototype_quality": lambda classifier, X, y: classifier.prototype_quality(X, y),
    "find_label_issues": lambda classifier, X, y: classifier.find_label_issues(X, y),
    "drift_monitor": lambda classifier, X, _: classifier.drift_monitor(X),
}


@pytest.mark.parametrize("method", OF_NOTHING)
def test_no_rows_are_refused(wine_classifier: ProtoAttendClassifier, wine: Any, method: str) -> None:
    X, y = wine
    with pytest.raises(UserError, match="X needs at least one row"):
        OF_NOTHING[method](copy.copy(wine_classifier), X[:0], y[:0])


@pytest.mark.parametrize("method", ["disagreement", "key-neighbours", "combined"])
def test_ood_curve_is_that_of_the_scores(wine_classifier: ProtoAttendClassifier, wine: Any, method: str) -> None:
    inside, outside = wine[0], 3 * wine[0][:50]
    found = wine_classifier.ood_curve(inside, outside, method)
    scores = (wine_classifier.ood_score(X, method) for X in (inside, outside))
    expected = OodCurve.from_scores(*scores)
    assert (found.auroc, found.aupr, found.fpr95) == (expected.auroc, expected.aupr, expected.fpr95)
    assert found.name == method
    with pytest.raises(UserError, match="method must be one of"):
        wine_classifier.ood_curve(inside, outside, "unknown")


def test_confidence_ratios_are_those_of_the_confidences(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    sets = {"in": wine[0], "out": 3 * wine[0][:50]}
    found = wine_classifier.confidence_ratios(sets)
    expected = ConfidenceRatios.from_confidences({name: wine_classifier.confidence(X) for name, X in sets.items()})
    for name in sets:
        np.testing.assert_array_equal(found.above[name], expected.above[name])
