"""Charts of drift, contrasts, errors, prototype quality and training.

Every function draws what was computed before, on `ax` or on an axis of its own, and returns the axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from protoattend.viz.decisions import Explained, PrototypeShown
from protoattend.viz.palette import AGREES, DIFFERS, INK, LINE, QUIET, colour_of
from protoattend.viz.style import axes, dress, next_look, percents, shading
from protoattend.viz.text import plain

MOST_PROTOTYPES = 10  # that took over
SIGN_STYLES = ((0, (4, 2)), (0, (1, 1.2)), "-.")


class ChangeShown(Protocol):
    """A share before and now, as it is handed in."""

    @property
    def name(self) -> str: ...
    @property
    def before(self) -> float: ...
    @property
    def now(self) -> float: ...


class RivalShown(Protocol):
    """A candidate of another class as it is handed in, and the weight it needs to turn the decision."""

    @property
    def prototype(self) -> PrototypeShown: ...
    @property
    def needed(self) -> float: ...


def draw_drift_evidence(
    ax: Any,
    n_seen: np.ndarray,
    evidence: np.ndarray,
    *,
    signs: Mapping[str, np.ndarray],
    false_alarm: float,
    alarm_at: int | None,
) -> Any:
    """Draw log10 of the evidence, and of each sign by name `(k,)`, over the samples seen `(k,)`, with the alarm."""
    ax = axes(ax, "plotting drift")
    seen = np.append(0, n_seen)
    for (name, log_capital), style in zip(signs.items(), SIGN_STYLES, strict=True):
        line = np.append(0, log_capital)
        ax.plot(seen, line, color=QUIET, linestyle=style, linewidth=1.2, label=f"{name} alone")
    line = np.append(-np.log10(len(signs)), evidence)
    ax.plot(seen, line, color=AGREES, linewidth=2.2, label="evidence: the strongest, divided by three")
    limit = -np.log10(false_alarm)
    ax.axhline(limit, color=DIFFERS, linewidth=1.2, label=f"alarm (ever false: {100 * false_alarm:g} % at most)")
    if alarm_at is not None:
        _mark_alarm(ax, alarm_at, last=float(seen[-1]))
    dress(ax, title="Evidence of drift", xlabel="samples seen", ylabel="evidence (capital won by betting)")
    ax.yaxis.set_major_formatter(lambda power, _: f"$10^{{{power:g}}}$")
    ax.yaxis.get_major_locator().set_params(integer=True)
    bottom, top = ax.get_ylim()
    ax.set(xlim=(0, None), ylim=(bottom - 0.1 * (top - bottom), max(top, 1.3 * limit)))
    ax.legend(loc="upper left", frameon=False, labelcolor=INK, fontsize=9)
    return ax


def _mark_alarm(ax: Any, alarm_at: int, *, last: float) -> None:
    ax.axvline(alarm_at, color=DIFFERS, linewidth=1.2, linestyle=(0, (2, 2)))
    side = "right" if alarm_at > 0.8 * last else "left"
    note = f" alarm at sample {alarm_at:,} "
    ax.annotate(note, (alarm_at, 0.02), xycoords=("data", "axes fraction"), color=DIFFERS, size=9, ha=side)


def draw_taken_over(ax: Any, prototypes: Sequence[ChangeShown], *, n_recent: int) -> Any:
    """Draw the prototypes that took over, with their share of the decisions before and now."""
    ax = axes(ax, "plotting drift")
    shown = prototypes[:MOST_PROTOTYPES][::-1]
    before, now = np.array([(change.before, change.now) for change in shown]).reshape(-1, 2).T
    height = np.arange(len(shown))
    ax.hlines(height, before, now, color=LINE, linewidth=5, zorder=1)
    dot: dict[str, Any] = {"marker": "o", "markersize": 7, "linestyle": "none", "clip_on": False, "zorder": 3}
    ax.plot(before, height, color=QUIET, label="before (reference)", **dot)
    ax.plot(now, height, color=DIFFERS, label=f"now (last {n_recent:,} samples)", **dot)
    title = "Prototypes that took over" if shown else "No prototype took over"
    dress(ax, title=title, xlabel="share of all decisions", ylabel="")
    percents(ax.xaxis)
    ax.set_yticks(height, [change.name for change in shown])
    ax.grid(axis="y", visible=False)
    ax.set(xlim=(0, None), ylim=(-0.7, max(len(shown), 1) - 0.3))
    ax.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.12), ncols=2, frameon=False)  # where no dot can be
    return ax


def draw_contrast(ax: Any, explained: Explained, rivals: Sequence[RivalShown], *, label: Any) -> Any:
    """Draw the weights of prototypes and of rivals, and what the rivals would need for the prediction `label`."""
    ax = axes(ax, "plotting a contrast")
    prototypes, prediction = explained.prototypes, plain(explained.prediction)
    colours = [colour_of(p.label == explained.prediction) for p in prototypes]
    ax.barh(range(len(prototypes)), [p.weight for p in prototypes], color=colours)
    places = np.arange(len(rivals)) + len(prototypes) + 0.6
    ax.barh(places, [r.prototype.weight for r in rivals], color=DIFFERS)
    for place, rival in zip(places, rivals, strict=True):
        possible = np.isfinite(rival.needed)
        if possible:
            ax.barh(place, rival.needed, facecolor="none", edgecolor=QUIET, linestyle=":")
        text = f"needs {rival.needed:.2f}" if possible else f"argues for {prediction} too"
        reach = max(rival.prototype.weight, rival.needed if possible else 0.0)
        ax.text(reach + 0.01, place, text, va="center", size=8)
    dress(ax, title=f"Why {prediction} and not {plain(label)}?", xlabel="weight in the decision", ylabel="")
    names = [f"#{p.index} {plain(p.label)}" for p in (*prototypes, *(r.prototype for r in rivals))]
    ax.set_yticks([*range(len(prototypes)), *places], names)
    ax.set(xlim=(0, 1.15))
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    return ax


def draw_confusions(ax: Any, counts: np.ndarray, classes: Iterable[Any]) -> Any:
    """Draw who is taken for whom, errors only, as shares of the true class; rows of `counts` `(C, C)` are those."""
    ax = axes(ax, "plotting confusions", size=(5.6, 5.0))
    wrong = np.where(np.eye(len(counts), dtype=bool), 0, counts)
    shares = wrong / np.maximum(counts.sum(1, keepdims=True), 1)
    ax.imshow(shares, cmap=shading(DIFFERS), vmin=0, vmax=max(float(shares.max()), 1e-9))
    dark = shares > 0.6 * shares.max()
    for row, column in np.argwhere(counts > 0):
        colour = QUIET if row == column else "white" if dark[row, column] else INK
        ax.text(column, row, int(counts[row, column]), ha="center", va="center", color=colour, size=8)
    names = [plain(label) for label in classes]
    long = max(map(len, names)) > 3
    ax.set_xticks(range(len(names)), names, rotation=40 if long else 0, ha="right" if long else "center")
    ax.set_yticks(range(len(names)), names)
    dress(ax, title=f"{int(wrong.sum())} wrong of {int(counts.sum())}", xlabel="taken for", ylabel="label")
    ax.grid(visible=False)
    return ax


def draw_faithfulness(ax: Any, counts: np.ndarray, curves: Mapping[str, np.ndarray]) -> Any:
    """Draw how a decision fades and comes back; each curve, by name, has a point for the last of the `counts`."""
    ax = axes(ax, "plotting prototype quality")
    places = np.arange(len(counts))
    for name, curve in curves.items():
        ax.plot(places[-len(curve) :], curve, label=name, marker=".", **next_look(ax))
    dress(ax, title="Does the decision rest on them?", xlabel="prototypes", ylabel="its probability")
    ax.set_xticks(places, counts)
    ax.set(ylim=(0, 1.02))
    ax.legend(loc="best", frameon=False)
    return ax


def draw_learning_curves(
    ax: Any,
    epochs: Sequence[int],
    losses: Mapping[str, Sequence[float]],
    *,
    validated: Sequence[int],
    accuracies: Mapping[str, Sequence[float]],
    best_epoch: int,
) -> Any:
    """Draw the loss terms by epoch, and on a second axis the accuracies of the epochs that were `validated`."""
    ax = axes(ax, "plotting the history", (7, 4.4))
    for name, values in losses.items():
        ax.plot(epochs, values, label=f"{name} loss", **next_look(ax))
    dress(ax, title="Training", xlabel="epoch", ylabel="training loss")
    if validated:
        right = ax.twinx()
        for (name, values), style in zip(accuracies.items(), (":", "-"), strict=True):
            right.plot(validated, values, color=INK, linestyle=style, linewidth=1.6, label=f"accuracy by {name}")
        right.axvline(best_epoch, color=LINE, zorder=0)
        right.set_ylabel("validation accuracy", color=QUIET)
        right.set(ylim=(None, 1.0))
        right.spines[["top", "left"]].set_visible(False)
        right.spines["right"].set_color(QUIET)
        right.tick_params(colors=QUIET, labelcolor=INK)
        percents(right.yaxis)
        right.legend(loc="upper left", bbox_to_anchor=(0.5, -0.15), frameon=False)
    ax.legend(loc="upper right", bbox_to_anchor=(0.5, -0.15), frameon=False)  # below, where no line runs
    return ax
