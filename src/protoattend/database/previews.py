"""How samples are kept: whole, as paths of files, or as excerpts that show a decision without the training data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from protoattend.core.model import Encoded
from protoattend.data.inputs import Inputs
from protoattend.database.rows import Block, Rows
from protoattend.errors import UserError

AT_ONCE = 1024  # rows whose excerpts are made at a time

Columns = dict[str, Iterator[np.ndarray]]


def preview(rows: Rows, inputs: Inputs, position: int) -> Any:
    """Return what a person is shown of one row, without reading others: its excerpt where there is one."""
    columns = rows.blocks.of_samples
    shown = [inputs.preview(rows.blocks.take(name, np.array([position]))[0]) for name in columns]
    return shown[0] if len(shown) == 1 else replace(shown[0], thumbnail=shown[1])  # both are kept of files alone


def with_excerpts(columns: Columns, rows: Rows, inputs: Inputs) -> Columns:
    """Return the columns of `rows` with excerpts, made piece by piece, in place of samples; paths of files stay.

    A table's rows are no larger than what is shown of them, so they stay too.
    """
    if inputs.kind == "table" or "excerpts" in columns:
        return columns
    of_files = inputs.kind == "images" and rows.of_texts
    others = {name: pieces for name, pieces in columns.items() if of_files or name != "source"}
    return others | {"excerpts": _excerpts(rows, inputs)}


def kept_alike(rows: Rows, inputs: Inputs, source: np.ndarray, encoded: Encoded) -> Block:
    """Return new samples as a block that keeps them as `rows` does."""
    kept = rows.blocks.of_samples
    return Block(
        encoded.queries,
        encoded.values,
        source if "source" in kept else None,
        inputs.excerpts(source) if "excerpts" in kept else None,
    )


def require_same_form(source: np.ndarray, rows: Rows) -> None:
    """Raise where new samples are image files and those of `rows` are arrays, or the other way round."""
    of_files = rows.of_texts
    if (source.dtype == object) != of_files:
        kept, given = ("files", "an array") if of_files else ("arrays", "image files")
        fix = "an ImageFiles" if of_files else "numpy.asarray(X)"
        raise UserError(f"this database keeps its images as {kept}, but X is {given}; pass {fix}.")


def _excerpts(rows: Rows, inputs: Inputs) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), AT_ONCE):
        positions = np.arange(start, min(start + AT_ONCE, len(rows)))
        yield inputs.excerpts(rows.blocks.take("source", positions))
