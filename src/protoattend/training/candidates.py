"""Which candidates a training step attends to: the batch itself, a fresh sample (the paper), or batch and bank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from protoattend.core.attention import label_votes
from protoattend.core.candidates import CandidateSource, batch_and_stored, fresh, in_batch, reencoded
from protoattend.core.model import Encoded
from protoattend.core.self_exclusion import rows_in_common
from protoattend.errors import UserError
from protoattend.parallel import gather, ranks
from protoattend.training.batches import Batch

BATCHES_IN_BANK = 8
WORTH_REENCODING = 32  # candidates per input above which the union of supports is a small part of them
Fetch = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
Shuffled = Callable[[torch.Generator], Tensor]


@dataclass(frozen=True)
class Draw:
    """The candidates of one step, with their labels `(D,)` and the training rows they are made of `(D, 2)`.

    `batch` are the inputs, blended or not, where these come first among the candidates.
    """

    source: CandidateSource
    labels: Tensor
    parents: Tensor
    batch: Batch | None = None

    def votes(self, n_classes: int) -> Tensor:
        """Return how much of each label every candidate is made of `(D, n_classes)`."""
        pure = label_votes(self.labels, n_classes, torch.float32)
        if self.batch is None:
            return pure
        blended = gather(self.batch.votes(n_classes))
        return torch.cat([blended, pure[len(blended) :]])

    def exclude(self, parents: Tensor) -> Tensor:
        """Return `(B, D)`, true where inputs made of `parents` `(B, 2)` have a row in common with a candidate."""
        return rows_in_common(parents, self.parents)


class Candidates(Protocol):
    """Which candidates the steps of a training attend to."""

    def draw(self, batch: Batch, progress: float) -> Draw:
        """Return the candidates for the inputs of a batch."""

    def remember(self, encoded: Encoded, batch: Batch) -> None:
        """Take notice of what the step has encoded."""

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold for training to go on as if it had not stopped."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Become as when `state` was returned."""


class _Forgetful:
    """What keeps nothing from one step to the next."""

    def remember(self, encoded: Encoded, batch: Batch) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


class InBatch(_Forgetful):
    """Every other sample of the batch is a candidate."""

    def draw(self, batch: Batch, progress: float) -> Draw:
        return Draw(in_batch, gather(batch.y), gather(batch.parents), batch)


class Sampled(_Forgetful):
    """D candidates drawn afresh from the training set at each step, without replacement.

    `shuffled` draws its rows, `fetch` gives samples and labels at rows, and `source` says how they are encoded.
    """

    def __init__(
        self, fetch: Fetch, shuffled: Shuffled, n_candidates: int, source: Callable[[Tensor], CandidateSource]
    ):
        self.fetch = fetch
        self.shuffled = shuffled
        self.n_candidates = ranks().divisible(n_candidates, "n_candidates")
        self.source = source

    def draw(self, batch: Batch, progress: float) -> Draw:
        drawn = self.shuffled(batch.generator)[: self.n_candidates]
        x, labels = self.fetch(drawn, batch.generator)
        rows = drawn.to(labels.device)
        return Draw(self.source(x), labels, torch.stack([rows, rows], dim=1))


class Bank:
    """The batch and a queue of what past steps encoded, without gradient.

    The queue is used only after the first tenth of training: keys of the first steps are so far from the present ones
    that attending to them drives all ReLU queries to zero.
    """

    WARM_UP = 0.1
    COLUMNS = ("keys", "values", "labels", "parents")

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: dict[str, Tensor] = {}  # of COLUMNS, newest first

    def draw(self, batch: Batch, progress: float) -> Draw:
        labels, parents = gather(batch.y), gather(batch.parents)
        self.held = {name: column.to(labels.device) for name, column in self.held.items()}  # from a checkpoint: the CPU
        if not self.held or progress < self.WARM_UP:
            return Draw(in_batch, labels, parents, batch)
        return Draw(
            batch_and_stored(self.held["keys"], self.held["values"]),
            torch.cat([labels, self.held["labels"]]),
            torch.cat([parents, self.held["parents"]]),
            batch,
        )

    def remember(self, encoded: Encoded, batch: Batch) -> None:
        # Of past blends only the larger part is noted. Excluding the smaller ones too takes more candidates of an
        # input's own class away than of others, which spoils trainings on small data.
        larger = batch.rows[:, None].expand(-1, 2)
        columns = (encoded.keys.detach(), encoded.values.detach(), batch.y, larger)
        newest = {name: gather(column) for name, column in zip(self.COLUMNS, columns, strict=True)}
        both = {name: torch.cat([newest[name], self.held[name]]) for name in self.held} or newest
        self.held = {name: column[: self.size] for name, column in both.items()}

    def state(self) -> dict[str, Tensor]:
        return dict(self.held)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.held = dict(state)


def make_candidates(
    name: str,
    *,
    fetch: Fetch,
    shuffled: Shuffled,
    n_rows: int,
    n_candidates: int | None,
    batch_size: int,
    reencode: bool,
) -> Candidates:
    """Return the candidates called `name`; n_candidates=None lets them choose how many.

    `shuffled` gives the `n_rows` rows of an epoch in random order, and `fetch` the samples and labels at rows. Where
    sampled candidates are many, `reencode` has gradient go only through those that get weight (by sparsemax).
    """
    if n_candidates is not None and not 2 <= n_candidates < n_rows:
        raise UserError(
            "n_candidates must be at least 2 and smaller than the training set, but "
            f"n_candidates={n_candidates} and it has {n_rows} rows; pass n_candidates={max(2, n_rows - 1)} or "
            "candidates='in-batch'."
        )
    if name == "sampled":
        # Two at least: of one candidate only, the input itself might be drawn.
        size = n_candidates or max(2, min(1024, n_rows - 1))
        pays = reencode and size >= WORTH_REENCODING * batch_size
        return Sampled(fetch, shuffled, size, reencoded if pays else fresh)
    if name == "bank":
        return Bank(n_candidates or BATCHES_IN_BANK * batch_size)
    return InBatch()
