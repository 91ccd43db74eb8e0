"""What held-out rows choose before all rows are learned: how the rows of a table are learned, and the readings.

Where labels are noisy, rows are soon learned by heart, which blending them all and few epochs prevent; where they are
not, that costs points of accuracy. Nothing that is known before training tells which. Where training takes seconds,
both ways are tried.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import torch

from protoattend.config import Settings, TrainingPlan
from protoattend.encoders.pretrained import Frozen
from protoattend.encoders.tabular import MLP
from protoattend.training.history import History
from protoattend.training.setup import Setup
from protoattend.training.workers import common_number


@dataclass(frozen=True)
class Way:
    """A way to learn a table: the share of inputs that are blended, and how many of the plan's epochs it takes."""

    mixup: float
    epochs: float


WAYS = (Way(mixup=1.0, epochs=0.5), Way(mixup=0.5, epochs=1.0))
ENOUGH = 100  # held-out rows to judge by: fewer would leave the choice to chance


@dataclass(frozen=True)
class Trial:
    """A training that was tried: its setup, with the trained model, its history, and its loss on held-out rows."""

    setup: Setup
    history: History
    loss: float
    settled: bool = False


def ways_to_try(settings: Settings, setup: Setup) -> tuple[Way, ...]:
    """Return the ways that are worth a training each; none where mixup is given, or they cannot be judged."""
    validation = setup.prepared.validation
    free = settings.training_recipe.mixup == "auto" and isinstance(setup.encoder.body, MLP)
    return WAYS if free and validation is not None and len(validation) >= ENOUGH else ()


def refits(setup: Setup) -> bool:
    """Return whether all rows are learned after a training without the held-out ones."""
    return bool(setup.plan.recipe.refit) and setup.prepared.validation is not None


def rounds_of(setup: Setup, ways: tuple[Way, ...]) -> float:
    """Return how many times as long as one training without the held-out rows all of them take, at the most."""
    prepared = setup.prepared
    tried = sum(way.epochs for way in ways) or 1.0
    return tried + (len(prepared.everything) / len(prepared.train) if refits(setup) else 0.0)


def on_all_rows(setup: Setup, plan: TrainingPlan) -> Setup:
    """Return the setup of a training by this plan that holds no row out."""
    none = torch.zeros_like(setup.prepared.held_out)
    whole, prepared = (replace(each, held_out=none) for each in (setup.whole, setup.prepared))
    return replace(setup, whole=whole, prepared=prepared, plan=plan)


def untrained_copy(setup: Setup) -> Setup:
    """Return the setup with a model of its own, as long as it is untrained."""
    front = setup.encoder.front
    shared = {id(front): front} if isinstance(front, Frozen) else {}  # large, and nothing in it changes
    model, encoder = copy.deepcopy((setup.model, setup.encoder), shared)  # at once: the model trains it or a part
    return replace(setup, model=model, encoder=encoder)


def best_of(ways: tuple[Way, ...], setup: Setup, trial: Callable[[Setup], Trial]) -> Trial:
    """Try each way, or the plan's own where there is none to choose, on a copy; return the trial of least loss."""
    either = ways or (Way(setup.plan.recipe.mixup, epochs=1.0),)
    trials = [trial(replace(untrained_copy(setup), plan=going(setup.plan, way))) for way in either]
    return trials[common_number(min(range(len(trials)), key=lambda i: trials[i].loss))]


def going(plan: TrainingPlan, way: Way) -> TrainingPlan:
    """Return the plan as one of the ways has it."""
    return replace(plan, recipe=replace(plan.recipe, mixup=way.mixup), max_epochs=ceil(way.epochs * plan.max_epochs))
