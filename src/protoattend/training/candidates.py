"""Which candidates a training step attends to: the batch itself, a fresh sample (the paper), or batch and bank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from protoattend.core.mixup import Mix
from protoattend.core.model import BatchAndStored, Candidates, Encoded, Fresh, InBatch
from protoattend.errors import UserError, choose

STRATEGIES = ("in-batch", "sampled", "bank")
BATCHES_IN_BANK = 8


@dataclass(frozen=True)
class Draw:
    """The candidates of one step, with their labels `(D,)` and their rows in the training set `(D,)`."""

    source: Candidates
    labels: Tensor
    rows: Tensor
    starts_with_batch: bool = True

    def exclude(self, rows: Tensor, mix: Mix | None = None) -> Tensor:
        """Return `(B, D)`, true where input and candidate are the same row: nothing may attend to itself.

        Where inputs are blended, neither may any of their parts; candidates of the same batch are blended too.
        """
        same = rows[:, None] == self.rows[None, :]
        if mix is None:
            return same
        same |= same[mix.partner]
        if self.starts_with_batch:
            same[:, : len(rows)] |= mix.overlap(rows)
        return same


class Strategy(Protocol):
    def draw(self, rows: Tensor, y: Tensor, progress: float) -> Draw:
        """Return the candidates for the inputs at `rows` with labels `y`."""

    def remember(self, encoded: Encoded, rows: Tensor, y: Tensor) -> None:
        """Take notice of what the step has encoded."""


class InBatchStrategy:
    """Every other sample of the batch is a candidate."""

    def draw(self, rows: Tensor, y: Tensor, progress: float) -> Draw:
        return Draw(InBatch(), y, rows)

    def remember(self, encoded: Encoded, rows: Tensor, y: Tensor) -> None:
        pass


class SampledStrategy:
    """D candidates drawn afresh from the training set at each step, without replacement; `shuffled` draws its rows."""

    def __init__(
        self,
        fetch: Callable[[Tensor], tuple[Tensor, Tensor]],
        shuffled: Callable[[torch.Generator], Tensor],
        n_candidates: int,
        generator: torch.Generator,
    ) -> None:
        self.fetch = fetch
        self.shuffled = shuffled
        self.n_candidates = n_candidates
        self.generator = generator

    def draw(self, rows: Tensor, y: Tensor, progress: float) -> Draw:
        drawn = self.shuffled(self.generator)[: self.n_candidates]
        x, labels = self.fetch(drawn)
        return Draw(Fresh(x), labels, drawn.to(labels.device), starts_with_batch=False)

    def remember(self, encoded: Encoded, rows: Tensor, y: Tensor) -> None:
        pass


class BankStrategy:
    """The batch and a queue of what past steps encoded, without gradient.

    The queue is used only after the first tenth of training: keys of the first steps are so far from the present ones
    that attending to them drives all ReLU queries to zero.
    """

    WARM_UP = 0.1

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: tuple[Tensor, Tensor, Tensor, Tensor] | None = None  # keys, values, labels, rows; newest first

    def draw(self, rows: Tensor, y: Tensor, progress: float) -> Draw:
        if self.held is None or progress < self.WARM_UP:
            return Draw(InBatch(), y, rows)
        keys, values, labels, held_rows = self.held
        return Draw(BatchAndStored(keys, values), torch.cat([y, labels]), torch.cat([rows, held_rows]))

    def remember(self, encoded: Encoded, rows: Tensor, y: Tensor) -> None:
        newest = (encoded.keys.detach(), encoded.values.detach(), y, rows)
        held = newest if self.held is None else tuple(map(torch.cat, zip(newest, self.held, strict=True)))
        keys, values, labels, held_rows = (column[: self.size] for column in held)
        self.held = (keys, values, labels, held_rows)


def make_strategy(
    name: str,
    *,
    fetch: Callable[[Tensor], tuple[Tensor, Tensor]],
    shuffled: Callable[[torch.Generator], Tensor],
    n_rows: int,
    n_candidates: int | None,
    batch_size: int,
    generator: torch.Generator,
) -> Strategy:
    """Return the strategy called `name`; n_candidates=None lets it choose how many.

    `shuffled` gives the `n_rows` rows of an epoch in random order, and `fetch` the samples and labels at rows.
    """
    choose(name, STRATEGIES, "candidates")
    if n_candidates is not None and not 2 <= n_candidates < n_rows:
        raise UserError(
            "n_candidates must be at least 2 and smaller than the training set, but "
            f"n_candidates={n_candidates} and it has {n_rows} rows; pass n_candidates={max(2, n_rows - 1)} or "
            "candidates='in-batch'."
        )
    if name == "sampled":
        # Two at least: of one candidate only, the input itself might be drawn.
        return SampledStrategy(fetch, shuffled, n_candidates or max(2, min(1024, n_rows - 1)), generator)
    if name == "bank":
        return BankStrategy(n_candidates or BATCHES_IN_BANK * batch_size)
    return InBatchStrategy()
