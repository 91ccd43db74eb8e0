"""What a search is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from protoattend.core.attention import confidence

PIECE = 1 << 17  # candidates scored at a time for a single query: their scores stay in the cache


@dataclass(frozen=True)
class Searchable:
    """What attention needs of each candidate: keys `(D, d_att)`, class scores `(D, C)` and labels `(D,)`.

    `weights` `(D,)`, above 0, is how many times each candidate counts; None is once each. Keys of a smaller dtype than
    that of the queries are widened chunk by chunk.
    """

    keys: Tensor
    class_scores: Tensor
    labels: Tensor
    weights: Tensor | None = None

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


@dataclass(frozen=True)
class Decisions:
    """For each query: logits at alpha 1 and class mass `(B, C)`, and the largest attention score `(B,)`.

    Where not all candidates were looked at, it is not `exact`, and `missed` `(B,)` bounds the weight of the others.
    """

    logits: Tensor
    class_mass: Tensor
    largest_score: Tensor
    exact: bool = True
    missed: Tensor | None = None

    @property
    def predicted(self) -> Tensor:
        """The number of the class decided for `(B,)`."""
        return self.logits.argmax(1)

    @property
    def confidence(self) -> Tensor:
        """C_i of eq. 3 `(B,)`: the share of prototype weight whose label is the predicted one."""
        return confidence(self.class_mass, self.predicted)

    @property
    def probabilities(self) -> Tensor:
        """The softmax of the logits `(B, C)`, in float64."""
        return self.logits.double().softmax(1)


@dataclass(frozen=True)
class Prototypes:
    """The candidates with non-zero weight for one query, heaviest first."""

    positions: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Attention:
    """Decisions and each query's heaviest prototypes: positions and weights `(B, top)`, 0 where there are fewer."""

    decisions: Decisions
    positions: Tensor
    weights: Tensor
