"""Sparsemax attention of a single query, in numpy: each of its many small steps costs a fraction of what torch takes.

With one query over 32,768 candidates most of the time would otherwise go into calling functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from protoattend.core.normalize import require_a_finite_maximum
from protoattend.database.answers import Decisions, Prototypes, Searchable


@dataclass(frozen=True)
class SupportOfOne:
    """The candidates with non-zero weight, heaviest first: positions and weights `(n,)`; the largest score `(1,)`."""

    positions: np.ndarray
    weights: np.ndarray
    largest: np.ndarray

    def decide(self, candidates: Searchable) -> Decisions:
        scores, labels = candidates.class_scores.numpy(), candidates.labels.numpy()
        logits = self.weights @ scores[self.positions]
        mass = np.bincount(labels[self.positions], self.weights, scores.shape[1]).astype(self.weights.dtype)
        return Decisions(torch.from_numpy(logits[None]), torch.from_numpy(mass[None]), torch.from_numpy(self.largest))

    def heaviest(self, top: int) -> tuple[Tensor, Tensor]:
        """Return positions and weights `(1, top)` of the heaviest; where there are fewer, weight 0."""
        positions, weights = np.zeros((1, top), dtype=np.int64), np.zeros((1, top), dtype=self.weights.dtype)
        n = min(top, len(self.weights))
        positions[0, :n], weights[0, :n] = self.positions[:n], self.weights[:n]
        return torch.from_numpy(positions), torch.from_numpy(weights)

    def split(self) -> list[Prototypes]:
        return [Prototypes(torch.from_numpy(self.positions), torch.from_numpy(self.weights))]


def support_of_one(query: Tensor, keys: Tensor, own: int = -1) -> SupportOfOne:
    """Return the sparsemax support of a query `(d_att,)` among keys `(D, d_att)`, without that at `own`; -1 is none."""
    one = math.sqrt(len(query))  # scores are not yet divided by this, so that is what 1 is among them
    if keys.dtype != query.dtype:
        keys = keys.to(query.dtype)
    scores = torch.mv(keys, query).numpy()  # by torch: numpy has a pool of threads of its own, and two pools jam
    if own >= 0:
        scores[own] = -np.inf
    largest = scores.max()
    if not math.isfinite(largest):
        require_a_finite_maximum(torch.tensor([largest]))
    near = np.flatnonzero(scores >= largest - one)  # with the largest itself, also where the difference rounds to it
    shifted = (scores[near].astype(np.float64) - largest) / one
    order = (-shifted).argsort(kind="stable")
    ordered = shifted[order]
    # Over the k largest scores alone tau would be (sum - 1) / k; the true one is the largest of these over k.
    tau = ((ordered.cumsum() - 1.0) / np.arange(1, len(ordered) + 1)).max()
    n = np.count_nonzero(ordered > tau)
    weights = (ordered[:n] - tau).astype(scores.dtype)
    return SupportOfOne(near[order[:n]], weights, np.array([largest / one], dtype=scores.dtype))
