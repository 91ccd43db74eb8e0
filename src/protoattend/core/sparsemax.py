"""Sparsemax: the Euclidean projection of scores onto the simplex, its threshold and its gradient."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from protoattend.core.checks import masked, require_a_finite_maximum

FEW = 16  # a score in so many at the most contends: then a list of them is quicker to go through than the matrix


def sparsemax(
    scores: Tensor, dim: int = -1, *, exclude: Tensor | None = None, sample_weight: Tensor | None = None
) -> Tensor:
    """Return sparsemax weights, of which few are non-zero: the Euclidean projection of the scores onto the simplex.

    Parameters
    ----------
    scores : Tensor
        Scores z of D candidates along `dim`.
    dim : int, default=-1
        Dimension of the candidates.
    exclude : Tensor of bool, default=None
        True where a candidate gets weight 0, as one with a score of -inf does.
    sample_weight : Tensor of shape (D,), default=None
        How many times s_j >= 0 each candidate counts; None is once each.

    Returns
    -------
    weights : Tensor of the shape and type of `scores`
        p >= 0, of sum 1 along `dim`. Half precision is computed in float32.

    Raises
    ------
    UserError
        If a row of scores has no finite maximum: all candidates are excluded, or one is NaN.

    Notes
    -----
    A choice of n() in eq. 1: p_j = s_j max(z_j - tau, 0), with tau such that sum_j p_j = 1. A candidate whose score is
    1 or more below the largest never gets any weight.

    References
    ----------
    Martins and Astudillo (2016), "From Softmax to Sparsemax", ICML.

    Examples
    --------
    >>> sparsemax(torch.tensor([[1.0, 0.8, -1.0]]))
    tensor([[0.6000, 0.4000, 0.0000]])
    >>> sparsemax(torch.tensor([[1.0, 0.8, -1.0]]), sample_weight=torch.tensor([2.0, 1.0, 1.0]))
    tensor([[0.8000, 0.2000, 0.0000]])
    """
    work = masked(scores, exclude, dim).movedim(dim, -1)
    if sample_weight is not None:
        sample_weight = sample_weight.to(work.dtype)
        work = work.masked_fill(sample_weight == 0, -torch.inf)
    if not torch.compiler.is_compiling():
        projected = _sparsemax(work, sample_weight)
    elif sample_weight is None:  # compile and export need a fixed graph: no data-dependent loop
        projected = _sparsemax_by_sort(work)
    else:
        projected = _weighted_sparsemax_by_sort(work, sample_weight)
    return projected.movedim(-1, dim).to(scores.dtype)


def sparsemax_threshold(shifted: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return tau `(..., 1)` for scores whose largest is 0 along the last dimension.

    `sample_weight` s `(D,)`, above 0, is how many times each score counts. tau solves sum_j s_j max(z_j - tau, 0) = 1.
    The left side is convex and falls with tau, so Newton's method started at -1 / s of the largest score (where it is
    at least 1) climbs to the root without overshooting and stops when the support stops shrinking.
    """
    if sample_weight is None:
        tau = shifted.new_full((*shifted.shape[:-1], 1), -1.0)
    else:
        tau = -1.0 / sample_weight[shifted.argmax(-1, keepdim=True)]
    before = torch.full_like(tau, torch.inf)
    while True:
        inside = shifted > tau
        count = _total(inside, sample_weight, shifted.dtype)
        if bool((count >= before).all()):
            return tau
        # torch.where, not a product: -inf * 0 would be NaN.
        total = _total(torch.where(inside, shifted, 0.0), sample_weight, shifted.dtype)
        tau = torch.maximum(tau, (total - 1.0) / count)
        before = count


def _total(values: Tensor, sample_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the sum of s_j values_j over the last dimension, which is kept; None is once each."""
    if sample_weight is None:
        return values.sum(-1, keepdim=True, dtype=dtype)
    return values.to(dtype) @ sample_weight[:, None]


def ragged_threshold(shifted: Tensor, rows: Tensor, tau: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Return tau of each row for scores given as a list with their `rows`, the largest of each row being 0.

    Newton's method as in `sparsemax_threshold`, from a `tau` at or below the root; `sample_weight` is how many times
    each score counts.
    """
    before = torch.full_like(tau, torch.inf)
    while True:
        inside = (shifted > tau[rows]).to(shifted.dtype)
        if sample_weight is not None:
            inside *= sample_weight
        count = torch.zeros_like(tau).index_add_(0, rows, inside)
        if bool((count >= before).all()):
            return tau
        total = torch.zeros_like(tau).index_add_(0, rows, inside * shifted)
        tau = torch.maximum(tau, (total - 1.0) / count)
        before = count


def _sparsemax(scores: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Return sparsemax over the last dimension, by way of the few scores that contend, where they are few.

    Nothing 1 / s or more below the largest score, which counts s times, gets any weight (see `sparsemax_threshold`).
    """
    largest = scores.detach().amax(-1, keepdim=True)
    require_a_finite_maximum(largest)
    reach = (
        torch.ones_like(largest)
        if sample_weight is None
        else 1.0 / sample_weight[scores.detach().argmax(-1, keepdim=True)]
    )
    near = scores.detach() >= largest - reach  # with the largest itself, also where the difference rounds to it
    if int(near.count_nonzero()) * FEW > near.numel():
        return cast(Tensor, _AmongAll.apply(scores, sample_weight, largest))
    return cast(Tensor, _AmongFew.apply(scores, sample_weight, largest, reach, near))


class _AmongFew(torch.autograd.Function):
    """Sparsemax where few scores contend; its Jacobian is diag(e) - e e^T / |e| for the support e.

    Where candidate j counts s_j times, the gradient is s_j (g_j - sum_S s g / sum_S s) on the support S, and 0 off it.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, sample_weight: Tensor | None, largest: Tensor, reach: Tensor, near: Tensor
    ) -> Tensor:
        width = scores.shape[-1]
        positions = near.flatten().nonzero().squeeze(1)
        rows, columns = positions // width, positions % width
        shifted = scores.flatten()[positions] - largest.flatten()[rows]
        counts = None if sample_weight is None else sample_weight[columns]
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
    def forward(ctx: Any, scores: Tensor, sample_weight: Tensor | None, largest: Tensor) -> Tensor:
        shifted = scores - largest
        projected = (shifted - sparsemax_threshold(shifted, sample_weight)).clamp_(min=0)
        if sample_weight is not None:
            projected *= sample_weight
        ctx.save_for_backward(projected, sample_weight)
        return projected

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        projected, sample_weight = ctx.saved_tensors
        support = projected > 0
        on_support = torch.where(support, grad_outputs[0], 0.0)
        mean = _total(on_support, sample_weight, projected.dtype) / _total(support, sample_weight, projected.dtype)
        gradient = torch.where(support, on_support - mean, 0.0)
        return gradient if sample_weight is None else gradient * sample_weight, None, None


def _sparsemax_by_sort(scores: Tensor) -> Tensor:
    """The same projection in plain differentiable operations of fixed shape (Martins & Astudillo's algorithm 1)."""
    shifted = scores - scores.amax(-1, keepdim=True).detach()
    ordered = shifted.sort(dim=-1, descending=True).values.clamp(min=-2.0)
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    above = ordered.cumsum(-1) - 1.0
    size = (rank * ordered > above).sum(-1, keepdim=True)
    tau = above.gather(-1, size - 1) / size.to(scores.dtype)
    return torch.where(shifted > tau, shifted - tau, 0.0)


def _weighted_sparsemax_by_sort(scores: Tensor, sample_weight: Tensor) -> Tensor:
    """The same where candidate j counts s_j times, and its score is -inf if that is 0.

    Over the k largest scores alone tau would be (sum s z - 1) / sum s; the true one is the largest of these over k.
    """
    shifted = scores - scores.amax(-1, keepdim=True).detach()
    ordered, places = shifted.sort(dim=-1, descending=True)
    heaviness = (
        sample_weight.where(sample_weight > 0, 1.0).expand_as(shifted).gather(-1, places)
    )  # 0 * -inf would be NaN
    tau = (((heaviness * ordered).cumsum(-1) - 1.0) / heaviness.cumsum(-1)).max(-1, keepdim=True).values
    return torch.where(shifted > tau, sample_weight * (shifted - tau), 0.0)
