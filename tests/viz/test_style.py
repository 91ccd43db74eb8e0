"""Every plot of one axis draws on the one it is given, opens no figure of its own, and returns the axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.monitoring.drift import DriftMonitor, DriftReport


def _monitor(classifier: ProtoAttendClassifier, X: np.ndarray) -> DriftMonitor:
    monitor = classifier.drift_monitor(X[:100])
    monitor.update(classifier.prototype_usage(X[100:]))
    return monitor


def _report(classifier: ProtoAttendClassifier, X: np.ndarray) -> DriftReport:
    return _monitor(classifier, X).report()


Made = Callable[[ProtoAttendClassifier, np.ndarray, np.ndarray], Any]
DISPLAYS: dict[str, Made] = {
    "RiskCoverage": lambda classifier, X, y: classifier.assess(X, y).risk_coverage(),
    "AucCoverage": lambda classifier, X, y: classifier.assess(X, y).auc_coverage(positive=1),
    "Reliability": lambda classifier, X, y: classifier.assess(X, y).reliability(),
    "OodCurve": lambda classifier, X, _: classifier.ood_curve(X, 3 * X),
    "ConfidenceRatios": lambda classifier, X, _: classifier.confidence_ratios({"in": X, "out": 3 * X}),
    "DriftReport": lambda classifier, X, _: _report(classifier, X),
    "DriftMonitor": lambda classifier, X, _: _monitor(classifier, X),
    "ErrorAnalysis": lambda classifier, X, y: classifier.error_analysis(X, y),
    "Contrast": lambda classifier, X, _: classifier.contrast(X[:1], 1)[0],
    "PrototypeQuality": lambda classifier, X, y: classifier.prototype_quality(X[:20], y[:20]),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_plots_draw_on_the_axis_they_are_given(wine_classifier: ProtoAttendClassifier, wine: Any, name: str) -> None:
    import matplotlib.pyplot as plt

    shown = DISPLAYS[name](wine_classifier, *wine)
    assert type(shown).__name__ == name
    figure, (ax, other) = plt.subplots(1, 2)
    before, open_figures = len(ax.get_children()), plt.get_fignums()
    assert shown.plot(ax) is ax
    assert len(ax.get_children()) > before
    assert not other.has_data()
    assert figure.axes == [ax, other]
    assert plt.get_fignums() == open_figures
