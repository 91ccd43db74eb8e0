"""Learning-rate schedules as data: a factor on the learning rate for each step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol


class Schedule(Protocol):
    def factor(self, step: int, total: int) -> float:
        """Return what the learning rate is multiplied by at `step` of `total`."""


@dataclass(frozen=True)
class OneCycle:
    """The default schedule: rise linearly over the first share of the steps, then fall along half a cosine to zero.

    Parameters
    ----------
    warm_up : float, default=0.2
        Share of the steps in which the learning rate rises.

    Examples
    --------
    >>> schedule = OneCycle(warm_up=0.5)
    >>> [round(schedule.factor(step, 3), 2) for step in range(3)]
    [0.5, 1.0, 0.5]
    """

    warm_up: float = 0.2

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
        What it is multiplied by.
    every : int, default=8000
        After how many steps.

    Examples
    --------
    >>> schedule = ExponentialDecay(rate=0.5, every=10)
    >>> schedule.factor(9, 100), schedule.factor(25, 100)
    (1.0, 0.25)
    """

    rate: float = 0.9
    every: int = 8000

    def factor(self, step: int, total: int) -> float:
        """Return what the learning rate is multiplied by at `step`, from 0, of `total`."""
        return self.rate ** (step // self.every)


SCHEDULES: Mapping[str, type[OneCycle] | type[ExponentialDecay]] = MappingProxyType(
    {kind.__name__: kind for kind in (OneCycle, ExponentialDecay)}
)
