"""Candidates that count several times: the same as so many copies of them, in value and in gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protoattend.core.attention import attention_scores, relational_attention
from protoattend.core.normalize import softmax
from protoattend.core.sparsemax import sparsemax
from protoattend.errors import UserError

INF = torch.inf
both = pytest.mark.parametrize("normal", [softmax, sparsemax], ids=["softmax", "sparsemax"])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(ours: Tensor, expected: Any, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(ours, torch.as_tensor(expected, dtype=ours.dtype), atol=tolerance, rtol=0)


def by_repetition(
    normal: Callable[..., Tensor], scores: Tensor, counts: Tensor, exclude: Tensor | None = None
) -> Tensor:
    """Write every candidate down as many times as it counts, then add up what its copies got."""
    copies = torch.repeat_interleave(torch.arange(len(counts)), counts)
    repeated = normal(scores[:, copies], exclude=None if exclude is None else exclude[:, copies])
    return torch.zeros_like(scores).index_add(1, copies, repeated)


@pytest.mark.parametrize(
    ("scores", "counts", "weights"),
    [
        ([0.0, 0.0], [3.0, 1.0], [0.75, 0.25]),
        ([1.0, 0.8, -1.0], [2.0, 1.0, 1.0], [0.8, 0.2, 0.0]),
        ([0.0, -0.5], [2.0, 1.0], [1.0, 0.0]),  # alone, two copies have tau = -1/2: nothing lower gets any
        ([0.0, -1.5], [0.5, 1.0], [5 / 6, 1 / 6]),  # half a row has tau = -2: what is 1.5 below still counts
        ([0.0, -1.0, -5.0], [0.1, 1.0, 1.0], [2 / 11, 9 / 11, 0.0]),
        ([3.0, 0.0, 0.0], [0.0, 1.0, 3.0], [0.0, 0.25, 0.75]),
        ([0.0, -INF, 0.0], [1.0, 5.0, 3.0], [0.25, 0.0, 0.75]),
        ([7.0], [1e-3], [1.0]),
    ],
)
def test_sparsemax_by_hand(scores: list[float], counts: list[float], weights: list[float]) -> None:
    close(sparsemax(torch.tensor([scores]), sample_weight=torch.tensor(counts)), [weights], 1e-6)


def test_softmax_by_hand() -> None:
    scores = torch.tensor([[0.0, 2.0, -1.0]], dtype=torch.float64)
    counts = torch.tensor([2.0, 0.5, 0.0], dtype=torch.float64)
    masses = torch.tensor([[2.0, 0.5 * torch.e**2, 0.0]], dtype=torch.float64)
    close(softmax(scores, sample_weight=counts), masses / masses.sum())


@both
@pytest.mark.parametrize("scale", [0.0, 1e-4, 0.3, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("holes", [False, True])
def test_equals_repetition(normal: Callable[..., Tensor], scale: float, holes: bool) -> None:
    scores = scale * random(12, 9)
    scores[:, 4] = scores[:, 2]  # ties
    counts = torch.tensor([1, 2, 0, 5, 1, 3, 0, 1, 40])
    exclude = torch.rand(12, 9, generator=torch.Generator().manual_seed(1)) < 0.4 if holes else None
    if exclude is not None:
        exclude[:, 3] = False
    before = scores.clone()
    found = normal(scores, exclude=exclude, sample_weight=counts.double())
    close(found, by_repetition(normal, scores, counts, exclude))
    close(found.sum(1), torch.ones(12))
    assert not found[:, counts == 0].any()
    assert torch.equal(scores, before)


levels = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0])
entries = st.lists(st.tuples(st.one_of(levels, st.floats(-4, 4)), st.integers(0, 6)), min_size=1, max_size=12)


@both
@settings(max_examples=150, deadline=None)
@given(drawn=entries.filter(lambda row: any(count for _, count in row)))
def test_equals_repetition_for_any_row(normal: Callable[..., Tensor], drawn: list[tuple[float, int]]) -> None:
    scores = torch.tensor([[score for score, _ in drawn]], dtype=torch.float64)
    counts = torch.tensor([count for _, count in drawn])
    close(normal(scores, sample_weight=counts.double()), by_repetition(normal, scores, counts))


@settings(max_examples=150, deadline=None)
@given(drawn=st.lists(st.tuples(st.floats(-4, 4), st.floats(0.01, 20)), min_size=1, max_size=10))
def test_sparsemax_of_any_weights_solves_its_equation(drawn: list[tuple[float, float]]) -> None:
    """p_j = w_j max(z_j - tau, 0) for one tau, found here by bisection, with sum 1."""
    low, high = -200.0, 5.0  # one candidate alone has tau = z - 1 / w >= -104
    for _ in range(200):
        middle = (low + high) / 2
        enough = sum(w * max(z - middle, 0.0) for z, w in drawn) >= 1
        low, high = (middle, high) if enough else (low, middle)
    scores, weights = (torch.tensor(column, dtype=torch.float64) for column in zip(*drawn, strict=True))
    close(sparsemax(scores[None], sample_weight=weights), [[w * max(z - low, 0.0) for z, w in drawn]])


@both
def test_weights_of_one_change_nothing(normal: Callable[..., Tensor]) -> None:
    scores = random(20, 30)
    close(normal(scores, sample_weight=torch.ones(30, dtype=torch.float64)), normal(scores))


@both
@pytest.mark.parametrize("dim", [0, 1, -2, -1])
def test_along_any_dim(normal: Callable[..., Tensor], dim: int) -> None:
    scores = random(3, 4, 5)
    weights = torch.arange(scores.shape[dim], dtype=torch.float64) + 0.5
    found = normal(scores, dim, sample_weight=weights)
    close(found.movedim(dim, -1), normal(scores.movedim(dim, -1), sample_weight=weights))
    close(found.sum(dim), torch.ones_like(found.sum(dim)))


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precision_is_that_of_the_scores(normal: Callable[..., Tensor], dtype: torch.dtype) -> None:
    scores, weights = random(2, 50).to(dtype), torch.rand(50, generator=torch.Generator().manual_seed(1)) + 0.1
    found = normal(scores, sample_weight=weights)
    assert found.dtype == dtype
    if dtype != torch.float32:
        assert torch.equal(found, normal(scores.float(), sample_weight=weights).to(dtype))


@both
def test_errors_are_those_without_weights(normal: Callable[..., Tensor]) -> None:
    ones = torch.ones(3)
    with pytest.raises(UserError, match="must be finite"):
        normal(torch.tensor([[0.0, torch.nan, 1.0]]), sample_weight=ones)
    with pytest.raises(UserError, match="at least one candidate"):
        normal(torch.zeros(1, 3), sample_weight=0 * ones)
    with pytest.raises(UserError, match="at least one candidate"):
        normal(
            torch.zeros(1, 3), exclude=torch.tensor([[False, True, True]]), sample_weight=torch.tensor([0.0, 1.0, 1.0])
        )


@both
@pytest.mark.parametrize("seed", range(4))
def test_gradcheck(normal: Callable[..., Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = (0.2, 1.0, 1.0, 3.0)[seed] * torch.randn(4, 7, generator=generator, dtype=torch.float64)
    weights = 3 * torch.rand(7, generator=generator, dtype=torch.float64)
    weights[3] = 0
    exclude = torch.rand(4, 7, generator=generator) < 0.35
    exclude[:, 2] = False
    assert torch.autograd.gradcheck(
        lambda z: normal(z, exclude=exclude, sample_weight=weights), (scores.requires_grad_(),), atol=1e-6
    )


@both
def test_gradient_equals_that_of_the_copies(normal: Callable[..., Tensor]) -> None:
    scores, upstream = random(6, 8), random(6, 8, seed=1)
    counts = torch.tensor([1, 2, 0, 5, 1, 3, 1, 2])
    gradients = []
    for weigh in (lambda z: normal(z, sample_weight=counts.double()), lambda z: by_repetition(normal, z, counts)):
        leaf = scores.clone().requires_grad_()
        gradients += torch.autograd.grad(weigh(leaf), leaf, upstream)
    close(*gradients)


def test_sparsemax_gradient_by_formula() -> None:
    """w_j (g_j - sum_S w g / sum_S w) on the support S, and nothing off it."""
    scores, upstream = random(5, 8).requires_grad_(), random(5, 8, seed=1)
    weights = torch.linspace(0.2, 3, 8, dtype=torch.float64)
    projected = sparsemax(scores, sample_weight=weights)
    (gradient,) = torch.autograd.grad(projected, scores, upstream)
    on_support = weights * (projected > 0)
    mean = (on_support * upstream).sum(1, keepdim=True) / on_support.sum(1, keepdim=True)
    close(gradient, on_support * (upstream - mean))


@both
def test_an_excluded_score_may_be_anything(normal: Callable[..., Tensor]) -> None:
    scores = torch.tensor([[torch.nan, 1.0, 0.5, INF]], requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0, 0.5])
    found = normal(scores, exclude=torch.tensor([[True, False, False, True]]), sample_weight=weights)
    close(found[:, 1:3].detach(), normal(torch.tensor([[1.0, 0.5]]), sample_weight=weights[1:3]), 1e-6)
    found[0, 1].backward()
    assert scores.grad is not None
    assert bool(torch.isfinite(scores.grad).all())


@both
def test_compiles_as_one_graph(normal: Callable[..., Tensor]) -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda z, w: normal(z, sample_weight=w), fullgraph=True, backend="eager")
    scores, weights = random(4, 6), torch.tensor([1.0, 2.0, 0.0, 0.5, 1.0, 9.0], dtype=torch.float64)
    close(compiled(scores, weights), normal(scores, sample_weight=weights))


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_relational_attention_hands_them_on(name: str) -> None:
    queries, keys = random(5, 4), random(7, 4, seed=1)
    weights = torch.rand(7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    normal = {"softmax": softmax, "sparsemax": sparsemax}[name]
    expected = normal(attention_scores(queries, keys), sample_weight=weights)
    close(relational_attention(queries, keys, normalize=name, sample_weight=weights), expected)
