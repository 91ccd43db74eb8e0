"""Streaming attention against the whole matrix of scores in double precision, whatever the chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import entmax
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from protoattend.core.attention import class_mass, label_votes, ragged_class_mass
from protoattend.core.candidates import stored
from protoattend.core.model import ProtoAttend
from protoattend.database import search
from protoattend.database.attention import Attention
from protoattend.database.searchable import Searchable
from protoattend.errors import UserError

from .searches import Prototypes, decide, prototypes

N_CLASSES, D = 4, 37
NORMALIZE = ("softmax", "sparsemax")
CHUNKS = (1, 2, 7, D - 1, D, D + 1, 4096)
normalizations = pytest.mark.parametrize("normalize", NORMALIZE)
ask_either = pytest.mark.parametrize("ask", [decide, prototypes])


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


@normalizations
@pytest.mark.parametrize("name", CASES)
def test_equals_the_dense_matrix_for_any_chunk(name: str, normalize: str) -> None:
    queries, keys = make_case(name)
    candidates = searchable(keys)
    before = queries.clone(), keys.clone()
    expected = dense(queries, candidates, normalize)
    tolerance = rounding(expected)
    for chunk in CHUNKS:
        check(decide(queries, candidates, normalize=normalize, chunk=chunk), expected, tolerance)
        check_prototypes(prototypes(queries, candidates, normalize=normalize, chunk=chunk), expected[0], tolerance)
    assert torch.equal(queries, before[0])
    assert torch.equal(keys, before[1])


@normalizations
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("which", ["its own row", "the first", "the last", "some none"])
def test_own_row_is_left_out(name: str, normalize: str, which: str) -> None:
    """In any chunk, also where the first chunk holds nothing but the row that may not be used."""
    queries, keys = make_case(name)
    itself = torch.arange(D)
    own = {
        "its own row": itself,
        "the first": torch.zeros_like(itself),
        "the last": torch.full_like(itself, D - 1),
        "some none": torch.where(itself % 3 == 0, -1, itself),
    }[which]
    candidates = searchable(keys)
    expected = dense(queries, candidates, normalize, own)
    tolerance = rounding(expected)
    for chunk in (1, 3, D, 4096):
        check(decide(queries, candidates, normalize=normalize, own=own, chunk=chunk), expected, tolerance)
        found = prototypes(queries, candidates, normalize=normalize, own=own, chunk=chunk)
        check_prototypes(found, expected[0], tolerance)
        assert not any(one.weights[one.positions == j].any() for one, j in zip(found, own, strict=True))


@normalizations
def test_a_candidate_without_weight_is_no_prototype(normalize: str) -> None:
    """Neither the row left out nor one whose softmax weight is too small for a float."""
    queries, keys = make_case("far apart")
    own = torch.arange(D)
    for one, j in zip(prototypes(queries, searchable(keys), normalize=normalize, own=own), own.tolist(), strict=True):
        assert bool((one.weights > 0).all())
        assert j not in one.positions.tolist()


@normalizations
@pytest.mark.parametrize("name", ["random", "after relu", "all-zero queries", "ties", "duplicates", "nearly flat"])
def test_float32_is_as_good_as_its_rounding(name: str, normalize: str) -> None:
    queries, keys = (part.float() for part in make_case(name))
    candidates = searchable(keys)
    expected = dense(queries, candidates, normalize)
    found = decide(queries, candidates, normalize=normalize, chunk=5)
    assert found.logits.dtype == found.class_mass.dtype == found.largest_score.dtype == torch.float32
    check(found, expected, 5e-6)
    check_prototypes(prototypes(queries, candidates, normalize=normalize, chunk=5), expected[0], 5e-6)


@normalizations
@pytest.mark.parametrize("norm", [1e3, 3e3, 1e4, 1e6])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_huge_norms_in_float32(normalize: str, norm: float, chunk: int) -> None:
    """Where float32 cannot tell z from z - 1, the largest score still wins, and duplicates of it share."""
    keys = norm * torch.eye(6)[[0, 1, 2, 2, 3, 4]]
    queries = norm * torch.eye(6)[[0, 2, 4]]
    candidates = searchable(keys)
    expected = dense(queries, candidates, normalize)
    assert expected[0][1].tolist() == [0, 0, 0.5, 0.5, 0, 0]
    check(decide(queries, candidates, normalize=normalize, chunk=chunk), expected, 1e-6)
    check_prototypes(prototypes(queries, candidates, normalize=normalize, chunk=chunk), expected[0], 1e-6)


@normalizations
@pytest.mark.parametrize("chunk", [1, 10])
def test_a_database_of_one(normalize: str, chunk: int) -> None:
    candidates = searchable(random(1, 4))
    queries = torch.cat([random(3, 4, seed=1), torch.zeros(1, 4, dtype=torch.float64)])
    found = decide(queries, candidates, normalize=normalize, chunk=chunk)
    check(found, dense(queries, candidates, normalize))
    torch.testing.assert_close(found.logits, candidates.class_scores.expand(4, -1))
    for one in prototypes(queries, candidates, normalize=normalize, chunk=chunk):
        assert (one.positions.tolist(), one.weights.tolist()) == ([0], [1.0])


@normalizations
@ask_either
def test_nothing_left_to_attend_to_is_named(normalize: str, ask: Callable[..., object]) -> None:
    """Leaving one out of a database of one leaves nothing: an error, never a decision out of nothing."""
    with pytest.raises(UserError, match="at least one candidate"):
        ask(random(1, 4), searchable(random(1, 4)), normalize=normalize, own=torch.tensor([0]))


@normalizations
@ask_either
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_non_finite_queries_are_named(normalize: str, ask: Callable[..., object], bad: float) -> None:
    queries = random(3, 4)
    queries[1, 2] = bad
    with pytest.raises(UserError, match="must be finite"):
        ask(queries, searchable(random(6, 4).relu() + 0.1), normalize=normalize)


@ask_either
def test_unknown_normalisation(ask: Callable[..., object]) -> None:
    with pytest.raises(UserError, match="normalize must be one of"):
        ask(random(1, 4), searchable(random(3, 4)), normalize="hardmax")


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
@pytest.mark.parametrize("top", [0, 1, 3, D, D + 5])
@pytest.mark.parametrize("counted", [False, True])
def test_the_heaviest_are_kept_and_decisions_are_by_all(normalize: str, top: int, counted: bool) -> None:
    queries, keys = make_case("random")
    sample_weight = torch.arange(1, D + 1).double() / 4 if counted else None
    candidates = replace(searchable(keys), sample_weight=sample_weight)
    for own in (None, torch.arange(D)):
        whole = search.attend(queries, candidates, normalize=normalize, own=own)
        for chunk in (1, 7, 4096):
            found = search.attend(queries, candidates, normalize=normalize, own=own, top=top, chunk=chunk)
            for name in ("logits", "class_mass", "largest_score"):
                torch.testing.assert_close(getattr(found, name), getattr(whole, name))
            assert bool((found.rows.diff() >= 0).all()), "rows ascending"
            assert found.sizes.tolist() == whole.sizes.clamp(max=top).tolist()
            for (ours, weights), (theirs, expected) in zip(found.per_query(), whole.per_query(), strict=True):
                assert ours.tolist() == theirs[:top].tolist()
                torch.testing.assert_close(weights, expected[:top])


@normalizations
def test_fewer_prototypes_than_asked_for_are_filled_up_with_weight_0(normalize: str) -> None:
    queries, keys = make_case("far apart")
    found = search.attend(queries, searchable(keys), normalize=normalize, top=D)
    positions, weights = found.heaviest(D)
    assert positions.shape == weights.shape == (D, D)
    assert (weights > 0).sum(1).tolist() == found.sizes.tolist()
    assert bool((weights.diff(dim=1) <= 0).all())
    torch.testing.assert_close(
        weights, dense(queries, searchable(keys), normalize)[0].gather(1, positions) * (weights > 0)
    )
    assert found.counts(1.0).max() <= found.sizes.max()


@normalizations
@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_temperature_divides_the_scores(normalize: str, temperature: float) -> None:
    queries, keys = make_case("random")
    candidates = searchable(keys)
    for some in (queries, queries[:1]):  # many, and one, which has a way of its own
        for top in (None, 3, 0):
            found = search.attend(some, candidates, normalize=normalize, temperature=temperature, top=top)
            expected = search.attend(some / temperature, candidates, normalize=normalize, top=top)
            for name in ("rows", "positions", "weights", "logits", "class_mass", "largest_score"):
                torch.testing.assert_close(getattr(found, name), getattr(expected, name))


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


@normalizations
def test_prototypes_explain_the_decision(normalize: str) -> None:
    queries, keys = make_case("after relu")
    candidates = searchable(keys)
    decisions = decide(queries, candidates, normalize=normalize)
    for i, one in enumerate(prototypes(queries, candidates, normalize=normalize)):
        logits = one.weights @ candidates.class_scores[one.positions]
        torch.testing.assert_close(logits, decisions.logits[i], atol=1e-9, rtol=0)
        mass = ragged_class_mass(candidates.labels[one.positions], one.weights, N_CLASSES)[0]
        torch.testing.assert_close(mass, decisions.class_mass[i], atol=1e-9, rtol=0)


def test_equal_prototypes_come_in_the_order_of_the_database() -> None:
    """So that an explanation does not depend on the chunk or on how many were asked about."""
    candidates = searchable(torch.zeros(D, 4))
    for chunk in CHUNKS:
        (one,) = prototypes(torch.ones(1, 4), candidates, normalize="sparsemax", chunk=chunk)
        assert one.positions.tolist() == list(range(D))


@normalizations
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_forward_of_the_model(normalize: str, dtype: torch.dtype) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ProtoAttend(nn.Linear(6, 8), N_CLASSES, in_features=8, d_att=4, d_out=5, normalize=normalize).to(dtype)
    x, candidate_x = 3 * random(20, 6).to(dtype), 3 * random(50, 6, seed=1).to(dtype)
    labels = torch.arange(50) % N_CLASSES
    with torch.no_grad():
        encoded = model.encode(candidate_x)
        output = model(x, stored(encoded.keys, encoded.values))
        candidates = Searchable(encoded.keys, model.decision(encoded.values), labels)
        found = decide(output.encoded.queries, candidates, normalize=normalize, chunk=8)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    torch.testing.assert_close(found.logits, output.prototype_logits, atol=tolerance, rtol=tolerance)
    mass = class_mass(output.weights, label_votes(labels, N_CLASSES, dtype))
    torch.testing.assert_close(found.class_mass, mass, atol=tolerance, rtol=tolerance)


integers = st.integers(-3, 3)  # whole numbers: ties are exact, and float32 is exact as well


@normalizations
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_small_database(normalize: str, data: st.DataObject) -> None:
    d = data.draw(st.integers(2, 9), label="candidates")
    n = data.draw(st.integers(1, 5), label="queries")
    vectors = st.lists(st.lists(integers, min_size=4, max_size=4), min_size=d + n, max_size=d + n)
    drawn = torch.tensor(data.draw(vectors), dtype=torch.float32) * data.draw(st.sampled_from([0.25, 1.0, 1000.0]))
    queries, keys = drawn[:n], drawn[n:]
    own = torch.tensor(data.draw(st.lists(st.integers(-1, d - 1), min_size=n, max_size=n)))
    chunk = data.draw(st.integers(1, d + 1), label="chunk")
    candidates = searchable(keys)
    expected = dense(queries, candidates, normalize, own)
    check(decide(queries, candidates, normalize=normalize, own=own, chunk=chunk), expected, 1e-5)
    check_prototypes(prototypes(queries, candidates, normalize=normalize, own=own, chunk=chunk), expected[0], 1e-5)
