"""However many queries, contenders and candidates there are, few scores are held at once, and none is lost by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from protoattend.database import search

from .searches import (
    CASES,
    D,
    check,
    check_prototypes,
    decide,
    dense,
    make_case,
    normalizations,
    prototypes,
    random,
    rounding,
    searchable,
)


@normalizations
def test_more_queries_than_are_taken_at_once(normalize: str) -> None:
    n = 2 * search.QUERIES + 3
    queries, candidates = random(n, 4), searchable(random(n, 4, seed=1))
    own = torch.arange(n)
    expected = dense(queries, candidates, normalize, own)
    check(decide(queries, candidates, normalize=normalize, own=own, chunk=100), expected)
    check_prototypes(prototypes(queries, candidates, normalize=normalize, own=own, chunk=100), expected[0])


@normalizations
@pytest.mark.parametrize("held", [1, 4, D, 3 * D])
@pytest.mark.parametrize("name", ["random", "all-zero queries", "only zero queries", "ties"])
def test_supports_larger_than_memory(name: str, normalize: str, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "HELD", held)
    queries, keys = make_case(name)
    candidates, own = searchable(keys), torch.arange(D)
    expected = dense(queries, candidates, normalize, own)
    for chunk in (6, 4096):
        check(decide(queries, candidates, normalize=normalize, own=own, chunk=chunk), expected)
        check_prototypes(prototypes(queries, candidates, normalize=normalize, own=own, chunk=chunk), expected[0])


@pytest.mark.parametrize("many", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_is_below_the_threshold_of_some_is_left_out_early(
    name: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys = make_case(name)
    own = torch.arange(D)
    weighted = replace(searchable(keys), sample_weight=torch.arange(1, D + 1) / 4)
    alone = decide(queries, weighted, normalize="sparsemax", own=own)
    expected = dense(queries, searchable(keys), "sparsemax", own)
    near = rounding(expected)
    monkeypatch.setattr(search, "MANY", many)
    for chunk in (6, 4096):
        found = decide(queries, weighted, normalize="sparsemax", own=own, chunk=chunk)
        torch.testing.assert_close(found.logits, alone.logits, atol=near, rtol=near)
        torch.testing.assert_close(found.class_mass, alone.class_mass, atol=near, rtol=near)
        check(decide(queries, searchable(keys), normalize="sparsemax", own=own, chunk=chunk), expected, near)


def test_flat_scores_leave_few_contenders() -> None:
    queries, candidates = random(4, 8) / 10, searchable(random(50_000, 8, seed=1))
    found = search._contenders(queries / 8**0.5, candidates, None, 1000, None)
    assert found is not None
    support = sum(len(each.weights) for each in prototypes(queries, candidates, normalize="sparsemax"))
    assert support <= len(found[0]) < 4 * support < 4 * 50_000 / 2


def test_the_split_for_memory_did_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the tests above went through it: too many contenders, fewer queries, down to one by one."""
    monkeypatch.setattr(search, "HELD", 4)
    sizes: list[tuple[int, bool]] = []
    contenders = search._contenders

    def spy(queries: Tensor, *others: Any) -> object:
        found = contenders(queries, *others)
        sizes.append((len(queries), found is None))
        return found

    monkeypatch.setattr(search, "_contenders", spy)
    queries, keys = make_case("only zero queries")
    decide(queries[:4], searchable(keys), normalize="sparsemax")
    assert sizes == [(4, True), (2, True), (2, True)], "a single query is searched in a way of its own"


@normalizations
def test_never_more_scores_at_once_than_a_chunk(normalize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    keep = search.without_own

    def spy(scores: Tensor, own: Tensor | None, start: int) -> Tensor:
        shapes.append(tuple(scores.shape))
        return keep(scores, own, start)

    monkeypatch.setattr(search, "without_own", spy)
    decide(random(300, 4), searchable(random(1000, 4)), normalize=normalize, chunk=64)
    assert len(shapes) == 2 * 16
    assert max(rows for rows, _ in shapes) <= search.QUERIES
    assert max(columns for _, columns in shapes) <= 64


@normalizations
def test_with_top_all_scores_are_never_held(normalize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[int] = []
    keep = search.without_own

    def spy(scores: Tensor, own: Tensor | None, start: int = 0) -> Tensor:
        shapes.append(scores.shape[1])
        return keep(scores, own, start)

    monkeypatch.setattr(search, "without_own", spy)
    search.attend(random(300, 4), searchable(random(1000, 4)), normalize=normalize, chunk=64, top=5)
    assert max(shapes) <= 64
