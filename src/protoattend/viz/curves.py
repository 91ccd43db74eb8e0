"""Curves of confidence and of out-of-distribution scores; further ones on the same axis are compared with the first.

Every function draws arrays that were computed before, on `ax` or on an axis of its own, and returns the axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from protoattend.viz.palette import AGREES, DIFFERS, INK, LINE, QUIET
from protoattend.viz.style import axes, dress, named, next_look, percents

COVERAGE = "coverage: share of samples answered"


def draw_risk_coverage(ax: Any, risk: np.ndarray, *, reachable: int, aurc: float, name: str) -> Any:
    """Draw the risk `(n,)` of the k most confident samples, k = 1..n.

    Dotted is what no threshold reaches: fewer than `reachable` samples, as so many share the highest confidence.
    """
    ax = axes(ax, "plotting a risk-coverage curve")
    top = ax.get_ylim()[1] if ax.lines else 0.0
    look = next_look(ax)
    coverage = np.arange(1, len(risk) + 1) / len(risk)
    first = reachable - 1
    ax.plot(coverage[first:], risk[first:], label=named(name, f"AURC {aurc:.4f}"), **look)
    if first > 0:
        ax.plot(coverage[: first + 1], risk[: first + 1], **look | {"linestyle": ":", "linewidth": 1.2})
        ax.plot(coverage[first], risk[first], "o", color=look["color"], markersize=4.5, zorder=3)
    dress(ax, title="Risk and coverage", xlabel=COVERAGE, ylabel="error of the answers")
    percents(ax.xaxis)
    percents(ax.yaxis)
    # A single wrong answer among the first few may be a risk of 100 %, which would flatten all the rest.
    settled = risk[coverage >= 0.05].max()
    ax.set(xlim=(0, 1.01), ylim=(0, max(top, 1.25 * settled, 0.01)))
    ax.legend(loc="upper left", frameon=False)
    return ax


def draw_auc_coverage(ax: Any, coverage: np.ndarray, auc: np.ndarray, *, name: str) -> Any:
    """Draw the AUC of the answers `(k,)` against the share answered `(k,)`, ascending."""
    ax = axes(ax, "plotting AUC against coverage")
    label = f"{name} (all: {auc[-1]:.3f})" if name else f"AUC of all samples {auc[-1]:.3f}"
    ax.plot(coverage, auc, label=label, **next_look(ax))
    dress(ax, title="AUC and coverage", xlabel=COVERAGE, ylabel="AUC of the answers")
    percents(ax.xaxis)
    ax.set(xlim=(0, 1.01))
    ax.legend(loc="best", frameon=False)
    return ax


def draw_reliability(
    ax: Any,
    edges: np.ndarray,
    *,
    counts: np.ndarray,
    confidence: np.ndarray,
    accuracy: np.ndarray,
    ece: float,
    name: str,
) -> Any:
    """Draw accuracy by confidence in k bins, `edges` `(k + 1,)`, with the number of samples of each above it."""
    ax = axes(ax, "plotting a reliability diagram", (6.0, 5.2))
    left, width = edges[:-1], np.diff(edges)
    full = counts > 0
    ax.bar(left, np.nan_to_num(accuracy), width, align="edge", color=AGREES, edgecolor="white", alpha=0.6)
    ax.plot([0, 1], [0, 1], color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, label="confidence = accuracy")
    ax.vlines(confidence[full], accuracy[full], confidence[full], color=DIFFERS, linewidth=2)
    ax.plot(confidence[full], confidence[full], "o", color=DIFFERS, markersize=4.5, label="mean confidence")
    dress(ax, title="", xlabel="confidence", ylabel="share of predictions that are right")
    percents(ax.xaxis)
    percents(ax.yaxis)
    ax.grid(axis="x", visible=False)
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(loc="upper left", frameon=False)
    above = _counts_above(ax, left, width, counts)
    title = f"Reliability{f' of {name}' if name else ''}: calibration error {100 * ece:.1f} %"
    above.set_title(title, loc="left", color=INK, size=11, weight="bold")
    return ax


def _counts_above(ax: Any, left: np.ndarray, width: np.ndarray, counts: np.ndarray) -> Any:
    """Draw the number of samples of each bin on a small axis above `ax`, and return that."""
    above = ax.inset_axes((0, 1.04, 1, 0.17), sharex=ax)
    above.bar(left, counts, width, align="edge", color=LINE, edgecolor="white")
    for x, wide, count in zip(left, width, counts, strict=True):
        if wide >= 0.04:  # a narrower bin of equal-mass ones has no room for its number
            above.text(x + wide / 2, count, f"{count:,}", ha="center", va="bottom", size=8, color=QUIET)
    above.set(ylim=(0, 1.45 * counts.max()), yticks=[])
    above.tick_params(bottom=False, labelbottom=False)
    above.spines[["top", "right", "left"]].set_visible(False)
    above.spines["bottom"].set_color(LINE)
    above.set_ylabel("samples", color=QUIET, size=8, rotation=0, ha="right", va="center")
    return above


def draw_ood_curve(ax: Any, false_alarms: np.ndarray, detected: np.ndarray, *, auroc: float, name: str) -> Any:
    """Draw the share of OOD inputs detected `(k,)` against that of in-distribution inputs taken for such `(k,)`."""
    ax = axes(ax, "plotting a detection curve", size=(5.2, 4.8))
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color=LINE, linewidth=1.2, zorder=1)
    ax.plot(false_alarms, detected, label=named(name, f"AUROC {auroc:.3f}"), **next_look(ax))
    dress(
        ax,
        title="Out-of-distribution detection",
        xlabel="in-distribution inputs taken for OOD",
        ylabel="OOD inputs detected",
    )
    percents(ax.xaxis)
    percents(ax.yaxis)
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    ax.legend(loc="lower right", frameon=False)
    return ax


def draw_confidence_ratios(ax: Any, levels: np.ndarray, above: Mapping[str, np.ndarray]) -> Any:
    """Draw for each set of inputs, by name, the share `(k,)` at or above the levels of confidence `(k,)`."""
    ax = axes(ax, "plotting ratios above a confidence")
    for name, share in above.items():
        ax.plot(levels, share, label=name, **next_look(ax))
    dress(ax, title="Confident answers by data", xlabel="confidence", ylabel="inputs at or above it")
    percents(ax.yaxis)
    ax.set(xlim=(0, 1.005), ylim=(0, 1.02))
    ax.legend(loc="lower left", frameon=False)
    return ax
