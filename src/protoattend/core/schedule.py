"""Learning-rate schedules as data: a factor on the learning rate for each step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Protocol

from protoattend.setting_checks import check_fields, count, number

_SHARE = number(lambda value: 0 <= value <= 1, "a number from 0 to 1")
_FACTOR = number(lambda value: 0 < value <= 1, "a number above 0 and at most 1")


class Schedule(Protocol):
    def factor(self, step: int, total: int) -> float:
        """Return what the learning rate is multiplied by at `step` of `total`."""


@dataclass(frozen=True)
class OneCycle:
    """The default schedule: rise linearly over the first share of the steps, then fall along half a cosine to zero.

    Parameters
    ----------
    warm_up : float, default=0.2
        Share of the steps in which the learning rate rises, from 0 to 1.

    Examples
    --------
    >>> schedule = OneCycle(warm_up=0.5)
    >>> [round(schedule.factor(step, 3), 2) for step in range(3)]
    [0.5, 1.0, 0.5]
    """

    warm_up: Annotated[float, _SHARE] = 0.2

    def __post_init__(self) -> None:
        check_fields(self)

    def factor(self, step: int, total: int) -> float:
        """Return what the learning rate is multiplied by at `step`, from 0, of `total`."""
        progress = (step + 1) / (total + 1)
        if progress < self.warm_up:
            return progress / self.warm_up
        return 0.5 * (1 + math.cos(math.pi * (progress - self.warm_up) / (1 - self.warm_up)))


@dataclass(frozen=True)
class ExponentialDecay:
    """The paper's schedule: multiply the learning rate by `rate` every `every` steps.

    Parameters
    ----------
    rate : float, default=0.9
        What it is multiplied by, above 0 and at most 1.
    every : int, default=8000
        After how many steps.

    Examples
    --------
    >>> schedule = ExponentialDecay(rate=0.5, every=10)
    >>> schedule.factor(9, 100), schedule.factor(25, 100)
    (1.0, 0.25)
    """

    rate: Annotated[float, _FACTOR] = 0.9
    every: Annotated[int, count(1)] = 8000

    def __post_init__(self) -> None:
        check_fields(self)

    def factor(self, step: int, total: int) -> float:
        """Return what the learning rate is multiplied by at `step`, from 0, of `total`."""
        return self.rate ** (step // self.every)


SCHEDULES: Mapping[str, type[OneCycle] | type[ExponentialDecay]] = MappingProxyType(
    {kind.__name__: kind for kind in (OneCycle, ExponentialDecay)}
)
