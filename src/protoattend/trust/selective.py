"""Confidence-controlled prediction: answer only where the confidence is high enough."""

from __future__ import annotations

import numpy as np

from protoattend.errors import UserError


def accuracy_at_coverage(confidence: np.ndarray, correct: np.ndarray, coverage: float) -> float:
    """Return the accuracy on the surest `coverage` of the answers.

    >>> accuracy_at_coverage(np.array([0.9, 0.8, 0.1]), np.array([True, True, False]), 2 / 3)
    1.0
    """
    sure, right = _checked(confidence, correct)
    if not 0 < coverage <= 1:
        raise UserError(f"coverage must be above 0 and at most 1, but got {coverage}.")
    answered = max(1, round(coverage * len(sure)))
    return float(right[np.argsort(-sure, kind="stable")[:answered]].mean())


def threshold_for_accuracy(confidence: np.ndarray, correct: np.ndarray, accuracy: float) -> float:
    """Return the lowest confidence such that the answers at or above it are right at least `accuracy` of the time."""
    sure, right = _checked(confidence, correct)
    if not 0 < accuracy <= 1:
        raise UserError(f"accuracy must be above 0 and at most 1, but got {accuracy}.")
    order = np.argsort(-sure, kind="stable")
    sure, right = sure[order], right[order]
    reached = np.cumsum(right) / np.arange(1, len(right) + 1)
    last_of_ties = np.append(sure[1:] != sure[:-1], True)  # a threshold answers all of equal confidence or none
    possible = np.flatnonzero(last_of_ties & (reached >= accuracy))
    if len(possible) == 0:
        best = reached[last_of_ties].max()
        raise UserError(
            f"no confidence threshold gives accuracy {accuracy} on these samples: the best is {best:.4f}; ask for less "
            "or train a better model."
        )
    return float(sure[possible[-1]])


def _checked(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sure, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=bool)
    if sure.shape != right.shape or sure.ndim != 1:
        raise UserError(
            f"confidence and correct must be of one length, but have shapes {sure.shape} and {right.shape}."
        )
    if len(sure) == 0:
        raise UserError("at least one sample is needed, but confidence is empty.")
    if np.isnan(sure).any():
        raise UserError(f"confidence must be numbers, but {int(np.isnan(sure).sum())} are NaN.")
    return sure, right
