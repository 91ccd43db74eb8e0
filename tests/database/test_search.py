"""Streaming attention against the whole matrix of scores in double precision, whatever the chunks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from protoattend.core.attention import class_mass, label_votes
from protoattend.core.candidates import stored
from protoattend.core.model import ProtoAttend
from protoattend.database import search
from protoattend.database.searchable import Searchable
from protoattend.errors import UserError

from .searches import (
    CASES,
    CHUNKS,
    N_CLASSES,
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

ask_either = pytest.mark.parametrize("ask", [decide, prototypes])


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
