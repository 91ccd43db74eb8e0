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

BLOCK = 64  # candidates of which only the largest score is looked at, unless that one contends


@dataclass(frozen=True)
class SupportOfOne:
    """The candidates with non-zero weight: positions and weights `(n,)`, and the largest score `(1,)`."""

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
        order = np.argsort(-self.weights, kind="stable")[:top]
        positions, weights = np.zeros((1, top), dtype=np.int64), np.zeros((1, top), dtype=self.weights.dtype)
        positions[0, : len(order)], weights[0, : len(order)] = self.positions[order], self.weights[order]
        return torch.from_numpy(positions), torch.from_numpy(weights)

    def split(self) -> list[Prototypes]:
        order = np.argsort(-self.weights, kind="stable")
        return [Prototypes(torch.from_numpy(self.positions[order]), torch.from_numpy(self.weights[order]))]


def support_of_one(query: Tensor, keys: Tensor, own: int = -1) -> SupportOfOne:
    """Return the sparsemax support of a query `(d_att,)` among keys `(D, d_att)`, without that at `own`; -1 is none."""
    scores = torch.mv(keys.to(query.dtype), query / math.sqrt(len(query))).numpy()
    if own >= 0:
        scores[own] = -np.inf
    apart = len(scores) // BLOCK  # candidates of a block lie apart, so that maxima of many blocks are taken at once
    whole = apart * BLOCK
    tops, rest = scores[:whole].reshape(BLOCK, apart).max(0), scores[whole:]
    largest = np.maximum(tops.max(initial=-np.inf), rest.max(initial=-np.inf))  # NaN stays NaN
    if not math.isfinite(largest):
        require_a_finite_maximum(torch.tensor([largest]))
    # Differences, not a floor to compare with: among huge scores largest - 1 rounds to largest.
    blocks = np.flatnonzero(tops - largest > -1.0)
    near = np.append((blocks + apart * np.arange(BLOCK)[:, None]).ravel(), np.arange(whole, len(scores)))
    shifted = scores[near].astype(np.float64) - largest
    # Over the k largest scores alone tau would be (sum - 1) / k; the true one is the largest of these over k.
    ordered = -np.sort(-shifted[shifted > -1.0])
    tau = ((ordered.cumsum() - 1.0) / np.arange(1, len(ordered) + 1)).max()
    inside = shifted > tau
    weights = (shifted[inside] - tau).astype(scores.dtype)
    return SupportOfOne(near[inside], weights, np.array([largest], dtype=scores.dtype))
