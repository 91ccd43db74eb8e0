"""The one place where arguments of methods are checked: numbers, paths and arrays; errors give rule, value and fix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from protoattend.errors import UserError

if TYPE_CHECKING:  # not loaded for those who check numbers alone
    from torch import Tensor

LONGEST_NAME = 255  # bytes: of a file or folder, on most systems


def check_count(value: Any, name: str, *, low: int = 1, high: int | None = None) -> int:
    """Return an integer of at least `low`, numpy's too, and of at most `high` where that is given.

    >>> check_count("5", "top")
    Traceback (most recent call last):
    protoattend.errors.UserError: top must be an integer of at least 1, but got '5'.
    """
    if not isinstance(value, Integral) or isinstance(value, (bool, np.bool_)) or value < low:
        raise UserError(f"{name} must be an integer of at least {low}, but got {_shown(value)}.")
    if high is not None and int(value) > high:
        raise UserError(f"{name} must be at most {high}, but got {_shown(value)}.")
    return int(value)


def check_number(value: Any, name: str) -> float:
    """Return a real number, numpy's too; who asks for a range refuses NaN."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        raise UserError(f"{name} must be a number, but got {_shown(value)}.")
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        raise UserError(f"{name} must be a number, but got {_shown(value)}, which is too large.") from None


def check_flag(value: Any, name: str) -> bool:
    """Return true or false, numpy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise UserError(f"{name} must be True or False, but got {_shown(value)}.")
    return bool(value)


def check_seed(value: Any, name: str) -> int | None:
    """Return an integer from 0 on, or None for a seed of its own each time."""
    return None if value is None else check_count(value, name, low=0)


def check_mapping(value: Any, name: str, form: str) -> Mapping[Any, Any]:
    """Return a mapping of the form that a message names."""
    if not isinstance(value, Mapping):
        raise UserError(f"{name} must be {form}, but got {_shown(value)}.")
    return value


def check_path(value: Any, name: str) -> str | os.PathLike[str]:
    """Return a path as it is, if the system can have such a one."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str) or "\0" in os.fspath(value):
        raise UserError(f"{name} must be the path of a folder, but got {_shown(value)}; pass a str or a Path.")
    try:
        longest = max(map(len, os.fsencode(value).split(os.fsencode(os.sep))))
    except UnicodeEncodeError:
        raise UserError(f"{name} must be a path that can be written, but got {_shown(value)}; rename it.") from None
    if longest > LONGEST_NAME:
        raise UserError(f"{name} must have names of at most {LONGEST_NAME} bytes, but one has {longest}; shorten it.")
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
    if hasattr(value, "toarray"):
        raise UserError(
            f"sparse input is not supported: {name} must be dense, but got {type(value).__name__}; convert it with "
            f"{name}.toarray()."
        )
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise UserError(f"{name} must not be masked, as what is below a mask would be read; pass {name}.filled(...).")
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        ragged = isinstance(value, (list, tuple)) and "inhomogeneous" in str(error)
        fix = "all rows must be of one length" if ragged else str(error)
        raise UserError(
            f"{name} must be an array or lists of one length, but it cannot be read as one ({fix})."
        ) from None


def as_numbers(value: Any, name: str) -> np.ndarray:
    """Return what a person hands in as float64: real numbers, or true and false as 1 and 0.

    >>> as_numbers(["0.5"], "confidence")
    Traceback (most recent call last):
    protoattend.errors.UserError: confidence must hold real numbers, but got <U3, such as '0.5'; convert them first.
    """
    array = as_array(value, name)
    try:
        if array.dtype.kind in "biufO":
            return np.asarray(array, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):  # other objects than numbers, or an integer of hundreds of digits
        pass
    example = _shown(array.flat[0].item() if array.dtype.kind in "US" else array.flat[0]) if array.size else "nothing"
    raise UserError(f"{name} must hold real numbers, but got {array.dtype}, such as {example}; convert them first.")


def as_tensor(value: Any, name: str, shape: tuple[str | int, ...]) -> Tensor:
    """Return real numbers as a tensor of so many axes, of a length where one is given; a float tensor stays itself.

    >>> as_tensor([[1.0, 2.0]], "queries", ("B", 3))
    Traceback (most recent call last):
    protoattend.errors.UserError: queries must be of shape (B, 3), but have shape (1, 2).
    """
    import torch

    plain = isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float64) and not value.is_meta
    tensor = value if plain and value.layout == torch.strided else torch.from_numpy(as_numbers(value, name).copy())
    wanted = [each for each in zip(shape, tensor.shape, strict=False) if isinstance(each[0], int)]
    if tensor.ndim != len(shape) or any(length != found for length, found in wanted):
        axes = ", ".join(map(str, shape))
        raise UserError(f"{name} must be of shape ({axes}), but have shape {tuple(tensor.shape)}.")
    return tensor


def check_length(value: np.ndarray, name: str, length: int, of: str) -> np.ndarray:
    """Return an array that has one entry for each of so many."""
    if value.shape != (length,):
        raise UserError(f"{name} must have one for each of the {length} {of}, but its shape is {value.shape}.")
    return value


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
