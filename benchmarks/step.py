"""Where the time of a training step goes: batch and augmentation, encoder, attention, optimizer.

    PROTOATTEND_DATA=../shared/data python benchmarks/step.py [--steps 60]

Fashion-MNIST, "fast-cnn" trained by SGD, in-batch sparsemax. Forward and backward of the encoder and of what attention
adds to it are timed apart by cutting the graph at the features. Writes benchmarks/results/step.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import record
import torch
from torch import nn
from training_cost import COMMON, TASKS

from protoattend.config import Settings
from protoattend.datasets import catalogue as datasets
from protoattend.parallel import ranks
from protoattend.training.batches import Batch, epoch_batches, make_batch
from protoattend.training.candidates import InBatch
from protoattend.training.losses import LossTerms, prototype_terms
from protoattend.training.optimizers import make_optimizers
from protoattend.training.setup import Setup, set_up

WARM_UP = 5


class Clock:
    """Seconds spent in each part of a step, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started


def step(setup: Setup, terms: LossTerms, batch: Batch, clock: Clock) -> None:
    """Do what training does on a batch up to the gradients, the encoder apart from the rest."""
    model, encoder = setup.model, setup.model.encoder
    with clock.timing("encoder, forward"):
        features = encoder(batch.x)
    cut = features.detach().requires_grad_()
    model.encoder = nn.Identity()
    with clock.timing("heads, attention and loss, forward and backward"):
        torch.stack(list(terms(model, replace(batch, x=cut), 0.5).values())).sum().backward()
    model.encoder = encoder
    with clock.timing("encoder, backward"):
        features.backward(cut.grad)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    train = datasets.load("fashion-mnist")
    settings = Settings(encoder="fast-cnn", augment=TASKS[0].augment, **COMMON)
    setup = set_up(settings, train.X, train.y, None, torch.Generator().manual_seed(0))
    data, optimizers = setup.prepared.train, make_optimizers(setup.model, setup.plan)
    terms = prototype_terms(setup.plan, InBatch())
    order = epoch_batches(data, setup.plan.batch_size, seed=0, epoch=0)
    setup.model.train()
    for number, rows in enumerate(order[: WARM_UP + arguments.steps]):
        if number in (0, WARM_UP):
            clock = Clock()
        with clock.timing("batch and augmentation"):
            batch = make_batch(
                rows, data.samples[rows], data, mixup=0.0, augment=setup.augment, seed=0, step=number, ranks=ranks()
            )
        optimizers.zero_grad()
        step(setup, terms, batch, clock)
        with clock.timing("clipping and optimizer"):
            torch.nn.utils.clip_grad_norm_(setup.model.parameters(), setup.plan.recipe.clip_norm)
            optimizers.step()
    total = sum(clock.seconds.values())
    for part, seconds in clock.seconds.items():
        print(f"{part:50} {1000 * seconds / arguments.steps:7.1f} ms  {seconds / total:6.1%}")
    shares = {part: seconds / total for part, seconds in clock.seconds.items()}
    record.write("step", {"milliseconds": 1000 * total / arguments.steps, "shares": shares, "steps": arguments.steps})


if __name__ == "__main__":
    main()
