"""The one place where arguments of methods are checked: numbers, paths and arrays; errors give rule, value and fix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from protoattend.errors import UserError


def check_count(value: Any, name: str, *, low: int = 1) -> int:
    """Return an integer of at least `low`, numpy's too.

    >>> check_count("5", "top")
    Traceback (most recent call last):
    protoattend.errors.UserError: top must be an integer of at least 1, but got '5'.
    """
    if not isinstance(value, Integral) or isinstance(value, (bool, np.bool_)) or value < low:
        raise UserError(f"{name} must be an integer of at least {low}, but got {_shown(value)}.")
    return int(value)


def check_number(value: Any, name: str) -> float:
    """Return a real number, numpy's too; who asks for a range refuses NaN."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        raise UserError(f"{name} must be a number, but got {_shown(value)}.")
    return float(value)


def check_mapping(value: Any, name: str, form: str) -> Mapping[Any, Any]:
    """Return a mapping of the form that a message names."""
    if not isinstance(value, Mapping):
        raise UserError(f"{name} must be {form}, but got {_shown(value)}.")
    return value


def check_path(value: Any, name: str) -> str | os.PathLike[str]:
    """Return a path as it is."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str) or "\0" in os.fspath(value):
        raise UserError(f"{name} must be the path of a folder, but got {_shown(value)}; pass a str or a Path.")
    return value


def as_array(value: Any, name: str) -> np.ndarray:
    """Return an array of what a person hands in: also of tensors with gradient, on a GPU, or of bfloat16.

    >>> import torch
    >>> as_array(torch.ones(1, requires_grad=True), "X"), as_array(torch.ones(1).bfloat16(), "X")
    (array([1.], dtype=float32), array([1.], dtype=float32))
    """
    if hasattr(value, "detach"):
        import torch  # which is there already, with a tensor of it

        if value.is_meta or value.layout != torch.strided:
            raise UserError(f"{name} must be a dense tensor with values, but got {value.layout} on {value.device}.")
        plain = value.detach().cpu().resolve_conj().resolve_neg()
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        ragged = isinstance(value, (list, tuple)) and "inhomogeneous" in str(error)
        fix = "all rows must be of one length" if ragged else str(error)
        raise UserError(
            f"{name} must be an array or lists of one length, but it cannot be read as one ({fix})."
        ) from None


def require_float32() -> None:
    """Raise where torch makes other numbers than the models are made of."""
    import torch  # not for those who check arrays alone

    if (dtype := torch.get_default_dtype()) != torch.float32:
        raise UserError(
            f"models are made of float32, but torch's default dtype is {dtype}; call "
            "torch.set_default_dtype(torch.float32) before fit and load."
        )


def _shown(value: Any) -> str:
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}... of type {type(value).__name__}"
