"""The six training objectives of Table 1, as data: a weight over training progress for each alpha of eq. 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from protoattend.errors import choose

Weight = Callable[[float], float]  # of progress i / N_t, from 0 to 1

SELF, JOINT, PROTOTYPE = 0.0, 0.5, 1.0  # alpha of y_hat(alpha)
TERM_NAMES: Mapping[float, str] = MappingProxyType({SELF: "self", JOINT: "joint", PROTOTYPE: "prototype"})


def _constant(progress: float) -> float:
    return 1.0


def _falling(progress: float) -> float:
    return 1.0 - progress


def _rising(progress: float) -> float:
    return progress


OBJECTIVES: Mapping[str, Mapping[float, Weight]] = MappingProxyType(
    {
        "self": {SELF: _constant},
        "prototype": {PROTOTYPE: _constant},
        "joint": {JOINT: _constant},
        "self+prototype": {SELF: _constant, PROTOTYPE: _constant},
        "annealed": {SELF: _falling, PROTOTYPE: _rising},
        "self+prototype+joint": {SELF: _constant, PROTOTYPE: _constant, JOINT: _constant},
    }
)


def objective(name: str) -> Mapping[float, Weight]:
    """Return the row of Table 1 called `name`: {alpha: weight(progress)}."""
    return OBJECTIVES[choose(name, OBJECTIVES, "objective")]
