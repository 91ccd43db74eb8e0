"""Columns of a table that identify rows: a name or a number that no two rows share says nothing about other rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from protoattend.data.tables import Column

MANY = 20  # rows; fewer may all differ by chance
WORDS = 3  # a text has at least so many


def set_aside(columns: Sequence[tuple[Column, np.ndarray, bool]], *, counted: bool) -> list[Column]:
    """Return the columns, those that identify rows marked as such, with a warning that names them.

    Each comes with its values and whether it may be set aside. Texts are looked at, and where `counted`, whole numbers
    that count through the rows. Where nothing else would be left to learn from, all stay as they are.
    """
    found = {column.name for column, values, may in columns if may and _identifies(column, values, counted)}
    texts = [column.name for column, _, _ in columns if column.name in found and _reads_as_text(column)]
    advice = f"; it seems to hold texts, which are read where they come alone: pass X[{texts[0]!r}]" if texts else ""
    if len(found) == len(columns):
        if texts:
            warnings.warn(f"a column of categories should repeat them, but {texts} never do{advice}.", stacklevel=2)
        return [column for column, _, _ in columns]
    if found:
        warnings.warn(
            f"a column in which no two rows are alike only identifies them: {sorted(found)[:5]} will be shown, but not "
            f"learned from; name it in categorical_features to have it used{advice}.",
            stacklevel=2,
        )
    return [_identifier(column, values) if column.name in found else column for column, values, _ in columns]


def _identifies(column: Column, values: np.ndarray, counted: bool) -> bool:
    if len(values) < MANY:
        return False
    if column.kind == "category":
        return len(column.categories) == len(values)
    if not counted or column.kind != "number" or values.dtype.kind not in "iu":
        return False
    return int(values.max()) - int(values.min()) == len(values) - 1 == len(np.unique(values)) - 1


def _reads_as_text(column: Column) -> bool:
    """Return whether most values are of several words, as sentences are and names of rows are not."""
    return 2 * sum(len(value.split()) >= WORDS for value in column.categories) > len(column.categories)


def _identifier(column: Column, values: np.ndarray) -> Column:
    known = column.categories or tuple(map(str, values.tolist()))
    return replace(column, kind="category", mean=0.0, scale=1.0, categories=known, identifies=True)
