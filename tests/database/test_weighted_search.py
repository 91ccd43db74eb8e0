"""A weighted candidate in the database decides as so many copies of it would, whatever the chunks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protoattend.core.normalize import normalizer
from protoattend.database import search
from protoattend.database.searchable import Searchable

from .searches import decide, prototypes

N_CLASSES, D = 4, 37
normalizations = pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def counts_of(n: int, highest: int = 6, seed: int = 3) -> Tensor:
    return torch.randint(1, highest, (n,), generator=torch.Generator().manual_seed(seed))


def searchable(keys: Tensor, weights: Tensor | None) -> Searchable:
    labels = torch.randint(N_CLASSES, (len(keys),), generator=torch.Generator().manual_seed(5))
    return Searchable(keys, random(len(keys), N_CLASSES, seed=5).to(keys.dtype), labels, weights)


def written_out(candidates: Searchable, counts: Tensor) -> tuple[Searchable, Tensor]:
    """Return the same database with copies instead of weights, and which candidate each copy is of."""
    copies = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return (
        Searchable(candidates.keys[copies], candidates.class_scores[copies], candidates.labels[copies]),
        copies,
    )


def cases() -> dict[str, tuple[Tensor, Tensor]]:
    queries, keys = random(D, 4), random(D, 4, seed=1)
    levels = torch.randint(0, 2, (2, D, 4), generator=torch.Generator().manual_seed(2)).double()
    return {
        "random": (queries, keys),
        "after relu": (queries.relu(), keys.relu()),
        "only zero queries": (torch.zeros_like(queries), keys),
        "ties": (levels[0], levels[1]),
        "nearly flat": (1e-3 * queries, keys),
        "far apart": (30 * queries, 30 * keys),
        "huge norms": (1e4 * queries, 1e4 * keys),
    }


@normalizations
@pytest.mark.parametrize("name", cases())
def test_equals_copies_for_any_chunk(name: str, normalize: str) -> None:
    queries, keys = cases()[name]
    counts = counts_of(D)
    weighted = searchable(keys, counts.double())
    repeated, copies = written_out(weighted, counts)
    expected = decide(queries, repeated, normalize=normalize)
    tolerance = max(1e-9, 1e-14 * float(expected.largest_score.abs().max()))
    shares = torch.zeros(D, D, dtype=torch.float64)
    for row, one in zip(shares, prototypes(queries, repeated, normalize=normalize), strict=True):
        row.index_add_(0, copies[one.positions], one.weights)
    for chunk in (1, 7, D, 4096):
        found = decide(queries, weighted, normalize=normalize, chunk=chunk)
        torch.testing.assert_close(found.logits, expected.logits, atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(found.class_mass, expected.class_mass, atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(found.largest_score, expected.largest_score)
        spread = torch.zeros_like(shares)
        for row, one in zip(spread, prototypes(queries, weighted, normalize=normalize, chunk=chunk), strict=True):
            assert bool((one.weights.diff() <= 0).all()), "heaviest first, weights included"
            row[one.positions] = one.weights
        torch.testing.assert_close(spread, shares, atol=tolerance, rtol=0)


def dense(queries: Tensor, candidates: Searchable, normalize: str, own: Tensor | None = None) -> Tensor:
    """The whole matrix at once, through the normalisation itself."""
    scores = queries @ candidates.keys.T / queries.shape[1] ** 0.5
    exclude = None if own is None else own[:, None] == torch.arange(len(candidates.keys))
    return normalizer(normalize)(scores, exclude=exclude, sample_weight=candidates.sample_weight)


@normalizations
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_any_weights_and_a_row_left_out_with_all_its_weight(normalize: str, spread: float, leave_one_out: bool) -> None:
    """Weights from 10**-spread to 10**spread; a light candidate on top lets far ones contend."""
    queries, keys = 2 * random(D, 4), 2 * random(D, 4, seed=1)
    weights = 10 ** (spread * (2 * torch.rand(D, generator=torch.Generator().manual_seed(4), dtype=torch.float64) - 1))
    weights[0] = 7.5  # also where all others count once
    candidates, own = searchable(keys, weights), torch.arange(D) if leave_one_out else None
    expected = dense(queries, candidates, normalize, own)
    for chunk in (1, 5, 4096):
        found = decide(queries, candidates, normalize=normalize, own=own, chunk=chunk)
        torch.testing.assert_close(found.logits, expected @ candidates.class_scores, atol=1e-8, rtol=1e-8)
        torch.testing.assert_close(found.class_mass.sum(1), torch.ones(D, dtype=torch.float64))
        for i, one in enumerate(prototypes(queries, candidates, normalize=normalize, own=own, chunk=chunk)):
            torch.testing.assert_close(one.weights, expected[i, one.positions], atol=1e-9, rtol=0)
            assert not leave_one_out or i not in one.positions.tolist()


@normalizations
def test_float32_is_as_good_as_its_rounding(normalize: str) -> None:
    queries, keys = random(D, 4), random(D, 4, seed=1)
    weights = 3 * torch.rand(D, generator=torch.Generator().manual_seed(4)) + 0.05
    exact = decide(queries, searchable(keys, weights.double()), normalize=normalize)
    found = decide(queries.float(), searchable(keys.float(), weights), normalize=normalize, chunk=5)
    assert found.logits.dtype == found.class_mass.dtype == torch.float32
    torch.testing.assert_close(found.logits.double(), exact.logits, atol=5e-6, rtol=5e-6)
    torch.testing.assert_close(found.class_mass.double(), exact.class_mass, atol=5e-6, rtol=5e-6)


@normalizations
@pytest.mark.parametrize("held", [1, D])
def test_supports_larger_than_memory(normalize: str, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys = cases()["nearly flat"]
    candidates = searchable(keys, counts_of(D).double())
    expected = decide(queries, candidates, normalize=normalize)
    monkeypatch.setattr(search, "HELD", held)
    found = decide(queries, candidates, normalize=normalize, chunk=6)
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.class_mass, expected.class_mass)


@normalizations
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_small_database(normalize: str, data: st.DataObject) -> None:
    d, n = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4))
    vectors = st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=d + n, max_size=d + n)
    everything = torch.tensor(data.draw(vectors), dtype=torch.float64)
    counts = torch.tensor(data.draw(st.lists(st.integers(1, 5), min_size=d, max_size=d)))
    weighted = searchable(everything[:d], counts.double())
    repeated, _ = written_out(weighted, counts)
    expected = decide(everything[d:], repeated, normalize=normalize)
    found = decide(everything[d:], weighted, normalize=normalize, chunk=data.draw(st.integers(1, 9)))
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.class_mass, expected.class_mass, atol=1e-9, rtol=0)


@pytest.mark.parametrize("weights", [None, counts_of(D)])
def test_few_queries_by_softmax_are_decided_as_among_many(weights: Tensor | None) -> None:
    many, candidates = random(2 * search.FEW, 4), searchable(random(D, 4, seed=1), weights)
    expected = decide(many, candidates, normalize="softmax", chunk=7)
    for few in (1, search.FEW):
        found = decide(many[:few], candidates, normalize="softmax", chunk=7)
        torch.testing.assert_close(found.logits, expected.logits[:few])
        torch.testing.assert_close(found.class_mass, expected.class_mass[:few])
