"""How long a training will take, measured on its first steps, and how many epochs fit into the time one has."""

from __future__ import annotations

import copy
import time
from contextlib import suppress
from dataclasses import replace

from protoattend.config import TrainingPlan
from protoattend.errors import UserError
from protoattend.training.loop import Step, train
from protoattend.training.losses import LossTerms
from protoattend.training.setup import Setup

STEPS = 4  # that are tried: the first one warms up
SPARE = 0.9  # of the time: validation and the database need some, too


class _Enough(Exception):
    """Ends a trial."""


def seconds_of_a_step(setup: Setup, loss_terms: LossTerms, seed: int) -> float:
    """Return how long one step takes, tried on a copy of the model."""
    times = []

    def on_step(step: Step) -> None:
        times.append(time.perf_counter())
        if len(times) == STEPS:
            raise _Enough

    with suppress(_Enough):
        train(
            copy.deepcopy(setup.model),
            setup.prepared.train,
            replace(setup.plan, max_epochs=STEPS),
            loss_terms=loss_terms,
            evaluate=None,
            seed=seed,
            augment=setup.augment,
            on_step=on_step,
        )
    return (times[-1] - times[0]) / max(1, len(times) - 1)


def within_budget(plan: TrainingPlan, steps_per_epoch: int, seconds: float, rounds: float = 1.0) -> TrainingPlan:
    """Return the plan with as many epochs as its recipe's `max_minutes` allow, if a step takes so many seconds.

    All trainings together take `rounds` times as long as one.
    """
    minutes = plan.recipe.max_minutes
    if minutes is None:
        return plan
    epoch = steps_per_epoch * seconds / 60 / SPARE
    epochs = int(minutes / (rounds * epoch))
    if epochs < 1:
        often = "" if rounds == 1 else f", of which there are {rounds:.2g} as two ways are tried or all rows learned"
        raise UserError(
            f"max_minutes must leave time for one epoch, but max_minutes={minutes:g} and an epoch takes about "
            f"{epoch:.2g} minutes here{often}; pass more, or fewer rows."
        )
    return replace(plan, max_epochs=min(plan.max_epochs, epochs))


def announce(
    plan: TrainingPlan,
    described: str,
    steps_per_epoch: int,
    seconds: float,
    *,
    tries: bool = False,
    refits: bool = False,
    rounds: float = 1.0,
) -> str:
    """Return a line that says what was chosen, and how long it will take.

    Two ways may be tried, and all rows learned in the end: `rounds` is how many times as long that takes.

    >>> from protoattend.config import Recipe
    >>> plan = TrainingPlan("self", Recipe(optimizer="adam", mixup=0.0, label_smoothing=0.0), 32, 30, 0.0025)
    >>> announce(plan, "table, 500 rows, encoder mlp", 16, 0.01)
    'table, 500 rows, encoder mlp: adam, 30 epochs of 16 steps; about 5 s'
    """
    recipe = plan.recipe
    chosen = [recipe.optimizer]
    chosen += ["bfloat16"] if recipe.precision == "bfloat16" else []
    if tries:
        chosen.append("mixup of all rows or of half, as held-out ones choose")
    elif recipe.mixup:
        chosen.append(f"mixup {recipe.mixup:g}")
    chosen += [f"label smoothing {recipe.label_smoothing:g}"] if recipe.label_smoothing else []
    chosen += ["then with all rows"] if refits else []
    total = rounds * plan.max_epochs * steps_per_epoch * seconds
    about = f"{total:.0f} s" if total < 100 else f"{total / 60:.0f} minutes"
    return f"{described}: {', '.join(chosen)}, {plan.max_epochs} epochs of {steps_per_epoch} steps; about {about}"
