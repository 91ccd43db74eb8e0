"""A report from files: what `protoattend report` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from protoattend.app.files import Use
from protoattend.app.report.write import write_report
from protoattend.baselines.plain import PlainClassifier
from protoattend.data.readers import LabelledData
from protoattend.errors import UserError


def report_file(use: Use, data: Path | None, out: Path, *, accuracy: float, baseline: Path | None) -> Path:
    """Write a report on a saved classifier to `out`, of the rows in the file or folder `data`, and return its path.

    `baseline` is the file or folder it was trained on: a plain encoder is trained on it with the same settings.
    """
    if data is None:
        if baseline is not None:
            raise UserError("--baseline compares on rows unseen in training, but none were given; pass --data too.")
        return write_report(use.clf, path=out, accuracy=accuracy)
    read = _read(use, data)
    plain = None if baseline is None else _plain(use, baseline)
    return write_report(use.clf, read.X, read.y, out, title=f"{data.name}: a report", accuracy=accuracy, baseline=plain)


def _read(use: Use, path: Path) -> LabelledData:
    """Read samples, with labels where the file has the column of labels that fit used."""
    try:
        return use.read(path, {}, target=use.reading.target)
    except UserError:
        if use.reading.target is None:
            raise
        return use.read(path, {})  # no such column: rows without labels


def _plain(use: Use, path: Path) -> Any:
    X, y = use.read(path, {}, target=use.reading.target).for_fit()
    return PlainClassifier(**use.clf.get_params(deep=False)).fit(X, y)
