"""Sparsemax on made-up scores: equal to three independent references, and true to a projection's laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import entmax
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protoattend.core.normalize import softmax
from protoattend.core.sparsemax import _sparsemax_by_sort, sparsemax

from ..reference import naive


def by_sort(scores: Tensor, *, exclude: Tensor | None = None) -> Tensor:
    """The path of compile and export, called as `sparsemax` is."""
    return _sparsemax_by_sort(scores if exclude is None else scores.masked_fill(exclude, -torch.inf))


both_paths = pytest.mark.parametrize("normalize", [sparsemax, by_sort], ids=["newton", "sort"])
few = settings(max_examples=150, deadline=None)

# Few levels make ties; a tiny scale makes near ties and large supports; a huge one makes a single prototype.
levels = st.sampled_from([-3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0])
free = st.floats(-4, 4, width=32)
scales = st.sampled_from([1e-6, 1e-3, 1.0, 30.0, 1e4, 1e8])


@st.composite
def rows(draw: st.DrawFn, max_size: int = 24) -> list[float]:
    """A row of scores that float32 holds exactly."""
    entry = draw(st.sampled_from([levels, free, st.one_of(levels, free)]))
    raw = draw(st.lists(entry, min_size=1, max_size=max_size))
    scaled = torch.tensor(raw, dtype=torch.float32) * draw(scales)
    return (scaled + draw(st.sampled_from([0.0, 0.0, 1e4, -1e4]))).tolist()


@st.composite
def rows_with_holes(draw: st.DrawFn, max_size: int = 24) -> tuple[list[float], list[bool]]:
    """A row of scores and what is excluded of it: never everything."""
    row = draw(rows(max_size))
    exclude = draw(st.lists(st.booleans(), min_size=len(row), max_size=len(row)))
    exclude[draw(st.integers(0, len(row) - 1))] = False
    return row, exclude


def one_row(row: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([row], dtype=dtype)


def close(ours: Tensor, expected: list[float] | Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(
        ours.double(),
        torch.as_tensor(expected, dtype=torch.float64).reshape(ours.shape),
        atol=tolerance,
        rtol=0,
    )


@both_paths
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@few
@given(made=rows_with_holes())
def test_equals_the_bisection(normalize: Callable[..., Tensor], dtype: torch.dtype, made: Any) -> None:
    row, exclude = made
    weights = normalize(one_row(row, dtype), exclude=torch.tensor([exclude]))
    assert weights.dtype == dtype
    close(weights, naive.sparsemax(row, exclude))
    assert not weights[0, torch.tensor(exclude)].any()


@both_paths
@few
@given(row=rows(max_size=7))
def test_equals_the_enumeration_of_supports(normalize: Callable[..., Tensor], row: list[float]) -> None:
    weights = normalize(one_row(row))
    exact = naive.sparsemax_by_enumeration(row)
    close(weights, exact, tolerance=1e-11)


@both_paths
@few
@given(made=rows_with_holes())
def test_equals_entmax(normalize: Callable[..., Tensor], made: Any) -> None:
    """With infinite scores in place of the mask: both must take -inf for "not a candidate"."""
    row, exclude = made
    masked = one_row(row).masked_fill(torch.tensor([exclude]), -torch.inf)
    close(normalize(masked), entmax.sparsemax(masked, dim=-1))


@both_paths
@few
@given(first=rows(), second=rows(), dim=st.integers(-3, 2))
def test_any_dim_and_rows_do_not_meet(
    normalize: Callable[..., Tensor], first: list[float], second: list[float], dim: int
) -> None:
    """Rows are independent: one that converges early must not be disturbed by one that does not."""
    width = max(len(first), len(second))
    padded = torch.full((2, 1, width), -torch.inf, dtype=torch.float64)
    padded[0, 0, : len(first)] = torch.tensor(first, dtype=torch.float64)
    padded[1, 0, : len(second)] = torch.tensor(second, dtype=torch.float64)
    turned = padded.movedim(-1, dim)
    weights = sparsemax(turned, dim) if normalize is sparsemax else by_sort(turned.movedim(dim, -1)).movedim(-1, dim)
    back = weights.movedim(dim, -1)
    close(back[0, 0, : len(first)], naive.sparsemax(first))
    close(back[1, 0, : len(second)], naive.sparsemax(second))


@both_paths
@few
@given(made=rows_with_holes())
def test_optimality_conditions(normalize: Callable[..., Tensor], made: Any) -> None:
    """What makes it the projection: p >= 0, sum 1, z_j - p_j is one tau on the support, z_j <= tau off it."""
    row, exclude = made
    allowed = ~torch.tensor(exclude)
    weights = normalize(one_row(row), exclude=~allowed[None])[0]
    assert bool((weights >= 0).all())
    assert weights.sum().item() == pytest.approx(1, abs=1e-9)
    scores = one_row(row)[0]
    room = 1e-11 * max(1.0, float(scores.abs().max()))
    taus = (scores - weights)[weights > 0]
    assert (taus.max() - taus.min()).item() <= room
    assert bool((scores[allowed] - weights[allowed] <= taus.max() + room).all())
    assert bool((weights[allowed & (scores <= scores[allowed].max() - 1 - room)] == 0).all())


@both_paths
@few
@given(made=rows_with_holes())
def test_excluding_is_deleting(normalize: Callable[..., Tensor], made: Any) -> None:
    row, exclude = made
    mask = torch.tensor([exclude])
    kept = [score for score, out in zip(row, exclude, strict=True) if not out]
    close(normalize(one_row(row), exclude=mask)[~mask], normalize(one_row(kept))[0], tolerance=1e-12)


@few
@given(made=rows_with_holes())
def test_softmax_excluding_is_deleting(made: Any) -> None:
    row, exclude = made
    mask = torch.tensor([exclude])
    kept = [score for score, out in zip(row, exclude, strict=True) if not out]
    weights = softmax(one_row(row), exclude=mask)
    close(weights[~mask], naive.softmax(kept), tolerance=1e-12)
    assert not weights[mask].any()


@both_paths
@few
@given(row=rows(), seed=st.integers(0, 2**16))
def test_order_symmetry_and_shift(normalize: Callable[..., Tensor], row: list[float], seed: int) -> None:
    scores = one_row(row)
    weights = normalize(scores)
    order = torch.randperm(len(row), generator=torch.Generator().manual_seed(seed))
    close(normalize(scores[:, order]), weights[:, order], tolerance=1e-12)
    close(normalize(scores + 2.5), weights, tolerance=1e-12 * max(1.0, float(scores.abs().max())))
    ranked = weights[0, scores[0].argsort()]
    assert bool((ranked.diff() >= 0).all()), "a larger score never has a smaller weight"
    for level in set(row):
        assert len(set(weights[0, scores[0] == level].tolist())) == 1, "equal scores have equal weights"


@both_paths
@few
@given(row=rows(max_size=12), other=rows(max_size=12))
def test_projection_is_idempotent_and_never_expands(
    normalize: Callable[..., Tensor], row: list[float], other: list[float]
) -> None:
    width = min(len(row), len(other))
    a, b = one_row(row[:width]), one_row(other[:width])
    p, q = normalize(a), normalize(b)
    close(normalize(p), p, tolerance=1e-12)
    assert (p - q).norm().item() <= (a - b).norm().item() * (1 + 1e-9) + 1e-12


@both_paths
@few
@given(made=rows_with_holes(max_size=10), seed=st.integers(0, 2**16))
def test_gradient_is_that_of_the_support(normalize: Callable[..., Tensor], made: Any, seed: int) -> None:
    """J = diag(s) - s s^T / |s| (Martins & Astudillo), as a matrix; the excluded get exactly 0."""
    row, exclude = made
    scores, mask = one_row(row).requires_grad_(), torch.tensor([exclude])
    weights = normalize(scores, exclude=mask)
    upstream = torch.randn(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    (gradient,) = torch.autograd.grad(weights, scores, upstream)
    s = (weights[0].detach() > 0).double()
    jacobian = torch.diag(s) - torch.outer(s, s) / s.sum()
    close(gradient[0], jacobian @ upstream[0], tolerance=1e-12)
    assert not gradient[mask].any()
