"""What a search is given: the candidates as attention needs them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import as_array, as_tensor, check_count
from protoattend.database.rows import Rows
from protoattend.errors import UserError

FEWEST = 2  # typical candidates: of one, an input may be the candidate itself
PIECE = 1 << 17  # candidates scored at a time for a single query: their scores stay in the cache
WORTH_A_COPY = 1 << 27  # bytes of keys that are laid out again to be searched faster; larger stay mapped from disk


def asked(rows: Rows, queries: Any, own: Any, top: Any) -> tuple[Tensor, Tensor | None, int | None]:
    """Return queries `(B, d_att)`, the positions `(B,)` they may not attend to, and how many are named, checked."""
    queries = as_tensor(queries, "queries", ("B", rows.keys.shape[1]))
    if top is not None:
        top = min(check_count(top, "top", low=0), len(rows))
    if own is None:
        return queries, None, top
    places = as_array(own, "own")
    if places.dtype.kind != "i" or places.shape != (len(queries),):
        raise UserError(f"own must be one position for each query, but got {places.dtype} of shape {places.shape}.")
    if len(places) and not (places.min() >= -1 and places.max() < len(rows)):
        raise UserError(f"own must be positions below {len(rows)}, or -1, but range to {places.max()}.")
    return queries, torch.from_numpy(places).long(), top


@dataclass(frozen=True)
class Searchable:
    """What attention needs of each candidate: keys `(D, d_att)`, class scores `(D, C)` and labels `(D,)`.

    `sample_weight` `(D,)`, above 0, is how many times each candidate counts; None is once each. Keys of a smaller dtype
    than that of the queries are widened chunk by chunk. With `typical_only`, a candidate whose class scores argue for
    another label than its own takes no part in decisions by sparsemax, unless nearly all are such. Where candidates are
    ordered by label, `label_starts` has for each class where its own begin, and last how many there are, and
    `positions` `(D,)` where each candidate is in the database.
    """

    keys: Tensor
    class_scores: Tensor
    labels: Tensor
    sample_weight: Tensor | None = None
    typical_only: bool = False
    label_starts: tuple[int, ...] | None = None
    positions: Tensor | None = None

    @cached_property
    def by_label(self) -> ByLabel | None:
        """The same candidates ordered by label, whose class mass is sums of neighbours; None if they are too many."""
        if self.keys.nbytes > WORTH_A_COPY:
            return None
        positions = self.labels.argsort(stable=True)
        places = torch.empty_like(positions)
        places[positions] = torch.arange(len(positions))
        counts = torch.bincount(self.labels, minlength=self.class_scores.shape[1])
        ordered = replace(
            self,
            keys=self.keys.T[:, positions].T,
            class_scores=self.class_scores[positions],
            labels=self.labels[positions],
            sample_weight=None if self.sample_weight is None else self.sample_weight[positions],
            label_starts=(0, *counts.cumsum(0).tolist()),
            positions=positions,
        )
        return ByLabel(ordered, places)

    def of_labels(self, start: int, count: int) -> Iterator[tuple[int, slice]]:
        """Yield the labels of the `count` candidates from `start` on, and which of these they are of, from `start`."""
        starts = self.label_starts
        assert starts is not None, "only where candidates are ordered by label"
        label = bisect_right(starts, start) - 1
        while starts[label] < start + count and label + 1 < len(starts):
            if starts[label + 1] > starts[label]:
                yield label, slice(max(starts[label] - start, 0), min(starts[label + 1] - start, count))
            label += 1

    @cached_property
    def atypical(self) -> Tensor:
        """The positions, ascending, of candidates that take no part in decisions."""
        if not self.typical_only:
            return self.labels[:0]
        own = self.class_scores.gather(1, self.labels[:, None]).squeeze(1)
        others = (own < self.class_scores.amax(1)).nonzero().squeeze(1)  # a fraction of the time of argmax
        return others if len(others) <= len(self.labels) - FEWEST else others[:0]

    def atypical_in(self, start: int, count: int) -> Tensor:
        """Return which of the `count` candidates from `start` on are such, counted from `start`."""
        if len(self.atypical) == 0:
            return self.atypical
        first, last = torch.searchsorted(self.atypical, torch.tensor([start, start + count])).tolist()
        return self.atypical[first:last] - start

    @cached_property
    def pieces(self) -> list[Tensor]:
        """The keys as matrices `(d_att, n)` to multiply a single query with, ready made: slicing takes its time."""
        return [piece.T for piece in self.keys.split(PIECE)]

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Class scores and labels as numpy sees them."""
        return self.class_scores.numpy(), self.labels.numpy()


@dataclass(frozen=True)
class ByLabel:
    """Candidates ordered by label, and the place among them of each position in the database."""

    candidates: Searchable
    places: Tensor

    @property
    def positions(self) -> Tensor:
        """Where each candidate is in the database."""
        assert self.candidates.positions is not None
        return self.candidates.positions
