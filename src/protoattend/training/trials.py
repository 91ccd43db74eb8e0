"""What held-out rows choose before all rows are learned: whether the rows of a table are blended, and the readings.

Blending helps most tables and costs others points of accuracy, and nothing that is known before training tells which.
Where training takes seconds, both are tried.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from protoattend.config import Settings, TrainingPlan
from protoattend.encoders.pretrained import Frozen
from protoattend.encoders.tabular import MLP
from protoattend.training.history import History
from protoattend.training.setup import Setup
from protoattend.training.workers import common_number

MIXUPS = (1.0, 0.0)
ENOUGH = 100  # held-out rows to judge by: fewer would leave the choice to chance


@dataclass(frozen=True)
class Trial:
    """A training that was tried: its setup, with the trained model, its history, and its loss on held-out rows."""

    setup: Setup
    history: History
    loss: float
    settled: bool = False


def mixups_to_try(settings: Settings, setup: Setup) -> tuple[float, ...]:
    """Return the values of mixup that are worth a training each; none where it is given, or they cannot be judged."""
    validation = setup.prepared.validation
    free = settings.training_recipe.mixup == "auto" and isinstance(setup.encoder.body, MLP)
    return MIXUPS if free and validation is not None and len(validation) >= ENOUGH else ()


def refits(setup: Setup) -> bool:
    """Return whether all rows are learned after a training without the held-out ones."""
    return bool(setup.plan.recipe.refit) and setup.prepared.validation is not None


def rounds_of(setup: Setup, n_mixups: int = 1) -> float:
    """Return how many times as long as one training without the held-out rows all of them take."""
    prepared = setup.prepared
    return n_mixups + (len(prepared.everything) / len(prepared.train) if refits(setup) else 0.0)


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


def best_of(mixups: tuple[float, ...], setup: Setup, trial: Callable[[Setup], Trial]) -> Trial:
    """Try each mixup, or the plan's own where there is none to choose, on a copy; return the trial of least loss."""
    either = mixups or (setup.plan.recipe.mixup,)
    trials = [trial(_with_mixup(untrained_copy(setup), mixup)) for mixup in either]
    return trials[common_number(min(range(len(trials)), key=lambda i: trials[i].loss))]


def _with_mixup(setup: Setup, mixup: float) -> Setup:
    return replace(setup, plan=replace(setup.plan, recipe=replace(setup.plan.recipe, mixup=mixup)))
