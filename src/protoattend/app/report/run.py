"""A report from files: what `protoattend report` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.app.baseline import fit_baseline
from protoattend.app.files import Use
from protoattend.app.output import new_file
from protoattend.app.report.write import write_report
from protoattend.errors import UserError


@dataclass(frozen=True)
class Plain:
    """A plain encoder trained on the classifier's own samples: as much of it as a report asks for."""

    classes_: np.ndarray
    predict_proba: Callable[[Any], np.ndarray]


def report_file(use: Use, data: Path | None, out: Path, *, accuracy: float, baseline: bool) -> Path:
    """Write a report on a saved classifier to `out`, of the rows in the file or folder `data`, and return its path.

    With `baseline` a plain encoder is trained on the candidates with the same settings, and compared.
    """
    if data is None and baseline:
        raise UserError("--baseline compares on rows unseen in training, but none were given; pass --data too.")
    read = None if data is None else use.read_if_labelled(data)
    plain = Plain(use.clf.classes_, fit_baseline(use.clf, verbose=1)) if baseline else None
    X, y = (None, None) if read is None else (read.X, read.y)
    title = "" if data is None else f"{data.name}: a report"
    with new_file(out) as fresh:
        write_report(use.clf, X, y, fresh, title=title, accuracy=accuracy, baseline=plain)
    return out
