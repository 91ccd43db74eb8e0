"""Tables: how an input's features differ from those of its prototypes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, isfinite, sqrt

from protoattend.viz.decisions import Explained
from protoattend.viz.text import plain

# In standard deviations of the values shown: nearer numbers are alike, others far apart.
CLOSE, FAR = 0.25, 1.0
MOST_ROWS = 20  # features that are shown; those that differ less are folded away


@dataclass(frozen=True)
class Cell:
    """A value of a table; `sign` tells how it differs from the input's; it is empty where they are alike."""

    text: str
    sign: str
    far: bool


@dataclass(frozen=True)
class Row:
    """One feature: the input's value and the cells of the prototypes."""

    name: str
    value: str
    cells: tuple[Cell, ...]
    difference: float


@dataclass(frozen=True)
class Comparison:
    """The features of one decision, in their own order: those that differ most, differ less, are alike."""

    most: list[Row]
    less: list[Row]
    alike: list[Row]


def compare(explanations: Iterable[Explained], most_rows: int = MOST_ROWS) -> list[Comparison]:
    """Compare each input's features with its prototypes'; what is close is judged by all values shown."""
    items = list(explanations)
    previews = [row for e in items for row in (e.preview, *(p.preview for p in e.prototypes))]
    values: dict[str, list[float]] = defaultdict(list)
    for row in previews:
        for name, text in row.items():
            if (number := _number(text)) is not None:
                values[name].append(number)
    scales = {name: _deviation(numbers) for name, numbers in values.items()}
    return [_fold(_rows(e, scales), most_rows) for e in items]


def _rows(e: Explained, scales: dict[str, float]) -> list[Row]:
    rows = []
    for name, value in e.preview.items():
        others = [p.preview.get(name, "(missing)") for p in e.prototypes]
        scale = scales.get(name, 0.0)
        cells, difference = [], 0.0
        for p, other in zip(e.prototypes, others, strict=True):
            step, sign = _step(value, other, scale)
            cells.append(Cell(plain(other), sign, step >= FAR))
            difference += p.weight * min(step, 3.0)
        rows.append(Row(plain(name), plain(value), tuple(cells), difference))
    return rows


def _fold(rows: list[Row], most_rows: int) -> Comparison:
    differing = [row for row in rows if any(cell.sign for cell in row.cells)]
    furthest = sorted(differing, key=lambda row: -row.difference)[:most_rows]
    in_view = {id(row) for row in furthest}
    return Comparison(
        most=[row for row in differing if id(row) in in_view],
        less=[row for row in differing if id(row) not in in_view],
        alike=[row for row in rows if not any(cell.sign for cell in row.cells)],
    )


def _step(value: str, other: str, scale: float) -> tuple[float, str]:
    """Return how far two values are apart, in standard deviations for numbers, 0 or 1 for anything else; and a sign."""
    if value == other:
        return 0.0, ""
    a, b = _number(value), _number(other)
    if a is None or b is None:
        return 1.0, "≠"
    step = abs(a - b) / scale if scale else 1.0
    return step, "" if step <= CLOSE else "▲" if b > a else "▼"


def _deviation(numbers: list[float]) -> float:
    """Return the standard deviation of a few numbers, in far less time than numpy takes to be called."""
    mean = sum(number / len(numbers) for number in numbers)
    return hypot(*(number - mean for number in numbers)) / sqrt(len(numbers))  # squares may be too large for a float


@lru_cache(maxsize=1 << 14)  # of one decision each cell is read several times
def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if isfinite(number) else None
