"""What the value of a setting may be: each check is made once, and named in the annotation of the setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, get_type_hints

import numpy as np
import torch

from protoattend.errors import UserError, choose

# A check takes a value and the name of its setting; it returns the value as training uses it, or says what is wrong.
Check = Callable[[Any, str], Any]


def check_fields(settings: Any) -> None:
    """Put every field through the check in its annotation."""
    for name, annotation in get_type_hints(type(settings), include_extras=True).items():
        (check,) = annotation.__metadata__
        object.__setattr__(settings, name, check(getattr(settings, name), name))


def refuse(value: Any, name: str, rule: str) -> UserError:
    return UserError(f"{name} must be {rule}, but got {name}={value!r}.")


def anything(value: Any, name: str) -> Any:
    """Accept what only the data can tell right from wrong."""
    return value


def count(least: int, rule: str = "", *, most: int | None = None) -> Check:
    """Whole numbers, numpy's too, of at least so much, and at the most so much."""
    rule = rule or (f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}")

    def check(value: Any, name: str) -> int:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            raise refuse(value, name, rule)
        return int(value)

    return check


def number(allowed: Callable[[float], bool], rule: str) -> Check:
    """Real numbers, numpy's too, that are allowed."""

    def check(value: Any, name: str) -> float:
        if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)) or not allowed(float(value)):
            raise refuse(value, name, rule)
        return float(value)

    return check


def one_of(names: Iterable[str]) -> Check:
    return lambda value, name: choose(value, names, name)


def beside(word: str | None, check: Check, rule: str = "") -> Check:
    """One value beside those of another check: None, or a word such as "auto"."""

    def either(value: Any, name: str) -> Any:
        if value is None if word is None else isinstance(value, str) and value == word:
            return value
        try:
            return check(value, name)
        except UserError as error:
            rule = f"{name} must be "  # not that of a part, such as name['a']
            raise UserError(str(error).replace(rule, f"{rule}{word!r} or ", 1)) from None

    return either


def instance(of: type, rule: str) -> Check:
    def check(value: Any, name: str) -> Any:
        if not isinstance(value, of):
            raise refuse(value, name, rule)
        return value

    return check


def schedule(value: Any, name: str) -> Any:
    if not callable(getattr(value, "factor", None)):
        raise refuse(value, name, "OneCycle(...), ExponentialDecay(...) or an object with factor(step, total)")
    return value


def augmentation(value: Any, name: str) -> Any:
    if not callable(value):
        raise refuse(value, name, "'auto', None or a callable (images, generator) -> images")
    return value


def device(value: Any, name: str) -> str:
    try:
        found = torch.device(value)
    except (RuntimeError, TypeError):
        raise refuse(value, name, "'auto', 'cpu', 'cuda', 'cuda:0', 'mps' or another device of torch") from None
    if not is_here(found):
        raise refuse(value, name, "a device that this torch finds on this machine, such as 'cpu'")
    return str(found)


def is_here(found: torch.device) -> bool:
    """Return whether this torch can compute on a device here; "meta" computes nothing.

    >>> is_here(torch.device("cpu")), is_here(torch.device("meta"))
    (True, False)
    """
    try:
        return (found.index or 0) < torch.get_device_module(found).device_count()
    except (RuntimeError, AttributeError):  # torch has no module for it
        return found.type == "cpu"


def here_or_auto(name: str) -> str:
    """Return the device that a classifier was trained on, or "auto" where there is none such."""
    return name if name == "auto" or is_here(torch.device(name)) else "auto"


_FINITE = number(math.isfinite, "a finite number")
_WEIGHT = number(lambda value: 0 <= value < math.inf, "a finite number of at least 0")
_SCALE = number(lambda value: 0 < value < math.inf, "a finite number above 0")


def class_weight(value: Any, name: str) -> dict[Any, float]:
    """Which labels there are, only the data can tell."""
    if not isinstance(value, Mapping):
        raise refuse(value, name, "{label: weight}")
    return {label: _WEIGHT(weight, f"{name}[{label!r}]") for label, weight in value.items()}


def column_encoding(column: Any, name: str) -> Any:
    """Check how a column of a table is encoded (`data.tables.Column`)."""
    one_of(("number", "date", "category"))(column.kind, f"{name}.kind")
    _FINITE(column.mean, f"{name}.mean")
    _SCALE(column.scale, f"{name}.scale")
    beside(None, _FINITE)(column.log_offset, f"{name}.log_offset")
    if not isinstance(column.categories, (tuple, list)) or not all(isinstance(each, str) for each in column.categories):
        raise refuse(column.categories, f"{name}.categories", "a list of texts")
    return column
