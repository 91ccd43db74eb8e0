"""Which prototypes decisions rest on, for many inputs at once: what drift and reports are measured by."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from torch import Tensor

from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError
from protoattend.uncertainty.checks import require_numbers

MOST = 20  # heaviest prototypes kept of each decision: softmax gives every candidate some weight


@dataclass(frozen=True)
class PrototypeUsage:
    """Which prototypes decisions rest on, for n inputs: what a drift monitor is fed with.

    Attributes
    ----------
    confidence : ndarray of shape (n,)
        C_i of eq. 3.
    class_mass : ndarray of shape (n, n_classes)
        Prototype weight on each class.
    indices, labels : ndarray of int of shape (n, k)
        The heaviest prototypes of each: their index in the database and their class number.
    weights : ndarray of shape (n, k)
        Their weights p_ij; 0 where a decision has fewer.
    classes : tuple of str
        The names of the classes.

    Raises
    ------
    UserError
        Where the shapes do not fit together, there are NaN, or a decision has no weight at all.

    Examples
    --------
    >>> mass, indices, labels = np.array([[0.8, 0.2]]), np.array([[3, 7]]), np.array([[0, 1]])
    >>> usage = PrototypeUsage(np.array([0.8]), mass, indices, labels, weights=mass, classes=("cat", "dog"))
    >>> [part.tolist() for part in usage.shares()]
    [[3, 7], [0.8, 0.2]]
    """

    confidence: np.ndarray
    class_mass: np.ndarray
    indices: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.confidence)
        lengths = {len(getattr(self, name)) for name in ARRAYS}
        same = self.indices.shape == self.labels.shape == self.weights.shape
        if lengths != {n} or not same or self.class_mass.shape != (n, len(self.classes)):
            shapes = {name: getattr(self, name).shape for name in ARRAYS}
            raise UserError(f"usage must have one row for each decision in every array, but the shapes are {shapes}.")
        for name in ("confidence", "class_mass", "weights"):
            require_numbers(getattr(self, name), name)
        if n and self.weights.sum(1).min() <= 0:
            raise UserError("every decision must rest on some prototype, but one has no weight at all; leave it out.")

    def __len__(self) -> int:
        return len(self.confidence)

    def at(self, rows: np.ndarray | slice) -> PrototypeUsage:
        """Return the usage of some of the decisions."""
        return replace(self, **{name: getattr(self, name)[rows] for name in ARRAYS})

    def followed_by(self, other: PrototypeUsage) -> PrototypeUsage:
        """Return both one after the other."""
        width = max(self.indices.shape[1], other.indices.shape[1])
        own, theirs = _widened(self, width), _widened(other, width)
        both: dict[str, Any] = {name: np.concatenate([getattr(own, name), getattr(theirs, name)]) for name in ARRAYS}
        return replace(own, **both)

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of all prototypes used, ascending, and the share of the decisions that each carries."""
        used = self.weights > 0
        indices, place = np.unique(self.indices[used], return_inverse=True)
        amounts = np.bincount(place, weights=self.weights[used], minlength=len(indices))
        return indices, amounts / len(self)

    def label_of(self, index: int) -> str:
        """Return the class name of a prototype that is used here."""
        return self.classes[int(self.labels[(self.indices == index) & (self.weights > 0)][0])]


ARRAYS = tuple(field.name for field in fields(PrototypeUsage) if field.name != "classes")


def prototype_usage(database: CandidateDatabase, queries: Tensor) -> PrototypeUsage:
    """Return what the decisions on queries `(n, d_att)` rest on."""
    found = database.attend(queries, top=MOST)
    positions, weights = (part.numpy() for part in found.heaviest(MOST))
    return PrototypeUsage(
        confidence=found.confidence.double().numpy(),
        class_mass=found.support.double().numpy(),
        indices=database.rows.ids[positions],
        labels=database.rows.labels.numpy()[positions],
        weights=weights.astype(float),
        classes=tuple(str(label) for label in database.classes.values.tolist()),
    )


def _widened(usage: PrototypeUsage, width: int) -> PrototypeUsage:
    missing = ((0, 0), (0, width - usage.indices.shape[1]))
    wider: dict[str, Any] = {name: np.pad(getattr(usage, name), missing) for name in ("indices", "labels", "weights")}
    return replace(usage, **wider)
