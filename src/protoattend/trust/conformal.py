"""Prediction sets with a guarantee: split conformal prediction on the prototypes' class mass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from protoattend.errors import UserError


@dataclass(frozen=True)
class Conformal:
    """The ascending nonconformity of calibration samples: how little speaks for their true class."""

    nonconformity: np.ndarray

    @classmethod
    def fit(cls, support: np.ndarray, labels: np.ndarray) -> Conformal:
        """Learn from what speaks for each class `(n, C)` and the true class numbers `(n,)` of unseen samples."""
        return cls(np.sort(1 - support[np.arange(len(labels)), labels]))

    def sets(self, support: np.ndarray, coverage: float) -> np.ndarray:
        """Return `(n, C)`, true for the classes in each set; the true one is inside at least `coverage` of the time."""
        n = len(self.nonconformity)
        if not 0 < coverage < 1:
            raise UserError(f"coverage must be between 0 and 1, but got {coverage}.")
        rank = math.ceil((n + 1) * coverage)
        if rank > n:
            needed = math.ceil(coverage / (1 - coverage))
            raise UserError(
                f"coverage {coverage} needs at least {needed} calibration samples, but there were {n}; use more."
            )
        return (1 - support) <= self.nonconformity[rank - 1]


def class_support(class_mass: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return what speaks for each class: prototype mass, and where that is equal (often 0 or 1) the probability."""
    return (class_mass + 1e-3 * probabilities) / (1 + 1e-3)
