"""What JSON from a file must look like, as data: each rule is a function of a value and where it stands.

>>> a_table = record({"count": whole(1)}, {"names": listed(text())})
>>> a_table({"count": 0}, "")
Traceback (most recent call last):
protoattend.files.schema.Malformed: count must be an integer from 1 to 9007199254740992, but it is 0
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Rule = Callable[[Any, str], None]
LARGEST = 2**53  # integers that every reader of JSON has exactly


class Malformed(ValueError):
    """A value is not what the schema says; the message names it."""


def record(required: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None) -> Rule:
    """Names with values, of which `required` must be there and no others than `optional` may be."""
    known = {**required, **(optional or {})}

    def check(value: Any, where: str) -> None:
        _require(isinstance(value, dict), value, where, "an object {...}")
        for name in required:
            _require(name in value, sorted(value), where, f"an object with {name!r}")
        for name in value:
            _require(name in known, name, where, f"an object of {sorted(known)} alone")
            known[name](value[name], _below(where, name))

    return check


def mapping(each: Rule) -> Rule:
    """Any names, with values of one kind."""

    def check(value: Any, where: str) -> None:
        _require(isinstance(value, dict), value, where, "an object {...}")
        for name in value:
            each(value[name], _below(where, name))

    return check


def listed(each: Rule, length: int | None = None) -> Rule:
    def check(value: Any, where: str) -> None:
        rule = "a list [...]" if length is None else f"a list of {length}"
        _require(isinstance(value, list) and length in (None, len(value)), value, where, rule)
        for i, item in enumerate(value):
            each(item, f"{where}[{i}]")

    return check


def either(*rules: Rule) -> Rule:
    """What one of several rules allows; where none does, the last one tells."""

    def check(value: Any, where: str) -> None:
        for rule in rules[:-1]:
            try:
                return rule(value, where)
            except Malformed:
                continue
        return rules[-1](value, where)

    return check


def maybe(rule: Rule) -> Rule:
    """None, or what a rule allows."""
    return lambda value, where: None if value is None else rule(value, where)


def whole(low: int = 0, high: int = LARGEST) -> Rule:
    def check(value: Any, where: str) -> None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        _require(fits, value, where, f"an integer from {low} to {high}")

    return check


def number(low: float = -math.inf, high: float = math.inf) -> Rule:
    """A finite number from `low` to `high`."""

    def check(value: Any, where: str) -> None:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf
        _require(fits and low <= value <= high, value, where, f"a finite number from {low:g} to {high:g}")

    return check


def positive(value: Any, where: str) -> None:
    number()(value, where)
    _require(value > 0, value, where, "a number above 0")


def text(pattern: str = r"(?s).*", longest: int = 1 << 20) -> Rule:
    def check(value: Any, where: str) -> None:
        fits = isinstance(value, str) and len(value) <= longest and re.fullmatch(pattern, value) is not None
        _require(fits, value, where, "a text" if pattern == r"(?s).*" else f"a text like {pattern}")

    return check


def one_of(*choices: Any) -> Rule:
    def check(value: Any, where: str) -> None:
        fits = any(value == choice and type(value) is type(choice) for choice in choices)
        _require(fits, value, where, f"one of {', '.join(map(repr, choices))}")

    return check


def flag(value: Any, where: str) -> None:
    _require(isinstance(value, bool), value, where, "true or false")


def anything(value: Any, where: str) -> None:
    """What is checked where it is used."""


def scalar(value: Any, where: str) -> None:
    fits = isinstance(value, (str, int, bool)) or (isinstance(value, float) and not math.isnan(value))
    _require(fits, value, where, "a text, a number, true or false")


def same_length(*names: str) -> Rule:
    """Lists under these names that must be of one length."""

    def check(value: Any, where: str) -> None:
        lengths = {name: len(value[name]) for name in names}
        _require(len(set(lengths.values())) == 1, lengths, where, "lists of one length")

    return check


def same_names(records: str, names: str) -> Rule:
    """Records with a name each under one name, and these names, in any order, under the other."""

    def check(value: Any, where: str) -> None:
        found = sorted(each["name"] for each in value[records])
        _require(found == sorted(value[names]), found, _below(where, records), f"records of all {names}")

    return check


def corners(value: Any, where: str) -> None:
    """Two lists of one length, the first ascending: the corners of a curve."""
    fits = len(value[0]) == len(value[1]) > 0 and value[0] == sorted(value[0])
    _require(fits, value, where, "two lists of one length, the first ascending")


def distinct(value: Any, where: str) -> None:
    """A list without repetitions."""
    _require(len(set(value)) == len(value) > 0, value, where, "a list of different values")


def both(*rules: Rule) -> Rule:
    """What all of several rules allow, asked in turn."""

    def check(value: Any, where: str) -> None:
        for rule in rules:
            rule(value, where)

    return check


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _require(fits: bool, value: Any, where: str, rule: str) -> None:
    if not fits:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        raise Malformed(f"{where or 'all of it'} must be {rule}, but it is {shown}")
