"""Attention settles: when the encoder is trained, queries and keys learn on while it stands still.

In training they follow an encoder that moves, and lag behind it where steps are few or labels hard. Features that no
longer change are read once, and a step without the encoder costs next to nothing. What an input's own value decides
stays as it is; its prototypes come to decide the same.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from protoattend.config import OneCycle, TrainingPlan
from protoattend.core.mixup import Mix
from protoattend.core.model import ProtoAttend
from protoattend.core.objectives import SELF, objective
from protoattend.database.encode import features_together
from protoattend.parallel import ranks
from protoattend.training.batches import Labelled
from protoattend.training.candidates import InBatch
from protoattend.training.evaluation import held_out_logs, judges_of
from protoattend.training.loop import train
from protoattend.training.losses import prototype_terms
from protoattend.training.setup import Setup
from protoattend.training.workers import common_number

BATCH = 512
ROWS = 2**14  # that it learns from, at the most
FEATURES = 2**26  # of these rows, all together: some encoders have very many
STEPS = 300  # at the most, and about as many as training took where these were fewer
NUMBERS = 2**28  # of features that all steps read together: of very many features, fewer steps
RATE = 3e-3


def settles(plan: TrainingPlan) -> bool:
    """Return whether attention learns on: of an objective with a decision of the inputs' own that it can settle on."""
    terms = objective(plan.objective)
    return bool(plan.recipe.settle) and SELF in terms and len(terms) > 1


def settle_where_it_helps(setup: Setup, known: Labelled, seed: int) -> bool:
    """Settle if prototypes among the known rows then say held-out labels better, beyond chance; return whether so.

    An encoder that knows its rows by heart makes features of them that those of new rows are not like, and attention
    learns nothing from them. Without held-out rows nothing would tell.
    """
    model, validation = setup.model, setup.prepared.validation_rows(setup.class_weight)
    if validation is None or not settles(setup.plan):
        return False
    before, logs = copy.deepcopy((model.query, model.key)), held_out_logs(model, validation, known)
    settle(setup, seed)
    better = judges_of(validation).prefer(held_out_logs(model, validation, known), to=logs)
    helped = bool(common_number(int(better)))
    if not helped:
        model.query, model.key = before
    return helped


def settle(setup: Setup, seed: int) -> None:
    """Train queries and keys in place, by the plan's objective, each batch being the candidates of its inputs."""
    model, data, plan = setup.model, setup.prepared.train, setup.plan
    n_rows = max(BATCH, min(ROWS, FEATURES // width_of(model)))
    chosen = data.at(data.shuffled(torch.Generator().manual_seed(seed))[:n_rows])
    features = Labelled(features_together(model, chosen.samples), chosen.labels)
    batch_size = min(BATCH, len(chosen)) // ranks().size * ranks().size
    steps_of_training = plan.max_epochs * max(1, data.rows_of_an_epoch // plan.batch_size)
    steps = min(STEPS, steps_of_training, NUMBERS // (batch_size * width_of(model)))
    shorter = replace(
        plan,
        recipe=replace(plan.recipe, optimizer="adam", schedule=OneCycle(), weight_decay=0.0, patience=None),
        batch_size=batch_size,
        max_epochs=max(1, steps // (len(chosen) // batch_size)),
        learning_rate=RATE,
    )
    weight = None if chosen.sample_weight is None else chosen.sample_weight.to(setup.device)
    terms = prototype_terms(shorter, InBatch(), setup.class_weight, weight)
    with _standing_still(model):
        train(model, features, shorter, loss_terms=terms, evaluate=None, seed=seed)


def width_of(model: ProtoAttend) -> int:
    """Return how many features queries and keys are made of."""
    heads: Any = model.query
    return int(heads[0].in_features)


class _HandsOn(nn.Module):
    """Hands features on, blended as inputs are: attention that saw no blends would be confident of all between."""

    def forward(self, features: Tensor, mix: Mix | None = None) -> Tensor:
        return features if mix is None else mix(features)


@contextmanager
def _standing_still(model: ProtoAttend) -> Iterator[None]:
    """Inside the block, the model reads features, and queries and keys alone are trained."""
    encoder = model.encoder
    decided = [*model.value.parameters(), *model.decision.parameters()]
    model.encoder = _HandsOn()
    for parameter in decided:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        model.encoder = encoder
        for parameter in decided:
            parameter.requires_grad_(True)
