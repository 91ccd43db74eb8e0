"""Whether the rows of a table are blended: where training takes seconds, both are tried and judged on held-out rows.

Blending helps most tables and costs others points of accuracy, and nothing that is known before training tells which.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from protoattend.config import Settings, TrainingPlan
from protoattend.database.readings import probability_temperature, smoothed_loss
from protoattend.encoders.tabular import MLP
from protoattend.training.batches import Labelled
from protoattend.training.evaluation import held_out_logits
from protoattend.training.history import History
from protoattend.training.setup import Setup
from protoattend.training.workers import common_number

MIXUPS = (1.0, 0.0)
ENOUGH = 100  # held-out rows to judge by: fewer would leave the choice to chance


@dataclass(frozen=True)
class Trial:
    """A training that was tried: its plan, what the model has learned, and its history."""

    plan: TrainingPlan
    state: dict[str, Tensor]
    history: History
    loss: float


def mixups_to_try(settings: Settings, setup: Setup) -> tuple[float, ...]:
    """Return the values of mixup that are worth a training each; none where it is given, or they cannot be judged."""
    validation = setup.prepared.validation
    free = settings.training_recipe.mixup == "auto" and isinstance(setup.encoder.body, MLP)
    return MIXUPS if free and validation is not None and len(validation) >= ENOUGH else ()


def best_of(mixups: tuple[float, ...], setup: Setup, candidates: Labelled, train: Callable[[Setup], History]) -> Trial:
    """Train a copy of the model with each mixup, and return the trial whose prototypes say held-out labels best."""
    trials = [_try(mixup, setup, candidates, train) for mixup in mixups]
    return trials[common_number(min(range(len(trials)), key=lambda i: trials[i].loss))]


def _try(mixup: float, setup: Setup, candidates: Labelled, train: Callable[[Setup], History]) -> Trial:
    plan = replace(setup.plan, recipe=replace(setup.plan.recipe, mixup=mixup))
    own = replace(setup, model=copy.deepcopy(setup.model), plan=plan)
    history = train(own)
    validation = own.prepared.validation_rows(own.class_weight)
    assert validation is not None, "nothing is tried without held-out rows"
    counts = torch.ones(len(validation)) if validation.sample_weight is None else validation.sample_weight
    loss = partial(smoothed_loss, labels=validation.labels, weights=counts)
    logits = held_out_logits(own.model, validation, candidates).double()
    temperature = probability_temperature(logits, loss)  # blended rows make all probabilities lower
    return Trial(plan, own.model.state_dict(), history, loss((logits / temperature).log_softmax(1)))
