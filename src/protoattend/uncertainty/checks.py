"""What every metric of confidence starts from: arrays of one length, of numbers, in the range they must have."""

from __future__ import annotations

from typing import Any

import numpy as np

from protoattend.arguments import as_array, as_numbers, check_number
from protoattend.errors import UserError


def checked(confidence: Any, correct: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return confidence as float64 and correct as bool, both `(n,)`, or say what is wrong with them."""
    given, flags = as_numbers(confidence, "confidence"), checked_flags(correct, "correct")
    if given.shape != flags.shape or given.ndim != 1:
        raise UserError(
            f"confidence and correct must be of one length, but have shapes {given.shape} and {flags.shape}; pass one "
            "number and one truth value for each sample."
        )
    if len(given) == 0:
        raise UserError("at least one sample is needed, but confidence is empty; pass some labelled samples.")
    require_numbers(given, "confidence")
    return given, flags


def checked_shares(confidence: Any, correct: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for metrics that read confidence as a probability: it must lie in [0, 1], up to rounding."""
    given, flags = checked(confidence, correct)
    require_shares(given, "confidence")
    return np.clip(given, 0.0, 1.0), flags


def checked_flags(flags: Any, name: str) -> np.ndarray:
    """Return truth values as bool; 0 and 1 will do, while anything else, a NaN too, is an error."""
    given = as_array(flags, name)
    if given.dtype.kind not in "biufO":
        raise UserError(f"{name} must be true or false for each sample, but got {given.dtype}; compare labels first.")
    if given.dtype != bool and not np.isin(given, (0, 1)).all():
        other = given[~np.isin(given, (0, 1))].flat[0]
        raise UserError(f"{name} must be true or false for each sample, but holds {other!r}; compare labels first.")
    return given.astype(bool)


def checked_probabilities(probabilities: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities `(n, C)` and class numbers `(n,)`, or say what is wrong with them."""
    shares, numbers = as_numbers(probabilities, "probabilities"), as_array(labels, "labels")
    if shares.ndim != 2 or numbers.shape != shares.shape[:1]:
        raise UserError(
            f"probabilities must be (n, n_classes) with n class numbers, but have shapes {shares.shape} and "
            f"{numbers.shape}."
        )
    if len(shares) == 0:
        raise UserError("at least one sample is needed, but probabilities are empty; pass some labelled samples.")
    shares = checked_class_shares(shares)
    require_class_numbers(numbers, shares.shape[1], "probabilities")
    return shares, numbers


def checked_class_shares(probabilities: Any) -> np.ndarray:
    """Return probabilities `(n, C)`, or say what is wrong with them."""
    shares = checked_by_class(probabilities, "probabilities")
    require_shares(shares, "probabilities")
    return np.clip(shares, 0.0, 1.0)


def checked_by_class(values: Any, name: str) -> np.ndarray:
    """Return numbers for each class of each sample `(n, C)`, or say what is wrong with them."""
    found = as_numbers(values, name)
    if found.ndim != 2 or found.shape[1] == 0:
        raise UserError(f"{name} must be (n, n_classes), but of shape {found.shape}; pass one row for each sample.")
    require_numbers(found, name)
    return found


def require_class_numbers(labels: np.ndarray, n_classes: int, columns_of: str) -> None:
    """Raise unless labels `(n,)` are columns of what has one for each class."""
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= n_classes:
        raise UserError(
            f"labels must be class numbers from 0 to {n_classes - 1}, one for each column of {columns_of}, but "
            f"got {np.unique(labels)[:5].tolist()}; translate labels to columns first."
        )


def require_numbers(values: np.ndarray, name: str) -> None:
    """Raise where there are NaN."""
    missing = np.isnan(values)
    if missing.any():
        first = np.argwhere(missing)[0].tolist()
        raise UserError(
            f"{name} must be numbers, but {int(missing.sum())} are NaN, the first at {first}; drop these samples."
        )


def require_shares(values: np.ndarray, name: str) -> None:
    """Raise where values are not in [0, 1] by more than rounding."""
    if ((values < -1e-6) | (values > 1 + 1e-6)).any():
        span = f"{values.min():g} to {values.max():g}"
        raise UserError(f"{name} must lie between 0 and 1, but range from {span}; scale them first.")


def check_share(value: Any, name: str, *, below_one: bool = False) -> float:
    """Return a number above 0 and at most 1, or below 1 where one itself makes no sense."""
    share = check_number(value, name)
    if not 0 < share <= 1 or (below_one and share == 1):
        upper = "below" if below_one else "at most"
        raise UserError(f"{name} must be above 0 and {upper} 1, but got {value}; 0.95 stands for 95 %.")
    return share
