"""Sparsemax attention of a single query, in numpy: each of its many small steps costs a fraction of what torch takes.

With one query over 32,768 candidates most of the time would otherwise go into calling functions.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from protoattend.core.normalize import require_a_finite_maximum
from protoattend.database.attention import Decisions, Prototypes, Searchable


@dataclass(frozen=True)
class SupportOfOne:
    """The candidates with non-zero weight, heaviest first: positions and weights `(n,)`; the largest score `(1,)`."""

    positions: np.ndarray
    weights: np.ndarray
    largest: np.ndarray

    def decide(self, candidates: Searchable) -> Decisions:
        scores, labels = candidates.arrays
        logits = self.weights.dot(scores.take(self.positions, 0))
        mass = np.bincount(labels.take(self.positions), self.weights, scores.shape[1]).astype(self.weights.dtype)
        return Decisions(torch.from_numpy(logits[None]), torch.from_numpy(mass[None]), torch.from_numpy(self.largest))

    def heaviest(self, top: int) -> tuple[Tensor, Tensor]:
        """Return positions and weights `(1, top)` of the heaviest; where there are fewer, weight 0."""
        positions, weights = np.zeros((1, top), dtype=np.int64), np.zeros((1, top), dtype=self.weights.dtype)
        n = min(top, len(self.weights))
        positions[0, :n], weights[0, :n] = self.positions[:n], self.weights[:n]
        return torch.from_numpy(positions), torch.from_numpy(weights)

    def split(self) -> list[Prototypes]:
        return [Prototypes(torch.from_numpy(self.positions), torch.from_numpy(self.weights))]


def support_of_one(query: Tensor, candidates: Searchable, own: int = -1) -> SupportOfOne:
    """Return the sparsemax support of a query `(1, d_att)`, without the candidate at `own`; -1 is none."""
    one = math.sqrt(query.shape[1])  # scores are not yet divided by this, so that is what 1 is among them
    largest, start = -math.inf, 0
    positions, contending = [], []
    for keys in candidates.pieces:
        # By torch: numpy has a pool of threads of its own, and two pools jam.
        scores = torch.mm(query, keys if keys.dtype == query.dtype else keys.to(query.dtype)).numpy()[0]
        if start <= own < start + len(scores):
            scores[own - start] = -math.inf
        largest = max(scores.item(scores.argmax()), largest)  # scores.max() takes far longer when seldom called
        if not largest < math.inf:
            break
        (near,) = (scores >= largest - one).nonzero()  # with the largest, also where the difference rounds to it
        positions.append(near + start if start else near)
        contending.append(scores[near])
        start += len(scores)
    if not math.isfinite(largest):
        require_a_finite_maximum(torch.tensor([largest]))
    gaps = largest - _together(contending).astype(np.float64)
    order = gaps.argsort(kind="stable")
    gaps = gaps[order]
    # If just the k nearest have weight, it falls to 0 at a gap of (1 + their gaps) / k; the next is in if it is nearer.
    total, k = one, 0
    nearest = gaps.tolist()
    for gap in nearest:
        if gap * k >= total:
            break
        total += gap
        k += 1
    reach = total / k
    n = bisect_left(nearest, reach)  # k, unless rounding let in one whose weight is 0
    weights = ((reach - gaps[:n]) / one).astype(scores.dtype)
    return SupportOfOne(_together(positions)[order[:n]], weights, np.array([largest / one], dtype=scores.dtype))


def _together(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
