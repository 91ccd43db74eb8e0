"""Copies of labelled files in which some labels are others, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.app.files import Use
from protoattend.app.output import new_file, write_table
from protoattend.data.archives import Roles, read_archive
from protoattend.data.delimited import with_cells
from protoattend.data.images import ImageFiles
from protoattend.data.readers import LabelledData
from protoattend.data_quality.label_errors import LabelIssue
from protoattend.errors import UserError


def correct(use: Use, path: Path, issues: Sequence[LabelIssue], out: Path) -> None:
    """Write the labelled file `path` to `out` with the labels that the issues suggest.

    `path` must be what the classifier was trained on: the labels of the rows in question are compared.
    """
    data = use.read_labelled(path)
    given = data.labels()
    for issue in issues:
        if issue.index >= len(given) or given[issue.index] != issue.given_label:
            found = f"it is {given[issue.index]!r}" if issue.index < len(given) else f"it has {len(given)} rows"
            raise UserError(
                f"{path} must be what the classifier was trained on, where row {issue.index} was labelled "
                f"{issue.given_label!r}, but {found}; pass that file."
            )
    labels = {issue.index: issue.suggested_label for issue in issues}
    if isinstance(data.X, ImageFiles):
        whole = [labels.get(row, label) for row, label in enumerate(given.tolist())]
        write_table({"file": data.X.paths.tolist(), "label": whole}, out)
        return
    with new_file(out) as fresh:
        WRITERS[path.suffix.lower()](use, path, data, labels, fresh)


def _write_csv(use: Use, path: Path, data: LabelledData, labels: dict[int, Any], fresh: Path) -> None:
    written = with_cells(path, str(use.reading.target), labels, given=data.labels().tolist(), header=data.header)
    fresh.write_text(written, encoding="utf-8", newline="")


def _write_parquet(use: Use, path: Path, data: LabelledData, labels: dict[int, Any], fresh: Path) -> None:
    import pandas

    frame = pandas.read_parquet(path, engine="pyarrow")
    column = frame[use.reading.target].astype(object).tolist()
    for row, label in labels.items():
        column[row] = label
    frame[use.reading.target] = pandas.Series(column, index=frame.index).astype(frame[use.reading.target].dtype)
    frame.to_parquet(fresh, engine="pyarrow")


def _write_npz(use: Use, path: Path, data: LabelledData, labels: dict[int, Any], fresh: Path) -> None:
    arrays, roles = read_archive(path, Roles(use.reading.samples, use.reading.target, use.reading.id))
    column = arrays[str(roles.target)].tolist()
    for row, label in labels.items():
        column[row] = label
    arrays[str(roles.target)] = np.array(column)
    np.savez_compressed(fresh, **arrays)  # type: ignore[arg-type]


WRITERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _write_csv),
    **dict.fromkeys((".parquet", ".pq"), _write_parquet),
    ".npz": _write_npz,
}
