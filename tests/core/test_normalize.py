"""n() of eq. 1: values by hand, hard sizes and ranges, errors, gradients, and which path runs when."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import entmax
import pytest
import torch
from torch import Tensor

from protoattend.core import sparsemax as inside
from protoattend.core.normalize import normalizer, softmax
from protoattend.core.sparsemax import _sparsemax_by_sort, sparsemax, sparsemax_threshold
from protoattend.errors import UserError

INF, NAN = torch.inf, torch.nan
WIDE = [[0.0, -2.6, -3.0, -9.0, -1e4], [5.0, 4.5, 4.4, -1e4, 1.0], [1e4, 1e4, -1e4, 0.0, 9999.5]]


def by_sort(scores: Tensor, *, exclude: Tensor | None = None) -> Tensor:
    """The path of compile and export, called as `sparsemax` is."""
    return _sparsemax_by_sort(scores if exclude is None else scores.masked_fill(exclude, -INF))


both = pytest.mark.parametrize("normal", [softmax, sparsemax], ids=["softmax", "sparsemax"])
both_paths = pytest.mark.parametrize("path", [sparsemax, by_sort], ids=["newton", "sort"])
everything = pytest.mark.parametrize("normal", [softmax, sparsemax, by_sort], ids=["softmax", "newton", "sort"])


def close(ours: Tensor, expected: Any, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(ours, torch.as_tensor(expected, dtype=ours.dtype), atol=tolerance, rtol=0)


@both_paths
@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        ([3.0], [1.0]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([1.0, 0.8, -1.0], [0.6, 0.4, 0.0]),
        ([0.0, -1.0], [1.0, 0.0]),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 1.0]),
        ([0.5, 0.5, 0.5, 0.5], [0.25] * 4),
        ([0.3, 0.1, 0.2], [13 / 30, 7 / 30, 10 / 30]),
        ([-1e4, 1e4, 1e4], [0.0, 0.5, 0.5]),
        ([-INF, 7.0, -INF], [0.0, 1.0, 0.0]),
        ([0.0, -INF, -0.5], [0.75, 0.0, 0.25]),
        # A finite score far below the largest stands beside an impossible one: neither may count.
        ([0.0, -2.6, -3.0, -INF], [1.0, 0.0, 0.0, 0.0]),
        ([-INF, 0.0, -1e4, -0.5, -INF, -5.0], [0.0, 0.75, 0.0, 0.25, 0.0, 0.0]),
    ],
)
def test_by_hand(path: Callable[..., Tensor], scores: list[float], weights: list[float]) -> None:
    close(path(torch.tensor([scores])), [weights])


@both_paths
@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_support_larger_than_any_partial_sort(path: Callable[..., Tensor], spread: float, dtype: torch.dtype) -> None:
    scores = spread * torch.rand(2, 5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores[1] -= 1e-6
    expected = entmax.sparsemax(scores, dim=-1)
    weights = path(scores.to(dtype))
    close(weights.double(), expected)
    assert weights.double().sum(-1).tolist() == pytest.approx([1, 1], abs=1e-5)
    if spread <= 1e-5:
        assert int((weights > 0).sum(-1).min()) == 5000


@both_paths
def test_a_support_of_thousands_among_far_candidates(path: Callable[..., Tensor]) -> None:
    scores = torch.full((1, 20_000), -1e4)
    scores[0, ::4] = 3.0
    scores[0, 1] = 3.0001
    close(path(scores).double(), entmax.sparsemax(scores.double(), dim=-1))


@both_paths
def test_more_candidates_than_float32_can_count_one_by_one(path: Callable[..., Tensor]) -> None:
    """From 2**24 on, D + 1 is not a float32: a count compared with it must still be seen to shrink."""
    weights = path(torch.zeros(1, 2**24))
    assert weights.sum(dtype=torch.float64).item() == pytest.approx(1, abs=1e-5)
    assert weights[0, 0].item() == pytest.approx(2.0**-24, rel=1e-3)


@both
@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2])
def test_any_dim(normal: Callable[..., Tensor], dim: int) -> None:
    scores = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exclude = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(2)) < 0.3
    exclude.select(dim, 0).fill_(False)
    before = scores.clone()
    weights = normal(scores, dim, exclude=exclude)
    assert weights.shape == scores.shape
    close(weights.sum(dim), torch.ones_like(weights.sum(dim)), 1e-12)
    flat, hidden = scores.movedim(dim, -1).flatten(0, 1), exclude.movedim(dim, -1).flatten(0, 1)
    rows = torch.stack([normal(row, exclude=out) for row, out in zip(flat, hidden, strict=True)])
    close(weights.movedim(dim, -1).flatten(0, 1), rows, 1e-12)
    assert torch.equal(scores, before), "the scores must not be changed in place"


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(normal: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """In half precision itself, a thousand tiny weights would add up to more error than the last rounding."""
    scores = (0.05 * torch.randn(3, 1000, generator=torch.Generator().manual_seed(3))).to(dtype)
    exclude = torch.zeros(3, 1000, dtype=torch.bool)
    exclude[:, ::7] = True
    weights = normal(scores, exclude=exclude)
    assert weights.dtype == dtype
    assert torch.equal(weights, normal(scores.float(), exclude=exclude).to(dtype))
    assert weights.double().sum(-1).tolist() == pytest.approx([1, 1, 1], abs=4e-3)


@both
def test_half_precision_carries_gradient(normal: Callable[..., Tensor]) -> None:
    scores = torch.tensor([[0.5, 0.25, -4.0]], dtype=torch.bfloat16, requires_grad=True)
    normal(scores)[0, 0].backward()
    assert scores.grad is not None
    assert scores.grad.dtype == torch.bfloat16
    assert scores.grad[0, 0] > 0 > scores.grad[0, 1]


@both
@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_non_finite_scores_are_named(normal: Callable[..., Tensor], bad: float, place: int, dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], dtype=dtype)
    scores[1, place] = bad
    with pytest.raises(
        UserError, match=r"scores must be finite, but 1 of 2 rows hold NaN or infinity; .*learning_rate"
    ):
        normal(scores)


@both
def test_a_row_without_candidates_is_named(normal: Callable[..., Tensor]) -> None:
    exclude = torch.tensor([[True, True], [False, True], [True, True]])
    with pytest.raises(UserError, match=r"at least one candidate .* for 2 of 3 inputs all are excluded; pass more"):
        normal(torch.zeros(3, 2), exclude=exclude)
    with pytest.raises(UserError, match="at least one candidate"):
        normal(torch.full((1, 4), -INF))


@both
def test_no_candidates_at_all_are_named(normal: Callable[..., Tensor]) -> None:
    with pytest.raises(UserError, match="at least one candidate"):
        normal(torch.zeros(3, 0))


@everything
def test_an_excluded_score_may_be_anything(normal: Callable[..., Tensor]) -> None:
    scores = torch.tensor([[NAN, 1.0, 0.5, INF]], requires_grad=True)
    weights = normal(scores, exclude=torch.tensor([[True, False, False, True]]))
    close(weights[:, 1:3].detach(), normal(torch.tensor([[1.0, 0.5]])))
    assert weights[0, [0, 3]].tolist() == [0, 0]
    weights[0, 1].backward()
    assert scores.grad is not None
    assert bool(torch.isfinite(scores.grad).all())


@both
def test_an_empty_batch(normal: Callable[..., Tensor]) -> None:
    assert normal(torch.zeros(0, 3)).shape == (0, 3)


@everything
@pytest.mark.parametrize("seed", range(4))
def test_gradcheck_with_exclusion(normal: Callable[..., Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(4, 7, generator=generator, dtype=torch.float64) * (0.2, 1.0, 1.0, 3.0)[seed]
    exclude = torch.rand(4, 7, generator=generator) < 0.35
    exclude[:, 2] = False
    assert torch.autograd.gradcheck(lambda z: normal(z, exclude=exclude), (scores.requires_grad_(),))


@both
@pytest.mark.parametrize("dim", [0, 1])
def test_gradcheck_along_any_dim(normal: Callable[..., Tensor], dim: int) -> None:
    scores = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64, requires_grad=True)
    exclude = torch.zeros(3, 4, 2, dtype=torch.bool)
    exclude.select(dim, 1).fill_(True)
    assert torch.autograd.gradcheck(lambda z: normal(z, dim, exclude=exclude), (scores,))


def test_gradient_where_a_score_lies_exactly_on_the_threshold() -> None:
    """There the projection has a kink. Both paths take the same side: weight 0, so no gradient."""
    gradients = []
    for path in (sparsemax, by_sort):
        scores = torch.tensor([[0.0, -1.0], [2.0, 1.0]], requires_grad=True)
        path(scores)[:, 1].sum().backward()
        assert scores.grad is not None
        gradients.append(scores.grad.tolist())
    assert gradients[0] == gradients[1] == [[0, 0], [0, 0]]


def test_threshold_of_shifted_scores() -> None:
    shifted = torch.tensor([[0.0, -0.2, -2.0], [0.0, 0.0, 0.0], [-INF, 0.0, -INF]], dtype=torch.float64)
    close(sparsemax_threshold(shifted), [[-0.6], [-1 / 3], [-1.0]], 1e-12)


def test_normalizer_by_name() -> None:
    assert normalizer("softmax") is softmax
    assert normalizer("sparsemax") is sparsemax
    with pytest.raises(
        UserError, match=r"normalize must be one of 'softmax', 'sparsemax', but got 'sparse'.*sparsemax"
    ):
        normalizer("sparse")


def _forbid(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError(f"{name} must not run here")

    monkeypatch.setattr(owner, name, refuse)


def test_eager_takes_the_newton_path(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    threshold = inside.sparsemax_threshold

    def spy(shifted: Tensor, weights: Tensor | None) -> Tensor:
        calls.append(tuple(shifted.shape))
        return threshold(shifted, weights)

    monkeypatch.setattr(inside, "sparsemax_threshold", spy)
    _forbid(monkeypatch, inside, "_sparsemax_by_sort")
    close(sparsemax(torch.zeros(2, 3, requires_grad=True)).detach(), torch.full((2, 3), 1 / 3))
    assert calls == [(2, 3)]


def _capture(graphs: list[str]) -> Callable[..., Any]:
    """A backend that only keeps what it was given to compile."""

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph.code)
        return graph.forward

    return backend


def test_compiling_takes_the_sort_path(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    _forbid(monkeypatch, inside, "sparsemax_threshold")
    graphs: list[str] = []
    compiled = torch.compile(lambda z: sparsemax(z), fullgraph=True, backend=_capture(graphs))
    scores = torch.tensor(WIDE)
    weights = compiled(scores)
    assert len(graphs) == 1
    assert "sort(" in graphs[0]
    close(weights, entmax.sparsemax(scores, dim=-1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("normal", "backend"),
    [(softmax, "aot_eager"), (sparsemax, "eager"), (sparsemax, "aot_eager"), (sparsemax, "inductor")],
)
def test_compiled_as_one_graph_equals_eager(normal: Callable[..., Tensor], backend: str) -> None:
    """Forward and backward, with exclusion, scores far apart and rows of one allowed candidate."""
    if backend == "inductor" and not _has_compiler():
        pytest.skip("inductor needs a C++ compiler on the CPU")
    torch.compiler.reset()
    compiled = torch.compile(lambda z, out: normal(z, exclude=out), fullgraph=True, backend=backend)
    exclude = torch.tensor([[0, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 1, 1, 1]], dtype=torch.bool)
    upstream = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    results = []
    for function in (compiled, lambda z, out: normal(z, exclude=out)):
        scores = torch.tensor(WIDE, requires_grad=True)
        weights = function(scores, exclude)
        (gradient,) = torch.autograd.grad(weights, scores, upstream)
        results.append((weights.detach(), gradient))
    close(results[0][0], results[1][0])
    close(results[0][1], results[1][1])


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in ("g++", "clang++", "gcc", "clang"))


class _Normalizing(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, scores: Tensor, exclude: Tensor) -> Tensor:
        return normalizer(self.name)(scores, exclude=exclude)


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_exported_equals_eager(name: str) -> None:
    """The exported program is for any number of rows and candidates, not only for those of the example."""
    module = _Normalizing(name)
    rows, candidates = torch.export.Dim("rows", min=2), torch.export.Dim("candidates", min=2)
    shapes = {"scores": {0: rows, 1: candidates}, "exclude": {0: rows, 1: candidates}}
    example = (torch.randn(3, 4), torch.zeros(3, 4, dtype=torch.bool))
    program = torch.export.export(module, example, dynamic_shapes=shapes)
    operators = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert any("sort" in operator for operator in operators) == (name == "sparsemax")
    scores = 3 * torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    exclude = torch.rand(6, 50, generator=torch.Generator().manual_seed(1)) < 0.5
    close(program.module()(scores, exclude), module(scores, exclude))
