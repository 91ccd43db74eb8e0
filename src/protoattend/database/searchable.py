"""What a search is given: the candidates as attention needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch import Tensor

PIECE = 1 << 17  # candidates scored at a time for a single query: their scores stay in the cache


@dataclass(frozen=True)
class Searchable:
    """What attention needs of each candidate: keys `(D, d_att)`, class scores `(D, C)` and labels `(D,)`.

    `sample_weight` `(D,)`, above 0, is how many times each candidate counts; None is once each. Keys of a smaller dtype
    than that of the queries are widened chunk by chunk.
    """

    keys: Tensor
    class_scores: Tensor
    labels: Tensor
    sample_weight: Tensor | None = None

    def by_columns(self) -> Searchable:
        """Return the same with keys laid out column by column, in which a single query is scored faster."""
        return replace(self, keys=self.keys.T.contiguous().T)

    @cached_property
    def pieces(self) -> list[Tensor]:
        """The keys as matrices `(d_att, n)` to multiply a single query with, ready made: slicing takes its time."""
        return [piece.T for piece in self.keys.split(PIECE)]

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Class scores and labels as numpy sees them."""
        return self.class_scores.numpy(), self.labels.numpy()
