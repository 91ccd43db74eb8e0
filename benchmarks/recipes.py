"""What each choice in training does to accuracy: how attention teaches and is taught, optimizer, mixup and more.

    PROTOATTEND_DATA=../shared/data python benchmarks/recipes.py fashion-mnist|cifar-10 [--quick]

Each variant changes one thing in the recipe for large data, with a half-width "fast-cnn". Accuracy is that of 10,000
rows of the training split that were held out, by prototypes and by the encoder's own value. Results are added one by
one to benchmarks/results/recipes-DATA.json, and variants that are there already are not trained again. Softmax is in
training_cost.py. A learning rate suits one loss and not another: three cross entropies to the label have three times
the gradient, and the paper trains by them at a rate of its own. recipe="paper" is all of the paper, and in table1.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import record
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training_cost import HELD_OUT, TASKS, Task

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.baselines.plain import PlainClassifier
from protoattend.config import LEARNING_RATE, Settings
from protoattend.datasets import catalogue as datasets
from protoattend.reproduce.networks import WIDTHS, half_width
from protoattend.training import loop
from protoattend.training.candidates import InBatch
from protoattend.training.evaluation import evaluate_with_prototypes, refresh_batch_norm
from protoattend.training.history import Metrics
from protoattend.training.losses import prototype_terms
from protoattend.training.setup import draw_seed, seeded, set_up

RECIPE = Recipe(mixup=0.0, label_smoothing=0.2, optimizer="sgd")
OF_RECIPE = {each.name for each in fields(Recipe)}
RECIPE_AS_IT_IS = "in-batch sparsemax"
VARIANTS: Mapping[str, dict[str, Any]] = {
    RECIPE_AS_IT_IS: {},
    "attention_weight=1": {"attention_weight": 1.0},
    "attention_target=label": {"attention_target": "label"},
    "both: the paper's loss": {"attention_weight": 1.0, "attention_target": "label"},
    "the paper's loss, a tenth of the learning rate": {
        "attention_weight": 1.0, "attention_target": "label", "learning_rate": LEARNING_RATE / 10,
    },
    "the paper's loss, objective=annealed": {
        "attention_weight": 1.0, "attention_target": "label", "objective": "annealed",
    },
    "objective=self+prototype": {"objective": "self+prototype"},
    "candidates=bank": {"candidates": "bank"},
    "label_smoothing=0": {"label_smoothing": 0.0},
    "optimizer=adam": {"optimizer": "adam"},
    "mixup=1": {"mixup": 1.0},
    "batch_size=128": {"batch_size": 128},
    "half the learning rate": {"learning_rate": 1.25e-3},
    "weight_decay=1e-3 more": {"weight_decay": 1e-3},
}  # fmt: skip
PLAIN, AVERAGED = "plain encoder", "moving average of weights (0.98)"
EPOCHS, DECAY = 3, 0.98


def train(name: str, task: Task, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Train one variant, or the plain encoder by the same recipe, and return what came of it."""
    shared = {
        "encoder": half_width(task.channels, 0),
        "augment": task.augment,
        "max_epochs": task.epochs,
        "validation_fraction": HELD_OUT / len(y),
        "random_state": 0,
        "verbose": 0,
    }
    changes = VARIANTS.get(name, {})
    shared["recipe"] = replace(RECIPE, **{field: value for field, value in changes.items() if field in OF_RECIPE})
    shared |= {field: value for field, value in changes.items() if field not in OF_RECIPE}
    if name == AVERAGED:
        metrics = averaged(Settings(**shared), X, y)
    else:
        kind = PlainClassifier if name == PLAIN else ProtoAttendClassifier
        metrics = kind(**shared).fit(X, y).history_[-1].metrics
    return {
        "prototype_accuracy": metrics.prototype_accuracy,
        "self_accuracy": metrics.self_accuracy,
        "prototypes95": metrics.median_prototypes,
    }


def averaged(settings: Settings, X: np.ndarray, y: np.ndarray) -> Metrics:
    """Train by the recipe, and measure an exponential moving average of the weights instead of the last ones."""
    seed = draw_seed(settings.random_state)
    with seeded(seed) as generator:
        setup = set_up(settings, X, y, None, generator)
        data = setup.prepared
        mean = AveragedModel(setup.model, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
        loop.train(
            setup.model,
            data.train,
            setup.plan,
            loss_terms=prototype_terms(setup.plan, InBatch()),
            evaluate=None,
            seed=seed,
            augment=setup.augment,
            on_step=lambda step: mean.update_parameters(setup.model),
        )
        refresh_batch_norm(mean.module, data.train, setup.plan.batch_size)
        return evaluate_with_prototypes(mean.module, data.validation, data.validation_candidates(generator))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=TASKS[0].data, choices=[task.data for task in TASKS])
    parser.add_argument(
        "--quick", action="store_true", help="one epoch of the recipe and the plain encoder; writes nothing"
    )
    arguments = parser.parse_args()
    task = replace(next(task for task in TASKS if task.data == arguments.data), epochs=EPOCHS)
    data = datasets.load(task.data)
    X, y = np.asarray(data.X), np.asarray(data.y)
    if arguments.quick:
        for name in (PLAIN, RECIPE_AS_IT_IS):
            print(name, train(name, replace(task, epochs=1), X[:14_000], y[:14_000]))
        return
    path = record.RESULTS / f"recipes-{task.data}.json"
    found = json.loads(path.read_text())["variants"] if path.exists() else {}
    for name in (PLAIN, *VARIANTS, AVERAGED):
        if name in found:
            continue
        found[name] = train(name, task, X, y)
        print(f"{name}: {found[name]}", flush=True)
        figures = {
            "recipe": {"mixup": 0.0, "label_smoothing": 0.2, "optimizer": "sgd"},
            "epochs": task.epochs,
            "widths": WIDTHS,
            "held_out": HELD_OUT,
            "seed": 0,
        }
        record.write(f"recipes-{task.data}", figures | {"variants": found})


if __name__ == "__main__":
    main()
