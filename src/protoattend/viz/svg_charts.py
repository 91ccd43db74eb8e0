"""The charts of reports and notebooks: arrays in, a titled drawing and the sentence that tells its numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from protoattend.viz import svg
from protoattend.viz.blocks import Chart
from protoattend.viz.svg import WIDTH, Axis, Frame
from protoattend.viz.text import counted, goal, percent, precise

SERIES = ("first", "second", "third", "fourth")  # looks of lines, in style.html
WIDEST = 40  # bars of a histogram: more are put together


@dataclass(frozen=True)
class Operating:
    """A threshold of confidence that was chosen, and what it gives: the share answered and the error of the answers."""

    threshold: float
    coverage: float
    risk: float


def risk_coverage_chart(risk: np.ndarray, *, aurc: float, chosen: Operating | None) -> Chart:
    """Return the error `(n,)` of the k most confident answers against k / n, with the threshold that was chosen."""
    coverage = np.arange(1, len(risk) + 1) / len(risk)
    settled = float(risk[coverage >= 0.05].max())  # one wrong answer among the first few would flatten all the rest
    top = max(1.15 * settled, 0.01)
    frame = Frame((0, 1), (0, top))
    x, y = svg.ticks(0, 1, percent=True), svg.ticks(0, top, percent=True)
    marks = svg.axes(frame, Axis("share of rows answered, most confident first", x), Axis("error of the answers", y))
    marks.append(svg.line(frame, coverage, np.minimum(risk, top), "series first"))
    sentence = f"Answering every row, {precise(risk[-1])} of the answers are wrong."
    for share in (0.9, 0.5):
        at = max(1, round(share * len(risk))) - 1
        sentence += f" On the most confident {goal(share)} it is {precise(risk[at])}."
    sentence += f" The mean over all shares (AURC) is {aurc:.4f}; 0 would be an order that puts every error last."
    if chosen is not None:
        marks += _chosen(frame, chosen)
        sentence += (
            f" The dot is the threshold {chosen.threshold:.3f}: it answers {percent(chosen.coverage)} of the rows, and "
            f"{precise(chosen.risk)} of these answers are wrong."
        )
    return Chart(
        "Error against coverage", svg.drawing("Error of the answers against the share answered", marks), sentence
    )


def _chosen(frame: Frame, chosen: Operating) -> list[Markup]:
    """Return the dot of a threshold on a line across, with its number above the frame."""
    x = min(max(frame.at_x(chosen.coverage), frame.left + 50), WIDTH - frame.right - 50)
    return [
        svg.segment(frame, (chosen.coverage, 0), (chosen.coverage, frame.y[1]), "aim"),
        svg.dot(frame, chosen.coverage, min(chosen.risk, frame.y[1]), "aim", radius=5),
        svg.words(x, frame.top - 5, f"confidence ≥ {chosen.threshold:.3f}", "aim middle"),
    ]


def reliability_chart(
    edges: np.ndarray, *, counts: np.ndarray, confidence: np.ndarray, accuracy: np.ndarray, ece: float
) -> Chart:
    """Return accuracy against confidence in bins, as dots whose size is the number of rows, and these numbers below."""
    frame = Frame((0, 1), (0, 1.0), bottom=86, height=326)
    shares = svg.ticks(0, 1, percent=True)
    marks = svg.axes(frame, Axis("", shares), Axis("share that is right", shares))
    marks.append(svg.segment(frame, (0, 0), (1, 1), "guide"))
    full = np.flatnonzero(counts)
    for i in full:
        low, high = interval(round(float(accuracy[i] * counts[i])), int(counts[i]))
        marks.append(svg.segment(frame, (confidence[i], low), (confidence[i], high), "whisker"))
    radii = 2.5 + 4.5 * np.sqrt(counts / max(counts.max(), 1))
    marks += [svg.dot(frame, confidence[i], accuracy[i], "first", radius=round(float(radii[i]), 1)) for i in full]
    below = Frame((0, 1), (0, float(max(counts.max(), 1))), top=326 - 62, bottom=26, height=326)
    marks += [svg.bar(below, (edges[i], edges[i + 1]), float(counts[i]), "soft") for i in full]
    marks.append(
        svg.words((frame.left + WIDTH - frame.right) / 2, 319, "confidence; below, how many rows", "name middle")
    )
    sentence = (
        f"Mean confidence is {precise(_mean(confidence, counts))} and {precise(_mean(accuracy, counts))} are right; "
        f"over the bins the two differ by {precise(ece)} in the mean (expected calibration error)."
    )
    if len(full):
        worst = int(full[np.argmax(np.abs(confidence - accuracy)[full] * counts[full])])
        sentence += (
            f" Most of it comes from the {counted(int(counts[worst]), 'row')} between {goal(edges[worst])} and "
            f"{goal(edges[worst + 1])}: confidence {precise(confidence[worst])}, right {precise(accuracy[worst])}."
        )
    sentence += " On the dashed line both would be equal; whiskers are 95 % intervals."
    drawn = svg.drawing("Share of right predictions by confidence", marks, height=326)
    return Chart("Reliability of the confidence", drawn, sentence)


def learning_charts(
    epochs: Sequence[int],
    losses: Mapping[str, Sequence[float]],
    *,
    validated: Sequence[int],
    accuracies: Mapping[str, Sequence[float]],
    best_epoch: int,
) -> tuple[Chart, ...]:
    """Return the terms of the training loss by epoch, and the accuracies on rows held out where there are any."""
    first, last = next(iter(losses.items()), ("", [0.0]))
    top = max(max(values) for values in losses.values()) if losses else 1.0
    fallen = ", ".join(f"{name} {values[0]:.2f} to {values[-1]:.2f}" for name, values in losses.items())
    sentence = f"Mean loss of each term, from the first epoch to the last of {len(epochs)}: {fallen}."
    if len(epochs) == 1:
        sentence = f"One epoch was trained; {first} loss {last[0]:.2f}."
    charts = [_by_epoch("Training loss", epochs, losses, (0.0, 1.08 * top), sentence, best=None)]
    if validated:
        low = max(0.0, min(min(min(values) for values in accuracies.values()) - 0.05, 0.95))
        title, sentence = "Accuracy on rows held out", _kept(validated, accuracies, best_epoch)
        charts.append(_by_epoch(title, validated, accuracies, (low, 1.0), sentence, best=best_epoch))
    return tuple(charts)


def _kept(validated: Sequence[int], accuracies: Mapping[str, Sequence[float]], best_epoch: int) -> str:
    if best_epoch not in validated:
        return f"Epoch {best_epoch + 1} was the best."
    at = list(validated).index(best_epoch)
    told = " and ".join(f"{precise(values[at])} by {name}" for name, values in accuracies.items())
    return f"Epoch {best_epoch + 1} was the best, where {told} were right on rows held out from training."


def _by_epoch(
    title: str,
    epochs: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    y: tuple[float, float],
    sentence: str,
    *,
    best: int | None,
) -> Chart:
    shares = y[1] == 1.0 and best is not None
    numbers = np.array(epochs) + 1
    frame = Frame((1, max(int(numbers[-1]), 2)), y, right=92)
    marks = svg.axes(
        frame,
        Axis("epoch", svg.whole_ticks(1, max(int(numbers[-1]), 2))),
        Axis("right" if shares else "loss", svg.ticks(*y, percent=shares)),
    )
    if best is not None:
        marks.append(svg.segment(frame, (best + 1, y[0]), (best + 1, y[1]), "aim"))
    marks += lines(frame, numbers, curves)
    return Chart(title, svg.drawing(title + " by epoch", marks), sentence)


def lines(frame: Frame, x: np.ndarray, curves: Mapping[str, Sequence[float]]) -> list[Markup]:
    """Return curves with their names at the right end, in place of a legend."""
    marks = []
    ends = [frame.at_y(values[-1]) for values in curves.values()]
    places = svg.spread(ends, (frame.top + 4, frame.height - frame.bottom))
    for look, (name, values), place in zip(SERIES, curves.items(), places, strict=False):
        if len(x) == 1:
            marks.append(svg.dot(frame, float(x[0]), values[0], look))
        else:
            marks.append(svg.line(frame, x, np.asarray(values), f"series {look}"))
        marks.append(svg.words(frame.at_x(float(x[-1])) + 7, place + 4, name, f"label {look}"))
    return marks


def histogram_chart(title: str, counts: np.ndarray, *, xlabel: str, sentence: str) -> Chart:
    """Return how many rows have each of some whole numbers `(n,)`, from 1 on."""
    highest = int(counts.max())
    step = -(-highest // WIDEST)
    found = np.bincount((counts.astype(int) - 1) // step)
    frame = Frame((0.5, 0.5 + step * len(found)), (0, 1.08 * float(found.max())))
    marks = svg.axes(
        frame,
        Axis(xlabel, svg.whole_ticks(0.5, 0.5 + step * len(found), most=8)),
        Axis("rows", svg.whole_ticks(0, 1.08 * float(found.max()), most=5)),
    )
    middle = int(np.median(counts))
    for i, number in enumerate(found):
        low = 0.5 + i * step
        look = "first" if low < middle <= low + step else "soft"
        marks.append(svg.bar(frame, (low, low + step), float(number), look))
    return Chart(title, svg.drawing(title, marks), sentence)


def concentration_chart(shares: np.ndarray, *, sentence: str) -> Chart:
    """Return how much of all decisions the most used candidates carry; `shares` `(D,)` are of each, descending."""
    carried = np.concatenate([[0.0], np.cumsum(shares)]) / max(float(shares.sum()), 1e-12)
    part = np.arange(len(carried)) / len(shares)
    frame = Frame((0, 1), (0, 1))
    parts = svg.ticks(0, 1, percent=True)
    marks = svg.axes(frame, Axis("candidates, most used first", parts), Axis("share of all decisions", parts))
    marks.append(svg.segment(frame, (0, 0), (1, 1), "guide"))
    marks.append(svg.line(frame, part, carried, "series first"))
    title = "How decisions spread over the database"
    return Chart(title, svg.drawing(title, marks), sentence)


def interval(right: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, `right` of `of`.

    >>> [round(end, 3) for end in interval(44, 45)]
    [0.884, 0.996]
    """
    z2, share = 1.96**2, right / of
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = 1.96 * np.sqrt(share * (1 - share) / of + z2 / (4 * of**2)) / (1 + z2 / of)
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))


def _mean(values: np.ndarray, counts: np.ndarray) -> float:
    full = counts > 0
    return float(np.average(values[full], weights=counts[full]))
