"""Plans as tests of training use them: the paper's loss on pure samples, unless something else is asked for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from protoattend.config import LEARNING_RATE, Recipe, TrainingPlan

OF_RECIPE = {each.name for each in fields(Recipe)}


def plan(objective: str = "self+prototype+joint", **changes: Any) -> TrainingPlan:
    recipe = {
        "optimizer": "adam",
        "weight_decay": 0.0,
        "mixup": 0.0,
        "label_smoothing": 0.0,
        "test_time_augmentation": None,
        "likeness": 0.1,
    }
    recipe |= {"attention_target": "label", "attention_weight": 1.0}
    recipe |= {name: changes.pop(name) for name in list(changes) if name in OF_RECIPE}
    decided = {"batch_size": 256, "max_epochs": 20, "learning_rate": LEARNING_RATE} | changes
    return TrainingPlan(objective, Recipe(**recipe), **decided)
