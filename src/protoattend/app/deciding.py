"""Decisions for the command line: what is asked of many rows, each row read and encoded once."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from protoattend.classifier import ProtoAttendClassifier
from protoattend.database.encode import encode
from protoattend.training.progress import counting_bar

QUERIES = 256  # whose prototypes are counted


def queries_of(clf: ProtoAttendClassifier, X: Any) -> Tensor:
    """Return X encoded, which is what takes time, for several questions about it."""
    samples = clf.inputs_.tensor(clf.inputs_.source(X))
    with counting_bar(1, len(samples), "encoding") as show:
        return encode(clf.model_, samples, show).queries


def spread(count: int) -> np.ndarray:
    """Return the positions of some of so many rows, evenly: enough to tell what is typical."""
    return np.arange(0, count, -(-count // QUERIES))


def median_prototypes(clf: ProtoAttendClassifier, queries: Tensor) -> float:
    """Return how many prototypes carry 95 % of a decision, in the median."""
    return float(np.median(clf.database_.attend(queries).counts(0.95).numpy()))
