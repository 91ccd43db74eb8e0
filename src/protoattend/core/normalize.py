"""The normalisation functions n() of eq. 1: scores of candidates become weights p >= 0 that sum to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from protoattend.errors import UserError, choose

FEW = 16  # a score in so many at the most contends: then a list of them is quicker to go through than the matrix


def softmax(scores: Tensor, dim: int = -1, *, exclude: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
    """Return softmax weights along `dim`; candidates where `exclude` is true get weight 0.

    `weights` `(D,)`, at least 0, is how many times each candidate counts: p_j is proportional to w_j exp(z_j).

    >>> softmax(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    >>> softmax(torch.tensor([[0.0, 0.0]]), weights=torch.tensor([3.0, 1.0]))
    tensor([[0.7500, 0.2500]])
    """
    masked = _masked(scores, exclude, dim)
    if weights is not None:
        masked = masked.movedim(dim, -1).add(weights.to(masked.dtype).log()).movedim(-1, dim)
    require_a_finite_maximum(masked.amax(dim))
    return torch.softmax(masked, dim).to(scores.dtype)


def sparsemax(scores: Tensor, dim: int = -1, *, exclude: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
    """Return the Euclidean projection of the scores onto the simplex: p_j = max(z_j - tau, 0), sum p = 1.

    Few weights are non-zero: a candidate whose score is 1 or more below the largest never gets any.
    Candidates where `exclude` is true, or whose score is -inf, get weight 0. Half precision is computed in float32.
    `weights` `(D,)`, at least 0, is how many times each candidate counts: p_j = w_j max(z_j - tau, 0), sum p = 1.

    >>> sparsemax(torch.tensor([[1.0, 0.8, -1.0]]))
    tensor([[0.6000, 0.4000, 0.0000]])
    >>> sparsemax(torch.tensor([[1.0, 0.8, -1.0]]), weights=torch.tensor([2.0, 1.0, 1.0]))
    tensor([[0.8000, 0.2000, 0.0000]])
    """
    masked = _masked(scores, exclude, dim).movedim(dim, -1)
    if weights is not None:
        weights = weights.to(masked.dtype)
        masked = masked.masked_fill(weights == 0, -torch.inf)
    if not torch.compiler.is_compiling():
        projected = _sparsemax(masked, weights)
    elif weights is None:  # compile and export need a fixed graph: no data-dependent loop
        projected = _sparsemax_by_sort(masked)
    else:
        projected = _weighted_sparsemax_by_sort(masked, weights)
    return projected.movedim(-1, dim).to(scores.dtype)


NORMALIZERS: dict[str, Callable[..., Tensor]] = {"softmax": softmax, "sparsemax": sparsemax}


def normalizer(name: str) -> Callable[..., Tensor]:
    """Return the normalisation function called `name`."""
    return NORMALIZERS[choose(name, NORMALIZERS, "normalize")]


def sparsemax_threshold(shifted: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return tau `(..., 1)` for scores whose largest is 0 along the last dimension, of weights `(D,)` above 0.

    tau solves sum_j w_j max(z_j - tau, 0) = 1. The left side is convex and falls with tau, so Newton's method started
    at -1 / w of the largest score (where it is at least 1) climbs to the root without overshooting and stops when the
    support stops shrinking.
    """
    if weights is None:
        tau = shifted.new_full((*shifted.shape[:-1], 1), -1.0)
    else:
        tau = -1.0 / weights[shifted.argmax(-1, keepdim=True)]
    before = torch.full_like(tau, torch.inf)
    while True:
        inside = shifted > tau
        count = _total(inside, weights, shifted.dtype)
        if bool((count >= before).all()):
            return tau
        # torch.where, not a product: -inf * 0 would be NaN.
        total = _total(torch.where(inside, shifted, 0.0), weights, shifted.dtype)
        tau = torch.maximum(tau, (total - 1.0) / count)
        before = count


def _total(values: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the sum of w_j values_j over the last dimension, which is kept; without weights all count once."""
    if weights is None:
        return values.sum(-1, keepdim=True, dtype=dtype)
    return values.to(dtype) @ weights[:, None]


def _masked(scores: Tensor, exclude: Tensor | None, dim: int) -> Tensor:
    if scores.shape[dim] == 0:
        raise UserError(
            f"every input needs at least one candidate to attend to, but the scores are {tuple(scores.shape)}."
        )
    work = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    return work if exclude is None else work.masked_fill(exclude, -torch.inf)


def require_a_finite_maximum(largest: Tensor) -> None:
    """One look at the row maxima finds NaN, +inf and rows without any candidate."""
    if torch.compiler.is_compiling() or bool(torch.isfinite(largest).all()):
        return
    if bool(torch.isneginf(largest).any()):
        raise UserError(
            "every input needs at least one candidate to attend to, but for "
            f"{int(torch.isneginf(largest).sum())} of {largest.numel()} inputs all are excluded; "
            "pass more candidates than are excluded, for example a batch of at least two samples."
        )
    raise UserError(
        f"attention scores must be finite, but {int((~torch.isfinite(largest)).sum())} of {largest.numel()} rows hold "
        "NaN or infinity; look for non-finite inputs, or lower learning_rate if this came up in training."
    )


def ragged_threshold(shifted: Tensor, rows: Tensor, tau: Tensor, weights: Tensor | None) -> Tensor:
    """Return tau of each row for scores given as a list with their `rows`, the largest of each row being 0.

    Newton's method as in `sparsemax_threshold`, from a `tau` at or below the root; `weights` is how many times each
    score counts.
    """
    before = torch.full_like(tau, torch.inf)
    while True:
        inside = (shifted > tau[rows]).to(shifted.dtype)
        if weights is not None:
            inside *= weights
        count = torch.zeros_like(tau).index_add_(0, rows, inside)
        if bool((count >= before).all()):
            return tau
        total = torch.zeros_like(tau).index_add_(0, rows, inside * shifted)
        tau = torch.maximum(tau, (total - 1.0) / count)
        before = count


def _sparsemax(scores: Tensor, weights: Tensor | None) -> Tensor:
    """Return sparsemax over the last dimension, by way of the few scores that contend, where they are few.

    Nothing 1 / w or more below the largest score, of weight w, gets any weight (see `sparsemax_threshold`).
    """
    largest = scores.detach().amax(-1, keepdim=True)
    require_a_finite_maximum(largest)
    reach = torch.ones_like(largest) if weights is None else 1.0 / weights[scores.detach().argmax(-1, keepdim=True)]
    near = scores.detach() >= largest - reach  # with the largest itself, also where the difference rounds to it
    if int(near.count_nonzero()) * FEW > near.numel():
        return cast(Tensor, _AmongAll.apply(scores, weights, largest))
    return cast(Tensor, _AmongFew.apply(scores, weights, largest, reach, near))


class _AmongFew(torch.autograd.Function):
    """Sparsemax where few scores contend; its Jacobian is diag(s) - s s^T / |s| for the support s.

    Where candidate j counts w_j times, the gradient is w_j (g_j - sum_S w g / sum_S w) on the support S, and 0 off it.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, weights: Tensor | None, largest: Tensor, reach: Tensor, near: Tensor
    ) -> Tensor:
        width = scores.shape[-1]
        positions = near.flatten().nonzero().squeeze(1)
        rows, columns = positions // width, positions % width
        shifted = scores.flatten()[positions] - largest.flatten()[rows]
        counts = None if weights is None else weights[columns]
        projected = shifted - ragged_threshold(shifted, rows, -reach.flatten(), counts)[rows]
        if counts is not None:
            projected *= counts
        inside = projected > 0
        ctx.shape = scores.shape
        ctx.save_for_backward(positions[inside], rows[inside], None if counts is None else counts[inside])
        whole = scores.new_zeros(scores.numel())
        whole[positions[inside]] = projected[inside]
        return whole.view(scores.shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None, None]:
        positions, rows, counts = ctx.saved_tensors
        gradient = grad_outputs[0].flatten()[positions]
        once = torch.ones_like(gradient) if counts is None else counts
        total, size = (gradient.new_zeros(ctx.shape[:-1].numel()) for _ in range(2))
        mean = total.index_add(0, rows, once * gradient) / size.index_add(0, rows, once)
        whole = gradient.new_zeros(ctx.shape.numel())
        whole = whole.index_put((positions,), once * (gradient - mean[rows]))
        return whole.view(ctx.shape), None, None, None, None


class _AmongAll(torch.autograd.Function):
    """The same going through the whole matrix, for flat scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, weights: Tensor | None, largest: Tensor) -> Tensor:
        shifted = scores - largest
        projected = (shifted - sparsemax_threshold(shifted, weights)).clamp_(min=0)
        if weights is not None:
            projected *= weights
        ctx.save_for_backward(projected, weights)
        return projected

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        projected, weights = ctx.saved_tensors
        support = projected > 0
        on_support = torch.where(support, grad_outputs[0], 0.0)
        mean = _total(on_support, weights, projected.dtype) / _total(support, weights, projected.dtype)
        gradient = torch.where(support, on_support - mean, 0.0)
        return gradient if weights is None else gradient * weights, None, None


def _sparsemax_by_sort(scores: Tensor) -> Tensor:
    """The same projection in plain differentiable operations of fixed shape (Martins & Astudillo's algorithm 1)."""
    shifted = scores - scores.amax(-1, keepdim=True).detach()
    ordered = shifted.sort(dim=-1, descending=True).values.clamp(min=-2.0)
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    above = ordered.cumsum(-1) - 1.0
    size = (rank * ordered > above).sum(-1, keepdim=True)
    tau = above.gather(-1, size - 1) / size.to(scores.dtype)
    return torch.where(shifted > tau, shifted - tau, 0.0)


def _weighted_sparsemax_by_sort(scores: Tensor, weights: Tensor) -> Tensor:
    """The same where candidate j counts w_j times, and its score is -inf if that is 0.

    Over the k largest scores alone tau would be (sum w z - 1) / sum w; the true one is the largest of these over k.
    """
    shifted = scores - scores.amax(-1, keepdim=True).detach()
    ordered, places = shifted.sort(dim=-1, descending=True)
    heaviness = weights.where(weights > 0, 1.0).expand_as(shifted).gather(-1, places)  # 0 * -inf would be NaN
    tau = (((heaviness * ordered).cumsum(-1) - 1.0) / heaviness.cumsum(-1)).max(-1, keepdim=True).values
    return torch.where(shifted > tau, weights * (shifted - tau), 0.0)
