"""Charts as inline SVG: lines, points and bars in a frame, whose colours follow the page in light, dark and print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 280  # of a chart, in the units that follow; letters are 13 high
LEADING = 14  # between labels that would lie on each other
MOST_POINTS = 400  # of a line: more cannot be seen

Range = tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """Where a chart's data lies: ranges of x and y, and the room around them for what is written."""

    x: Range
    y: Range
    left: float = 50
    right: float = 16
    top: float = 34
    bottom: float = 44
    height: float = HEIGHT

    def at_x(self, value: float) -> float:
        low, high = self.x
        return self.left + (value - low) / ((high - low) or 1.0) * (WIDTH - self.left - self.right)

    def at_y(self, value: float) -> float:
        low, high = self.y
        return self.height - self.bottom - (value - low) / ((high - low) or 1.0) * self.inner_height

    @property
    def inner_height(self) -> float:
        return self.height - self.top - self.bottom


@dataclass(frozen=True)
class Axis:
    """What is written at one side of a frame: a name, and where its ticks are."""

    name: str
    ticks: Sequence[tuple[float, str]]


def ticks(low: float, high: float, *, most: int = 5, percent: bool = False) -> list[tuple[float, str]]:
    """Return round numbers from low to high and how they are written.

    >>> [text for _, text in ticks(0, 0.2, percent=True)]
    ['0 %', '5 %', '10 %', '15 %', '20 %']
    """
    span = (high - low) or 1.0
    power = 10.0 ** np.floor(np.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= most)
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step + 0.0  # -0 becomes 0
    decimals = max(0, int(np.ceil(-np.log10(step * (100 if percent else 1)) - 1e-9)) + (step / power == 2.5))
    written = [f"{100 * value:.{decimals}f} %" if percent else f"{value:,.{decimals}f}" for value in places]
    return [(float(value), text) for value, text in zip(places, written, strict=True)]


def whole_ticks(low: float, high: float, *, most: int = 6) -> list[tuple[float, str]]:
    """Return whole numbers from low to high and how they are written.

    >>> [text for _, text in whole_ticks(1, 9)]
    ['2', '4', '6', '8']
    """
    found = ticks(low, high, most=most)
    return [(value, f"{value:,.0f}") for value, _ in found if value == round(value)]


def drawing(description: str, marks: Iterable[Markup], *, height: float = HEIGHT) -> Markup:
    """Return the chart; `description` is what is read aloud in its place."""
    inside = Markup("\n").join(marks)
    start = Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">\n')
    return start.format(WIDTH, _number(height), description) + inside + Markup("\n</svg>")


def axes(frame: Frame, x: Axis, y: Axis) -> list[Markup]:
    """Return faint lines across at the ticks of y, a line below, and what is written at both."""
    left, right, floor = frame.left, WIDTH - frame.right, frame.height - frame.bottom
    marks = []
    for value, text in y.ticks:
        at = frame.at_y(value)
        marks.append(_line("grid", left, at, right, at))
        marks.append(words(left - 7, at + 4, text, "tick end"))
    marks.append(_line("axis", left, floor, right, floor))
    for value, text in x.ticks:
        at = frame.at_x(value)
        marks.append(_line("axis", at, floor, at, floor + 4))
        marks.append(words(at, floor + 17, text, "tick middle"))
    marks.append(words((left + right) / 2, frame.height - 8, x.name, "name middle"))
    marks.append(words(0, 11, y.name, "name"))  # above: nobody likes to turn the head
    return marks


def line(frame: Frame, x: np.ndarray, y: np.ndarray, look: str) -> Markup:
    """Return a line through points; of very many, evenly spread ones and both ends."""
    if len(x) > MOST_POINTS:
        chosen = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int))
        x, y = np.asarray(x)[chosen], np.asarray(y)[chosen]
    points = " ".join(f"{frame.at_x(a):.1f},{frame.at_y(b):.1f}" for a, b in zip(x, y, strict=True))
    return Markup('<polyline class="{}" points="{}"/>').format(look, points)


def segment(frame: Frame, start: Range, end: Range, look: str) -> Markup:
    """Return a straight line between two points of the data."""
    return _line(look, frame.at_x(start[0]), frame.at_y(start[1]), frame.at_x(end[0]), frame.at_y(end[1]))


def dot(frame: Frame, x: float, y: float, look: str, *, radius: float = 4) -> Markup:
    """Return a filled circle."""
    place = (_number(frame.at_x(x)), _number(frame.at_y(y)), radius)
    return Markup('<circle class="{}" cx="{}" cy="{}" r="{}"/>').format(look, *place)


def bar(frame: Frame, x: Range, y: float, look: str) -> Markup:
    """Return a bar from the bottom of the frame, with a gap to its neighbours."""
    left, right, top = frame.at_x(x[0]) + 0.75, frame.at_x(x[1]) - 0.75, frame.at_y(y)
    box = (left, top, max(right - left, 0.5), max(frame.at_y(frame.y[0]) - top, 0.0))
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(look, *map(_number, box))


def words(x: float, y: float, text: str, look: str) -> Markup:
    """Return a line of text at a place of the drawing."""
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(look, _number(x), _number(y), text)


def spread(places: Sequence[float], limits: Range, *, least: float = LEADING) -> list[float]:
    """Return the places moved apart until none is nearer than `least` to the next, within limits where possible.

    >>> spread([10, 12, 40], (0, 100), least=10)
    [10, 20, 40]
    """
    order = np.argsort(places, kind="stable")
    moved = list(places)
    floor = limits[0]
    for i in order:
        moved[i] = max(moved[i], floor)
        floor = moved[i] + least
    over = (moved[order[-1]] - limits[1]) if len(order) else 0
    return [place - over for place in moved] if over > 0 else moved


def _line(look: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    ends = map(_number, (x1, y1, x2, y2))
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(look, *ends)


def _number(value: float) -> str:
    return str(escape(f"{value:.1f}".removesuffix(".0")))
