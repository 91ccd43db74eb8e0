"""Numbers that remember what they were made of: gradients by the chain rule, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

_order = count()


class Scalar:
    """A number, and how much it changes with each of the numbers it was made of."""

    __slots__ = ("grad", "made_of", "order", "value")

    def __init__(self, value: float, made_of: Iterable[tuple[Any, float]] = ()) -> None:
        self.value = value
        self.made_of = [(part, slope) for part, slope in made_of if isinstance(part, Scalar)]
        self.grad = 0.0
        self.order = next(_order)

    def __add__(self, other: Any) -> Scalar:
        return Scalar(self.value + value(other), [(self, 1.0), (other, 1.0)])

    def __mul__(self, other: Any) -> Scalar:
        return Scalar(self.value * value(other), [(self, value(other)), (other, self.value)])

    def __neg__(self) -> Scalar:
        return self * -1.0

    def __sub__(self, other: Any) -> Scalar:
        return self + -other

    def __rsub__(self, other: Any) -> Scalar:
        return -self + other

    def __truediv__(self, other: Any) -> Scalar:
        return self * power(other, -1.0)

    __radd__ = __add__
    __rmul__ = __mul__

    def backward(self) -> None:
        """Set `grad` of everything this number was made of."""
        found, waiting = {id(self): self}, [self]
        while waiting:
            for part, _ in waiting.pop().made_of:
                if id(part) not in found:
                    found[id(part)] = part
                    waiting.append(part)
        self.grad = 1.0
        for number in sorted(found.values(), key=lambda each: -each.order):  # the latest made first
            for part, slope in number.made_of:
                part.grad += slope * number.grad


def value(x: Any) -> float:
    return x.value if isinstance(x, Scalar) else float(x)


def power(x: Any, exponent: float) -> Scalar:
    return Scalar(value(x) ** exponent, [(x, exponent * value(x) ** (exponent - 1))])


def exp(x: Any) -> Scalar:
    return Scalar(math.exp(value(x)), [(x, math.exp(value(x)))])


def log(x: Any) -> Scalar:
    return Scalar(math.log(value(x)), [(x, 1 / value(x))])


def tanh(x: Any) -> Scalar:
    return Scalar(math.tanh(value(x)), [(x, 1 - math.tanh(value(x)) ** 2)])


def sigmoid(x: Any) -> Scalar:
    y = 1 / (1 + math.exp(-value(x)))
    return Scalar(y, [(x, y * (1 - y))])


def relu(x: Any) -> Any:
    return x if value(x) > 0 else 0.0


def total(xs: Sequence[Any]) -> Scalar:
    return Scalar(math.fsum(map(value, xs)), [(x, 1.0) for x in xs])


def dot(a: Sequence[Any], b: Sequence[Any]) -> Scalar:
    pairs = list(zip(a, b, strict=True))
    made_of = [(x, value(y)) for x, y in pairs] + [(y, value(x)) for x, y in pairs]
    return Scalar(math.fsum(value(x) * value(y) for x, y in pairs), made_of)
