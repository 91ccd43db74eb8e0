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
    """Rise linearly over the first share of the steps, then fall along half a cosine to zero."""

    warm_up: float = 0.2

    def factor(self, step: int, total: int) -> float:
        progress = (step + 1) / (total + 1)
        if progress < self.warm_up:
            return progress / self.warm_up
        return 0.5 * (1 + math.cos(math.pi * (progress - self.warm_up) / (1 - self.warm_up)))


@dataclass(frozen=True)
class ExponentialDecay:
    """The paper's: multiply by `rate` every `every` steps."""

    rate: float = 0.9
    every: int = 8000

    def factor(self, step: int, total: int) -> float:
        return self.rate ** (step // self.every)


SCHEDULES: Mapping[str, type[OneCycle] | type[ExponentialDecay]] = MappingProxyType(
    {kind.__name__: kind for kind in (OneCycle, ExponentialDecay)}
)
