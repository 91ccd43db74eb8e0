"""The search as its tests ask it, cases for it, and what it must find by the whole matrix in double precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import entmax
import pytest
import torch
from torch import Tensor

from protoattend.database.attention import Attention
from protoattend.database.search import attend
from protoattend.database.searchable import Searchable

N_CLASSES, D = 4, 37
NORMALIZE = ("softmax", "sparsemax")
CHUNKS = (1, 2, 7, D - 1, D, D + 1, 4096)
normalizations = pytest.mark.parametrize("normalize", NORMALIZE)


class Prototypes(NamedTuple):
    """The prototypes of one query, heaviest first."""

    positions: Tensor
    weights: Tensor


def decide(queries: Tensor, candidates: Searchable, **how: Any) -> Attention:
    return attend(queries, candidates, top=0, **how)


def prototypes(queries: Tensor, candidates: Searchable, **how: Any) -> list[Prototypes]:
    return [Prototypes(*pair) for pair in attend(queries, candidates, **how).per_query()]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def searchable(keys: Tensor, seed: int = 5) -> Searchable:
    labels = torch.randint(N_CLASSES, (len(keys),), generator=torch.Generator().manual_seed(seed))
    return Searchable(keys, random(len(keys), N_CLASSES, seed=seed).to(keys.dtype), labels)


def make_case(name: str) -> tuple[Tensor, Tensor]:
    """Queries and keys `(D, d_att)`, as many queries as keys so that each can be its own row."""
    queries, keys = random(D, 4), random(D, 4, seed=1)
    levels = torch.randint(0, 2, (2, D, 4), generator=torch.Generator().manual_seed(2)).double()
    return {
        "random": (queries, keys),
        "after relu": (queries.relu(), keys.relu()),
        "all-zero queries": (torch.where(torch.arange(D)[:, None] % 2 == 0, 0.0, queries), keys),
        "only zero queries": (torch.zeros_like(queries), keys),
        "all-zero keys": (queries, torch.zeros_like(keys)),
        "ties": (levels[0], levels[1]),
        "duplicates": (queries, keys[torch.arange(D) % 5]),
        "nearly flat": (1e-3 * queries, keys),
        "far apart": (30 * queries, 30 * keys),
        "huge norms": (1e4 * queries, 1e4 * keys),
        "huge duplicates": (1e4 * queries, 1e4 * keys[torch.arange(D) % 5]),
    }[name]


CASES = (
    "random",
    "after relu",
    "all-zero queries",
    "only zero queries",
    "all-zero keys",
    "ties",
    "duplicates",
    "nearly flat",
    "far apart",
    "huge norms",
    "huge duplicates",
)


def dense(
    queries: Tensor, candidates: Searchable, normalize: str, own: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return weights, logits, class mass and largest score from the whole matrix, in double precision."""
    scores = queries.double() @ candidates.keys.double().T / queries.shape[1] ** 0.5
    if own is not None:
        for i, j in enumerate(own.tolist()):
            if j >= 0:
                scores[i, j] = -torch.inf
    weights = torch.softmax(scores, 1) if normalize == "softmax" else entmax.sparsemax(scores, dim=1)
    agree = candidates.labels[:, None] == torch.arange(candidates.class_scores.shape[1])
    return weights, weights @ candidates.class_scores.double(), weights @ agree.double(), scores.max(1).values


def check(found: Attention, expected: tuple[Tensor, ...], tolerance: float = 1e-9) -> None:
    _, logits, mass, largest = expected
    torch.testing.assert_close(found.logits.double(), logits, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(found.class_mass.double(), mass, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(found.largest_score.double(), largest, atol=tolerance, rtol=max(tolerance, 1e-6))


def rounding(expected: tuple[Tensor, ...]) -> float:
    """Return how far double precision may be off: a score of 1e8, and so its weight, has an error of 1e-8."""
    return max(1e-9, 1e-14 * float(expected[3].abs().max()))


def check_prototypes(found: list[Prototypes], weights: Tensor, tolerance: float = 1e-9) -> None:
    """Each query's prototypes are all of its non-zero weights, heaviest first, and add up to one."""
    assert len(found) == len(weights)
    spread = torch.zeros_like(weights)
    for one, row in zip(found, spread, strict=True):
        assert bool((one.weights.diff() <= 0).all()), "heaviest first"
        assert len(set(one.positions.tolist())) == len(one.positions)
        row[one.positions] = one.weights.double()
    torch.testing.assert_close(spread, weights, atol=tolerance, rtol=0)
    torch.testing.assert_close(spread.sum(1), torch.ones_like(spread[:, 0]), atol=tolerance, rtol=0)
