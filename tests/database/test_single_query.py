"""One query against sparsemax over all scores in double precision, and against the search for many."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from protoattend.core.sparsemax import sparsemax
from protoattend.database.attention import Attention
from protoattend.database.search import attend
from protoattend.database.searchable import PIECE, Searchable
from protoattend.database.single_query import attend_one
from protoattend.errors import UserError

from .searches import decide, prototypes


@pytest.fixture(autouse=True, params=[PIECE, 64])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protoattend.database.searchable.PIECE", request.param)


def make(count: int, kind: str) -> tuple[Tensor, Searchable]:
    generator = torch.Generator().manual_seed(count)
    queries, keys = (torch.randn(n, 16, generator=generator).relu() for n in (3, count))
    if kind == "ties":
        keys = keys[torch.arange(count) % 3]
    if kind == "zeros":
        queries = torch.zeros_like(queries)
    if kind == "huge":
        queries, keys = 1e4 * queries, 1e4 * keys
    class_scores = torch.randn(count, 4, generator=generator)
    return queries, Searchable(keys, class_scores, torch.arange(count) % 4)


@pytest.mark.parametrize("kind", ["random", "ties", "zeros", "huge"])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000])
def test_equals_the_dense_result(count: int, kind: str) -> None:
    queries, candidates = make(count, kind)
    scores = (queries / 4 @ candidates.keys.T).double()
    weights = sparsemax(scores)
    columns = torch.eye(4, dtype=torch.float64)[candidates.labels]
    for i in range(len(queries)):
        one = queries[i : i + 1]
        found = decide(one, candidates, normalize="sparsemax")
        torch.testing.assert_close(
            found.logits[0].double(), weights[i] @ candidates.class_scores.double(), atol=1e-5, rtol=1e-5
        )
        torch.testing.assert_close(found.class_mass[0].double(), weights[i] @ columns, atol=1e-5, rtol=1e-5)
        assert found.exact
        (shown,) = prototypes(one, candidates, normalize="sparsemax")
        laid = torch.zeros(count, dtype=torch.float64).index_add_(0, shown.positions, shown.weights.double())
        torch.testing.assert_close(laid, weights[i], atol=1e-5, rtol=1e-5)
        assert (shown.weights.diff() <= 0).all()


def test_its_branch_runs_and_equals_that_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, candidates = make(5000, "random")
    calls: list[Attention] = []

    def watched(*args: Any, **how: Any) -> Attention:
        calls.append(attend_one(*args, **how))
        return calls[-1]

    monkeypatch.setattr("protoattend.database.search.attend_one", watched)
    many = attend(queries, candidates, normalize="sparsemax", top=7)
    assert not calls
    for i in range(len(queries)):
        one = attend(queries[i : i + 1], candidates, normalize="sparsemax", top=7)
        torch.testing.assert_close(one.logits[0], many.logits[i], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(one.heaviest(7)[1][0], many.heaviest(7)[1][i], atol=1e-5, rtol=1e-5)
        assert one.positions.tolist() == many.positions[many.rows == i].tolist()
        assert not one.rows.any()
    assert len(calls) == len(queries)


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_top_prototypes_are_the_heaviest(normalize: str) -> None:
    queries, candidates = make(200, "random")
    positions, weights = attend(queries, candidates, normalize=normalize, top=5).heaviest(5)
    for i, shown in enumerate(prototypes(queries, candidates, normalize=normalize)):
        n = min(5, len(shown.positions))
        torch.testing.assert_close(weights[i, :n], shown.weights[:n])
        assert not weights[i, n:].any()
        assert candidates.keys[positions[i, :n]].tolist() == candidates.keys[shown.positions[:n]].tolist()


def test_the_row_itself_is_left_out() -> None:
    _, candidates = make(70, "random")
    for row in (0, 69):
        found = attend_one(3 * candidates.keys[row : row + 1], candidates, one=4.0, own=row)
        assert row not in found.positions.tolist()
        assert found.weights.sum() == pytest.approx(1.0, abs=1e-5)
    last = decide(3 * candidates.keys[69:], candidates, normalize="sparsemax", own=torch.tensor([-1]))
    torch.testing.assert_close(last.logits, decide(3 * candidates.keys[69:], candidates, normalize="sparsemax").logits)


def test_rounding_lets_no_candidate_of_weight_0_in() -> None:
    below = [0.0, 0.06553281807456951, 0.1074148124084965, 0.2674981979462047] + 5 * [0.3601114571073177]
    keys = -torch.tensor(below, dtype=torch.float64)[:, None]  # the last ones are where weight falls to 0
    one_class = Searchable(keys, keys, torch.zeros(len(keys), dtype=torch.long))
    found = attend_one(torch.ones(1, 1, dtype=torch.float64), one_class, one=1.0)
    assert found.positions.tolist() == [0, 1, 2, 3]
    assert (found.weights > 0).all()
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("place", [0, 64])
def test_scores_that_are_no_numbers(place: int) -> None:
    queries, candidates = make(65, "random")
    candidates.keys[place] = float("nan")
    with pytest.raises(UserError, match="attention scores must be finite"):
        attend_one(queries[:1], candidates, one=4.0)
    with pytest.raises(UserError, match="at least one candidate"):
        attend_one(queries[:1], make(1, "random")[1], one=4.0, own=0)
