"""Prototypes must be alike, not only of the right class: a part of the score that is fixed rather than learned.

Attention is trained for the label, so that within a class it has no reason to prefer what resembles the input. A small
part for likeness is added to the scores after training: minus the squared distance between sketches of the inputs. What
attention has learned still decides between classes; among candidates it holds equal, those come first that look alike.

    score_ij = k_j . q_i - |a_i - a_j|^2 / 2,    a: the sketch, projected and scaled

Queries and keys carry it as further numbers, [q, a, 1, -|a|^2 / 2] and [k, a, -|a|^2 / 2, 1], so that everything that
searches by inner products stays as it is.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from protoattend.core.attention import attention_scores

ROWS = 4096  # sketches that the projection and its scale are learned from
NEIGHBOUR = 5  # the squared distance to it is the unit of squared distances
RANK = 8  # numbers that a sketch is projected to; texts, whose words are many, need more of them
RANK_OF_TEXTS = 32


class Likeness(nn.Module):
    """The numbers that queries and keys carry for likeness: `rank` + 2 of each input."""

    def __init__(self, sketch: nn.Module, rank: int) -> None:
        super().__init__()
        self.sketch = sketch
        self.rank = rank
        width = int(sketch.width)  # type: ignore[arg-type]
        self.centre: Tensor
        self.projection: Tensor
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("projection", torch.zeros(width, rank))

    def forward(self, sketches: Tensor) -> tuple[Tensor, Tensor]:
        """Return what inputs of these sketches `(B, width)` add to queries and to keys, each `(B, rank + 2)`."""
        a = (sketches - self.centre) @ self.projection
        half = a.square().sum(1, keepdim=True) / 2
        one = torch.ones_like(half)
        return torch.cat([a, one, -half], dim=1), torch.cat([a, -half, one], dim=1)

    @torch.no_grad()
    def learn_from(self, sketches: Tensor, queries: Tensor, keys: Tensor, weight: float) -> None:
        """Learn projection and scale from sketches `(n, width)` of rows with these queries and keys `(n, d_att)`.

        The projection is on the principal components. At `weight` 1, the squared distance to a fifth neighbour counts
        as much as the standard deviation of what is learned among the candidates of a query.
        """
        from sklearn.decomposition import PCA  # what brings much else, and a saved model has learned already

        some = torch.linspace(0, len(sketches) - 1, min(ROWS, len(sketches))).round().long()
        chosen = sketches[some]
        rank = min(self.rank, len(chosen))
        with np.errstate(invalid="ignore"):  # shares of variance, of rows that are all alike
            found = PCA(rank, random_state=0).fit(chosen.double().numpy())
        components = torch.zeros(sketches.shape[1], self.rank)
        components[:, :rank] = torch.from_numpy(found.components_.T)
        self.centre.copy_(torch.from_numpy(found.mean_))
        unit = _neighbour_distance((chosen - self.centre) @ components)
        self.projection.copy_(components * math.sqrt(2 * weight * spread(queries[some], keys[some]) / unit))

    @torch.no_grad()
    def rescale(self, factor: float) -> None:
        """Let likeness count so many times as much as it did."""
        self.projection.mul_(math.sqrt(factor))


def spread(queries: Tensor, keys: Tensor) -> float:
    """Return the standard deviation of learned scores, products of queries and keys, among candidates of a query."""
    return float(attention_scores(queries[:512], keys).std(1).mean()) * math.sqrt(queries.shape[1])


def _neighbour_distance(points: Tensor) -> float:
    """Return the median of the squared distances to the fifth neighbour."""
    distances = torch.cdist(points[:512], points).square()
    found = distances.kthvalue(min(NEIGHBOUR + 1, distances.shape[1]), dim=1).values.median()
    return max(float(found), 1e-6)
