"""The report's comparison: deciding by prototypes, by the input's own value, and by a plain encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from protoattend.app.report.measured import Measured
from protoattend.app.report.training import duration
from protoattend.errors import UserError
from protoattend.uncertainty.calibration import expected_calibration_error
from protoattend.uncertainty.selective import risk_coverage
from protoattend.viz.blocks import Section, Table
from protoattend.viz.svg_charts import interval
from protoattend.viz.text import counted, precise


class Baseline(Protocol):
    """A fitted classifier to compare with, such as `PlainClassifier`."""

    @property
    def classes_(self) -> np.ndarray: ...
    @property
    def predict_proba(self) -> Callable[[Any], np.ndarray]: ...


@dataclass(frozen=True)
class Contender:
    """One way to decide: its confidence, which of its predictions are right, and how long it trained, where known."""

    name: str
    confidence: np.ndarray
    correct: np.ndarray
    seconds: float | None = None


def comparison_section(m: Measured, X: Any, baseline: Baseline | None) -> Section:
    """Return how often each way to decide is right on the same rows."""
    assert m.labels is not None
    labels = m.labels[m.known]
    own = m.own_probabilities[m.known]
    contenders = [
        Contender("ProtoAttend, by prototypes", m.decided.confidence[m.known], m.correct, m.clf.history_.seconds),
        Contender("The same network, by the row's own value", own.max(1), own.argmax(1) == labels),
    ]
    if baseline is not None:
        contenders.append(_baseline(m, X, baseline, labels))
    first, last = contenders[0], contenders[-1]
    only_first, only_last = int((first.correct & ~last.correct).sum()), int((last.correct & ~first.correct).sum())
    other = "the plain encoder" if baseline is not None else "the encoder's own value"
    lead = (
        f"Prototypes are right on {precise(float(first.correct.mean()))}, {other} on "
        f"{precise(float(last.correct.mean()))}. On {counted(only_first + only_last, 'row')} one is right and the "
        f"other wrong: prototypes on {only_first}, {other} on {only_last}{_by_chance(only_first, only_last)}."
    )
    return Section("Comparison", lead, [_table(contenders)])


def _by_chance(one: int, other: int) -> str:
    """Return whether chance explains that one is right alone more often than the other: McNemar's exact test."""
    from scipy.stats import binomtest

    if one + other == 0:
        return ""
    p = float(binomtest(one, one + other).pvalue)
    told = "which chance may well explain" if p >= 0.05 else "which chance hardly explains"
    return f", {told} (p = {p:.2f}, exact McNemar test)" if p >= 0.005 else f", {told} (p < 0.005, exact McNemar test)"


def _baseline(m: Measured, X: Any, baseline: Baseline, labels: np.ndarray) -> Contender:
    if baseline.classes_.tolist() != m.clf.classes_.tolist():
        raise UserError(
            f"baseline must know the classes of the classifier, {m.clf.classes_.tolist()[:9]}, but it knows "
            f"{baseline.classes_.tolist()[:9]}; fit it on the same labels."
        )
    probabilities = np.asarray(baseline.predict_proba(X))[m.known]
    seconds = getattr(getattr(baseline, "history_", None), "seconds", None)
    name = "Plain encoder, trained without attention"
    return Contender(name, probabilities.max(1), probabilities.argmax(1) == labels, seconds)


def _table(contenders: list[Contender]) -> Table:
    rows = []
    for each in contenders:
        low, high = interval(int(each.correct.sum()), len(each.correct))
        rows.append(
            (
                each.name,
                precise(float(each.correct.mean())),
                f"{precise(low)} – {precise(high)}",
                f"{risk_coverage(each.confidence, each.correct).aurc:.4f}",
                precise(expected_calibration_error(np.clip(each.confidence, 0, 1), each.correct)),
                "" if each.seconds is None else duration(each.seconds),
            )
        )
    caption = (
        "AURC is the mean error over all shares answered, most confident first: lower ranks errors better. "
        "Calibration error is the mean gap of confidence and accuracy."
    )
    columns = ("Way to decide", "Right", "95 % interval", "AURC", "Calibration error", "Training")
    return Table(caption, columns, tuple(rows), frozenset(range(1, 6)))
