"""What the value of a setting may be: each check is made once, and named in the annotation of the setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, get_type_hints

import numpy as np

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


def count(least: int, rule: str = "") -> Check:
    """Whole numbers, numpy's too, of at least so much."""
    rule = rule or f"an integer of at least {least}"

    def check(value: Any, name: str) -> int:
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
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
            raise UserError(str(error).replace(" must be ", f" must be {word!r} or ", 1)) from None

    return either


def instance(of: type, rule: str) -> Check:
    def check(value: Any, name: str) -> Any:
        if not isinstance(value, of):
            raise refuse(value, name, rule)
        return value

    return check
