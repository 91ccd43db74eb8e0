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
from protoattend.database.flat_mass import FlatMass
from protoattend.database.searchable import Searchable


def attend_one(
    query: Tensor,
    candidates: Searchable,
    *,
    one: float,
    own: int = -1,
    top: int | None = None,
    flat: float | None = None,
) -> Attention:
    """Return the attention of a query `(1, d_att)`, the `top` heaviest prototypes kept, without the candidate at `own`.

    Products of query and keys are not yet divided by sqrt(d_att) and temperature: `one` is what 1 is among them. `flat`
    is the temperature of the decision divided by that of the flat reading; None is without.
    """
    gathered = None if flat is None else FlatMass(1, candidates, flat / one)
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
    query: Tensor, candidates: Searchable, one: float, own: int, flat: FlatMass | None
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
            flat.add(torch.from_numpy(scores[None]), start)
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
    return _together(positions)[order[:n]], weights, np.array([largest / one], dtype=scores.dtype)


def _together(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
