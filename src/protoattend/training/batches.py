"""What a step is made of: the rows of an epoch, the inputs of a batch, and its randomness.

Every random draw is a function of the seed and of where in the training it happens. So a training that is taken up
again at any step goes on exactly as it would have, and every process of many knows what the others draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.core.mixup import Mix
from protoattend.data.samples import Samples, subset
from protoattend.data.weights import choose_rows
from protoattend.parallel import Ranks

Augment = Callable[[Tensor, torch.Generator], Tensor]
_ORDER, _COMMON, _OWN = range(3)  # what is drawn: the order of an epoch; a step's, for all processes; for one of them


@dataclass(frozen=True)
class Labelled:
    """Samples `(n, ...)`, in memory or on disk, with their labels `(n,)` as class numbers.

    `sample_weight` `(n,)` is how many times each row counts, `shares` `(n,)` how much of its class is kept; None is 1
    each.
    """

    samples: Samples
    labels: Tensor
    sample_weight: Tensor | None = None
    shares: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, rows: Tensor) -> Labelled:
        sample_weight, shares = (None if part is None else part[rows] for part in (self.sample_weight, self.shares))
        return Labelled(subset(self.samples, rows), self.labels[rows], sample_weight, shares)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """Return the rows of one epoch in random order: all, or of each class a fresh choice of its share."""
        if self.shares is None:
            return torch.randperm(len(self), generator=generator)
        kept = choose_rows(self.labels, self.shares, generator)
        return kept[torch.randperm(len(kept), generator=generator)]

    @property
    def rows_of_an_epoch(self) -> int:
        return len(self.shuffled(torch.Generator()))


@dataclass(frozen=True)
class Batch:
    """One step's inputs `(B, ...)`, labels and rows in the training set `(B,)`, and how they are blended, if at all.

    `generator` is for what the step still draws: the same in every process.
    """

    x: Tensor
    y: Tensor
    rows: Tensor
    mix: Mix | None = None
    generator: torch.Generator = field(default_factory=torch.Generator)

    @property
    def parents(self) -> Tensor:
        """The rows each input is made of `(B, 2)`: itself and the one it is blended with, or twice itself."""
        return torch.stack([self.rows, self.rows if self.mix is None else self.rows[self.mix.partner]], dim=1)

    def to(self, device: torch.device) -> Batch:
        mix = None if self.mix is None else self.mix.to(device)
        return replace(self, x=self.x.to(device), y=self.y.to(device), rows=self.rows.to(device), mix=mix)

    def votes(self, n_classes: int) -> Tensor:
        """Return how much of each label every input is made of `(B, n_classes)`."""
        pure = F.one_hot(self.y, n_classes).float()
        return pure if self.mix is None else self.mix(pure)

    def targets(self, n_classes: int, sample_weight: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
        """Return the labels, or what smoothing, sample weights `(B,)` and blending make of them, `(B, n_classes)`."""
        if sample_weight is None and self.mix is None and not smoothing:
            return self.y
        shares = (1 - smoothing) * F.one_hot(self.y, n_classes) + smoothing / n_classes
        counted = shares if sample_weight is None else shares * sample_weight[:, None]
        return counted if self.mix is None else self.mix(counted)


def epoch_batches(data: Labelled, batch_size: int, *, seed: int, epoch: int) -> list[Tensor]:
    """Return the rows of each batch of an epoch; a last, smaller batch is left to the next epoch's shuffle."""
    order = data.shuffled(_generator(seed, _ORDER, epoch))
    whole = max(1, len(order) // batch_size) * batch_size
    return list(order[:whole].split(batch_size))


def make_batch(
    rows: Tensor,
    x: Tensor,
    data: Labelled,
    *,
    mixup: float,
    augment: Augment | None,
    seed: int,
    step: int,
    ranks: Ranks,
) -> Batch:
    """Return the batch of samples `x` at `rows`, augmented and blended; draws depend on seed, step and rank alone."""
    own = _generator(seed, _OWN, step, ranks.rank)
    mix = Mix.draw(len(rows), mixup, own) if mixup else None
    x = x if augment is None else augment(x, own)
    return Batch(x, data.labels[rows], rows, mix, _generator(seed, _COMMON, step))


def seed_of_dropout(seed: int, step: int, ranks: Ranks) -> int:
    """Return what torch's own generator, which dropout draws from, is seeded with at a step."""
    return _derived(seed, _OWN, step, ranks.rank)


def _generator(seed: int, *place: int) -> torch.Generator:
    return torch.Generator().manual_seed(_derived(seed, *place))


def _derived(seed: int, *place: int) -> int:
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0] >> np.uint64(1))
