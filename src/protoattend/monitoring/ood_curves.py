"""How well a score tells strange inputs from usual ones: curves with their figures, and their plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.errors import UserError
from protoattend.monitoring.ood import finite
from protoattend.viz import style as display
from protoattend.viz.figures import LINE

KEPT = 0.95  # share of the usual inputs that pass where fpr95 is taken


@dataclass(frozen=True)
class OodCurve:
    """Telling strange inputs (the positives) from usual ones by a score that is higher for the strange.

    `false_alarms` and `detected` are the shares of usual and of strange inputs at or above each threshold. `auroc` is
    the area under that curve, `aupr` the average precision at finding strange inputs, and `fpr95` the share of strange
    inputs that pass where 95 % of the usual ones pass.
    """

    false_alarms: np.ndarray
    detected: np.ndarray
    auroc: float
    aupr: float
    fpr95: float
    name: str = ""

    @classmethod
    def from_scores(cls, usual: Any, strange: Any, *, name: str = "") -> OodCurve:
        """Compare scores of usual `(n,)` and of strange inputs `(m,)`; equal ones are told apart by nothing.

        >>> OodCurve.from_scores([0.1, 0.2, 0.3], [0.3, 0.9]).auroc
        0.9166666666666666
        """
        low, high = finite(usual, "usual scores"), finite(strange, "strange scores")
        thresholds = np.unique(np.concatenate([low, high]))[::-1]
        false_alarms, detected = (_share_at_least(part, thresholds) for part in (low, high))
        found, alarms = detected * len(high), false_alarms * len(low)
        precision = found / (found + alarms)
        passing = np.sort(low)[int(np.ceil(KEPT * len(low))) - 1]
        x, y = np.append(0.0, false_alarms), np.append(0.0, detected)
        return cls(
            false_alarms=x,
            detected=y,
            auroc=float(np.trapezoid(y, x)),
            aupr=float((np.diff(y) * precision).sum()),
            fpr95=float((high <= passing).mean()),
            name=name,
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve; further ones drawn on the same axis are compared with it. Return the axis."""
        ax = display.axes(ax, "plotting a detection curve", size=(5.2, 4.8))
        if not ax.lines:
            ax.plot([0, 1], [0, 1], color=LINE, linewidth=1.2, zorder=1)
        label = f"{self.name} (AUROC {self.auroc:.3f})" if self.name else f"AUROC {self.auroc:.3f}"
        ax.plot(self.false_alarms, self.detected, label=label, **display.next_look(ax))
        display.dress(
            ax,
            title="Strange against usual inputs",
            xlabel="usual inputs taken for strange",
            ylabel="strange inputs detected",
        )
        display.percents(ax.xaxis)
        display.percents(ax.yaxis)
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        ax.legend(loc="lower right", frameon=False)
        return ax


@dataclass(frozen=True)
class ConfidenceRatios:
    """The share of inputs above each confidence, for several sets of inputs (the paper's figure of deviating data).

    `above[name]` is the share of the set called so whose confidence is at least `levels`.
    """

    levels: np.ndarray
    above: Mapping[str, np.ndarray]

    @classmethod
    def from_confidences(cls, confidences: Mapping[str, Any]) -> ConfidenceRatios:
        """Compare sets of inputs by name; the first is usually the one like the training data."""
        if not confidences:
            raise UserError("at least one set of confidences is needed, but there is none; pass {name: confidences}.")
        levels = np.linspace(0, 1, 201)
        return cls(levels, {name: _share_at_least(finite(c, name), levels - 1e-9) for name, c in confidences.items()})

    def plot(self, ax: Any = None) -> Any:
        """Draw one curve a set; return the axis."""
        ax = display.axes(ax, "plotting ratios above a confidence")
        for name, share in self.above.items():
            ax.plot(self.levels, share, label=name, **display.next_look(ax))
        display.dress(ax, title="Sure answers by data", xlabel="confidence", ylabel="inputs at or above it")
        display.percents(ax.yaxis)
        ax.set(xlim=(0, 1.005), ylim=(0, 1.02))
        ax.legend(loc="lower left", frameon=False)
        return ax


def _share_at_least(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return 1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
