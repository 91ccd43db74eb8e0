"""A decision as JSON: what the page shows of it, whatever the kind of input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from protoattend.app.server.workbench import Decided
from protoattend.data.labels import Classes
from protoattend.explain.explanations import Explanation
from protoattend.explain.prototypes import Prototype
from protoattend.viz.decisions import SHARE
from protoattend.viz.tables import Cell, Row, compare
from protoattend.viz.text import INPUT_LENGTH, PROTOTYPE_LENGTH, excerpt, highlight, plain, words

LEAST = 0.005  # class mass that is still shown by itself
SNIPPET = 90  # characters of a row in a list


@dataclass(frozen=True)
class Cards:
    """How decisions of one classifier are put into JSON."""

    kind: str
    classes: Classes

    def card(self, decided: Decided) -> dict[str, Any]:
        """Return all that a decision card shows."""
        e = decided.explanation
        shown = sum(p.weight for p in e.prototypes)
        return {
            "prediction": self.number(e.prediction),
            "confidence": _share(e.confidence),
            "agreement": _share(e.agreement),
            "label": None if e.label is None else self.number(e.label),
            "before": e.before
            and {"prediction": self.number(e.before.prediction), "confidence": _share(e.before.confidence)},
            "far": _share(decided.far),
            "support": _largest(decided.support),
            "n_needed": e.n_prototypes(SHARE),
            "note": plain(" ".join(e.notes)),
            "prototypes": [self._candidate(p) for p in e.prototypes],
            "more": max(int(np.count_nonzero(e.weights)) - len(e.prototypes), 0),
            "more_weight": _share(max(1.0 - shown, 0.0)),
            "against": [self._candidate(p) for p in e.against],
        } | BODIES[self.kind](e)

    def number(self, label: Any) -> int:
        return self.classes.number(label)

    def snippet(self, preview: Any) -> str:
        """Return a row in one line; an image needs none."""
        if isinstance(preview, str):
            return excerpt(preview, SNIPPET)
        if isinstance(preview, dict):
            return excerpt(" · ".join(f"{name} {value}" for name, value in list(preview.items())[:4]), SNIPPET)
        return ""

    def _candidate(self, p: Prototype) -> dict[str, Any]:
        return {
            "index": p.index,
            "weight": _share(p.weight),
            "label": self.number(p.label),
            "argues_for": self.number(p.label if p.argues_for is None else p.argues_for),
        }


def _images(e: Explanation) -> dict[str, Any]:
    return {}  # they have addresses of their own


def _texts(e: Explanation) -> dict[str, Any]:
    """Return the texts in pieces, words shared with the input marked."""
    candidates = (*e.prototypes, *e.against)
    texts = [excerpt(p.preview, PROTOTYPE_LENGTH) for p in candidates]
    own = words(e.preview)
    theirs = set().union(*map(words, texts))
    return {
        "input": highlight(excerpt(e.preview, INPUT_LENGTH), own & theirs),
        "texts": {p.index: highlight(text, own) for p, text in zip(candidates, texts, strict=True)},
    }


def _cells(e: Explanation) -> dict[str, Any]:
    """Return the rows of the table, cells of prototypes and of what speaks against marked where they differ."""
    (found,) = compare([replace(e, prototypes=(*e.prototypes, *e.against))])
    return {"features": {"differ": _rows([*found.most, *found.less]), "alike": _rows(found.alike)}}


def _rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"name": row.name, "value": row.value, "cells": [_cell(cell) for cell in row.cells]} for row in rows]


def _cell(cell: Cell) -> dict[str, Any]:
    return {"text": cell.text, "sign": cell.sign, "far": cell.far}


def _largest(support: np.ndarray) -> list[dict[str, Any]]:
    """Return the classes that candidates speak for, most first, without those that hardly any does."""
    order = np.argsort(-support, kind="stable")
    return [{"label": int(c), "share": _share(support[c])} for c in order if support[c] >= LEAST][:5]


def _share(number: float) -> float:
    return round(float(number), 6)


BODIES: dict[str, Callable[[Explanation], dict[str, Any]]] = {"images": _images, "text": _texts, "table": _cells}
