"""What the columns of a database must hold, before they are used.

Dtypes and shapes are looked at in every file; values in those that are read anyway, up to `SMALL` bytes, and in all of
them by `verify`: a look at every value of ten million rows takes far longer than to open them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.database.storage.columns import SMALL, in_pieces
from protoattend.database.storage.texts import Texts
from protoattend.errors import BadFile

KEY_DTYPES = ("<f4", "<f2", "|i1")


@dataclass(frozen=True)
class Form:
    """What is known of a database from its model: how many classes, and how wide values are."""

    n_classes: int
    d_out: int

    @classmethod
    def of(cls, decision: Any) -> Form:
        return cls(*decision.shape)


def require_values(folder: Path, columns: Mapping[str, Any], form: Form, *, all_of_them: bool = False) -> None:
    """Raise unless columns have the dtypes and shapes they must, and their values are in range."""
    problem = next(_wrong_forms(columns, form), None)
    problem = problem or next(_wrong_values(columns, form, SMALL if not all_of_them else None), None)
    if problem is not None:
        raise BadFile(f"{folder} must hold a database as it was saved, but {problem}; restore it from a copy.")


def _wrong_forms(columns: Mapping[str, Any], form: Form) -> Iterator[str]:
    widths = {"class_scores": form.n_classes, "values": form.d_out}
    dtypes = {"ids": ("<i8",), "labels": ("<i8",), "edited": ("|b1",), "keys": KEY_DTYPES}
    for name in ("ids", "labels", "edited", "weights", "keys", "queries", "class_scores", "values"):
        if name not in columns:
            continue
        column = columns[name]
        if column.dtype.str not in dtypes.get(name, ("<f4",)):
            yield f"its {name} are {column.dtype}"
        if column.ndim != (1 if name in ("ids", "labels", "edited", "weights") else 2):
            yield f"its {name} have {column.ndim} dimensions"
        elif column.ndim == 2 and column.shape[1] != widths.get(name, column.shape[1]):
            yield f"its {name} have {column.shape[1]} columns and not {widths[name]}"
    if {"keys", "queries"} <= columns.keys() and columns["keys"].shape[1] != columns["queries"].shape[1]:
        yield "its keys and queries are not of one width"


def _wrong_values(columns: Mapping[str, Any], form: Form, at_most: int | None) -> Iterator[str]:
    for name, column in columns.items():
        if isinstance(column, Texts):
            if column.damaged(at_most):
                yield f"the texts in its {name} do not lie end to end"
            continue
        for piece in in_pieces(column) if at_most is None or column.nbytes <= at_most else (column[:1], column[-1:]):
            if piece.dtype.kind == "f" and name != "source" and not np.isfinite(piece).all():
                yield f"some of its {name} are not finite"
            if name == "labels" and len(piece) and not (piece.min() >= 0 and piece.max() < form.n_classes):
                yield f"its labels are not all from 0 to {form.n_classes - 1}"
            if name == "weights" and not (piece > 0).all():
                yield "not all of its sample weights are above 0"
        if name == "ids" and (at_most is None or column.nbytes <= at_most) and not _ascending(column):
            yield "its indices do not ascend"


def _ascending(ids: np.ndarray) -> bool:
    return bool(len(ids) == 0 or (ids[0] >= 0 and (ids[1:] > ids[:-1]).all()))


def require_known(folder: Path, ids: np.ndarray, present: np.ndarray) -> None:
    """Raise unless an edit's rows ascend and are in the database that it is applied to."""
    places = np.searchsorted(present, ids).clip(max=len(present) - 1)
    if ids.ndim != 1 or ids.dtype != np.int64 or not _ascending(np.unique(ids)) or (present[places] != ids).any():
        raise BadFile(f"{folder} must edit rows that are there, but some are not; restore the folder from a copy.")
