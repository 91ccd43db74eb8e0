"""Sparsemax attention of a single query, in numpy: each of its many small steps costs a fraction of what torch takes.

With one query over 32,768 candidates most of the time would otherwise go into calling functions.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
import torch
from torch import Tensor

from protoattend.core.checks import require_a_finite_maximum
from protoattend.database.attention import Attention
from protoattend.database.flat_mass import Flat, with_flat_reading
from protoattend.database.searchable import Searchable


def attend_one(
    query: Tensor,
    candidates: Searchable,
    *,
    one: float,
    own: int = -1,
    top: int | None = None,
    flat: Flat | None = None,
) -> Attention:
    """Return the attention of a query `(1, d_att)`, the `top` heaviest prototypes kept, without the candidate at `own`.

    Products of query and keys are not yet divided by sqrt(d_att) and temperature: `one` is what 1 is among them. `flat`
    is the flat reading, its temperature beside that of the decision; None is without.
    """
    gathered = None if flat is None else _FlatMassOfOne(candidates, flat, one)
    positions, weights, largest = _support(query, candidates, one, own, gathered)
    class_scores, labels = candidates.arrays
    logits = weights.dot(class_scores.take(positions, 0))
    # By numpy: class mass by torch, as elsewhere, takes five times as long for a dozen prototypes.
    mass = np.bincount(labels.take(positions), weights, class_scores.shape[1]).astype(weights.dtype)
    if top is not None:
        positions, weights = positions[:top], weights[:top]
    found = Attention(
        torch.from_numpy(np.zeros(len(positions), dtype=np.int64)),
        torch.from_numpy(positions),
        torch.from_numpy(weights),
        torch.from_numpy(logits[None]),
        torch.from_numpy(mass[None]),
        torch.from_numpy(largest),
    )
    return found if gathered is None else gathered.of(found)


def _support(
    query: Tensor, candidates: Searchable, one: float, own: int, flat: _FlatMassOfOne | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions and weights `(n,)` of non-zero weight, heaviest first, and the largest score `(1,)`."""
    largest, start = -math.inf, 0
    positions, contending = [], []
    for keys in candidates.pieces:
        # By torch: numpy has a pool of threads of its own, and two pools jam.
        scores = torch.mm(query, keys if keys.dtype == query.dtype else keys.to(query.dtype)).numpy()[0]
        if start <= own < start + len(scores):
            scores[own - start] = -math.inf
        if flat is not None:
            flat.add(scores if flat.width is None else _learned_scores(query, keys, flat.width, own - start), start)
        if len(away := candidates.atypical_in(start, len(scores))):
            scores[away.numpy()] = -math.inf
        largest = max(scores.item(scores.argmax()), largest)  # scores.max() takes far longer when seldom called
        if not largest < math.inf:
            break
        (near,) = (scores >= largest - one).nonzero()  # with the largest, also where the difference rounds to it
        positions.append(near + start if start else near)
        contending.append(scores[near])
        start += len(scores)
    if not math.isfinite(largest):
        require_a_finite_maximum(torch.tensor([largest]))
    places, scores = _together(positions), _together(contending)
    if candidates.positions is not None:  # those of equal weight come in the order of the database
        ordered = candidates.positions.numpy()[places].argsort()
        places, scores = places[ordered], scores[ordered]
    gaps = largest - scores.astype(np.float64)
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
    return places[order[:n]], weights, np.array([largest / one], dtype=scores.dtype)


def _learned_scores(query: Tensor, keys: Tensor, width: int, own: int) -> np.ndarray:
    """Return the products of the first numbers of a query and keys `(d_att, n)`, -inf at `own` where it is there."""
    scores: np.ndarray = torch.mm(query[:, :width], keys[:width].to(query.dtype)).numpy()[0]
    if 0 <= own < len(scores):
        scores[own] = -math.inf
    return scores


class _FlatMassOfOne:
    """What `FlatMass` is of several queries, by products of query and keys, among which 1 is `one`."""

    def __init__(self, candidates: Searchable, flat: Flat, one: float) -> None:
        self._candidates = candidates
        self._flat, self.width = flat, flat.width
        self._ratio = math.log2(math.e) / (flat.temperature * one)
        self._largest = -math.inf
        self._sums = np.zeros(candidates.class_scores.shape[1])

    def add(self, scores: np.ndarray, start: int) -> None:
        highest = max(scores.item(scores.argmax()), self._largest)
        if not math.isfinite(highest):
            return
        masses = scores - highest
        masses *= self._ratio
        np.exp2(masses, out=masses)
        self._sums *= 2.0 ** ((self._largest - highest) * self._ratio)
        if self._candidates.label_starts is None:
            labels = self._candidates.arrays[1][start : start + len(scores)]
            self._sums += np.bincount(labels, masses, len(self._sums))
        else:
            for label, own in self._candidates.of_labels(start, len(scores)):
                self._sums[label] += np.add.reduce(masses[own])
        self._largest = highest

    def of(self, attention: Attention) -> Attention:
        scale = torch.tensor([self._largest * self._ratio], dtype=torch.float64)
        return with_flat_reading(attention, torch.from_numpy(self._sums[None]), scale, self._flat)


def _together(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
