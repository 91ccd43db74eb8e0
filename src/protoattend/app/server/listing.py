"""Which rows of a table are listed, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from protoattend.app.server.cards import Cards
from protoattend.app.server.tables import Table

Which = Literal["all", "wrong", "below", "far", "disputed"]
By = Literal["row", "confidence", "far", "dispute"]
FAR = 0.01  # p-value at or below which a row counts as out-of-distribution


@dataclass(frozen=True)
class Wanted:
    """A filter and an order: only rows decided by `prototype` where that is given, heaviest first."""

    which: Which = "all"
    by: By = "confidence"
    reverse: bool = False
    threshold: float = 0.0
    predicted: int | None = None
    prototype: int | None = None


def found(table: Table, wanted: Wanted) -> np.ndarray:
    """Return the places of the rows wanted, in order."""
    keep = table.known & _mask(table, wanted)
    if wanted.predicted is not None:
        keep &= table.predicted == wanted.predicted
    if wanted.prototype is None:
        places = np.flatnonzero(keep)
        return places[np.argsort(_keys(table, wanted)[places], kind="stable")]
    used = table.heaviest == wanted.prototype
    places = np.flatnonzero(keep & used.any(1))
    return places[np.argsort(-(table.weights * used).sum(1)[places], kind="stable")]


def counts(table: Table, threshold: float) -> dict[str, int]:
    """Return how many rows each filter finds."""
    names: tuple[Which, ...] = ("all", "wrong", "below", "far", "disputed")
    return {name: int((table.known & _mask(table, Wanted(name, threshold=threshold))).sum()) for name in names}


def lines(table: Table, places: np.ndarray, cards: Cards, prototype: int | None) -> list[dict[str, Any]]:
    """Return what the list shows of these rows."""
    rows = table.rows
    return [
        {
            "row": int(rows.ids[i]),
            "predicted": int(table.predicted[i]),
            "label": int(rows.labels[i]) if rows.labels[i] >= 0 else None,
            "confidence": round(float(table.confidence[i]), 6),
            "far": round(float(table.far[i]), 6),
            "dispute": None if np.isnan(table.dispute[i]) else round(float(table.dispute[i]), 6),
            "suggested": int(table.suggested[i]) if table.dispute[i] > 0 else None,
            "weight": None if prototype is None else _weight(table, int(i), prototype),
            "snippet": cards.snippet(rows.preview(int(i))),
        }
        for i in places
    ]


def _weight(table: Table, place: int, prototype: int) -> float:
    return round(float(table.weights[place][table.heaviest[place] == prototype].sum()), 6)


def _mask(table: Table, wanted: Wanted) -> np.ndarray:
    labels = table.rows.labels
    if wanted.which == "wrong":
        return (labels >= 0) & (table.predicted != labels)
    if wanted.which == "below":
        return table.confidence < wanted.threshold
    if wanted.which == "far":
        return table.far <= FAR
    return table.dispute > 0 if wanted.which == "disputed" else np.ones(len(labels), dtype=bool)


def _keys(table: Table, wanted: Wanted) -> np.ndarray:
    """Return what rows are ordered by, ascending: first what is worth a look, unless it is reversed."""
    keys = {
        "row": table.rows.ids,
        "confidence": table.confidence,
        "far": table.far,
        "dispute": -np.nan_to_num(table.dispute, nan=-1.0),
    }[wanted.by].astype(float)
    return -keys if wanted.reverse else keys
