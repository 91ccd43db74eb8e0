"""What attention costs beside the plain encoder: parameters, multiply-adds, time to train and time to predict."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from protoattend.baselines import PlainClassifier
from protoattend.classifier import ProtoAttendClassifier
from protoattend.reproduce.data import Rows, drawn
from protoattend.reproduce.measures import parameters_of
from protoattend.reproduce.record import once
from protoattend.reproduce.work import Work


def cost(work: Work) -> dict[str, Any]:
    """Count and time the same encoder with and without attention, on few rows."""
    return once(work.folder / "cost.json", partial(_cost, work))


def _cost(work: Work) -> dict[str, Any]:
    settings = work.settings("sparsemax", max_epochs=1, validation_fraction=0.0)
    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: PlainClassifier(**settings, random_state=0, verbose=0),
        "in-batch": lambda: ProtoAttendClassifier(**{**settings, "candidates": "in-batch"}, random_state=0, verbose=0),
        "sampled": lambda: ProtoAttendClassifier(
            **{**settings, "candidates": "sampled", "n_candidates": work.config["candidates"]},
            random_state=0,
            verbose=0,
        ),
    }
    some = drawn(work.train, work.config["timed_rows"], np.random.default_rng(0))
    epochs: dict[str, list[float]] = {name: [] for name in ways}
    fitted: dict[str, Any] = {}
    for turn in range(work.config["rounds"] + 1):
        for name, make in ways.items():
            fitted[name] = make().fit(some.X, some.y)
            if turn:  # the first round warms up
                epochs[name].append(fitted[name].history_.seconds)
    ours, plain = fitted["in-batch"], fitted["plain"]
    predicting = {
        name: _seconds_of_a_row(fitted[name], work.test, work.config["rounds"]) for name in ("plain", "in-batch")
    }
    model, candidates = ours.model_, len(ours.database_)
    keys = ours.database_.keys.shape[1]
    return {
        "parameters": {
            "all": parameters_of(model),
            "queries and keys": parameters_of(model.query) + parameters_of(model.key),
        },
        "multiply_adds": {
            "encoder": multiply_adds(model.encoder, ours.inputs_.tensor(ours.inputs_.source(some.X[:1]))),
            "attention": candidates * (keys + len(ours.classes_)),
            "candidates": candidates,
        },
        "seconds_of_an_epoch": {name: median(values) for name, values in epochs.items()},
        "epoch_ratio": {
            name: median(a / b for a, b in zip(values, epochs["plain"], strict=True)) for name, values in epochs.items()
        },
        "milliseconds_to_predict": {name: 1000 * value for name, value in predicting.items()},
        "classes": len(plain.classes_),
    }


def multiply_adds(network: nn.Module, x: torch.Tensor) -> int:
    """Return the multiplications of all convolutions and linear layers for some samples.

    >>> multiply_adds(nn.Linear(3, 2), torch.zeros(1, 3))
    6
    """
    total = 0

    def count(module: Any, _inputs: Any, output: torch.Tensor) -> None:
        nonlocal total
        total += module.weight[0].numel() * output.numel()

    counted = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d)]
    hooks = [module.register_forward_hook(count) for module in counted]
    with torch.no_grad():
        network.eval()(x)
    for hook in hooks:
        hook.remove()
    return total


def _seconds_of_a_row(clf: Any, rows: Rows, rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        clf.predict(rows.X)
        times.append(time.perf_counter() - started)
    return median(times[1:]) / len(rows.y)
