"""The normalisation functions n() of eq. 1: scores of candidates become weights p >= 0 that sum to one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from protoattend.core.checks import masked, require_a_finite_maximum
from protoattend.core.sparsemax import sparsemax
from protoattend.errors import choose


def softmax(
    scores: Tensor, dim: int = -1, *, exclude: Tensor | None = None, sample_weight: Tensor | None = None
) -> Tensor:
    """Return softmax weights, all of them above zero.

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
        p >= 0, of sum 1 along `dim`.

    Raises
    ------
    UserError
        If a row of scores has no finite maximum: all candidates are excluded, or one is NaN.

    Notes
    -----
    A choice of n() in eq. 1: p_j is proportional to s_j exp(z_j).

    Examples
    --------
    >>> softmax(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    >>> softmax(torch.tensor([[0.0, 0.0]]), sample_weight=torch.tensor([3.0, 1.0]))
    tensor([[0.7500, 0.2500]])
    """
    work = masked(scores, exclude, dim)
    if sample_weight is not None:
        work = work.movedim(dim, -1).add(sample_weight.to(work.dtype).log()).movedim(-1, dim)
    require_a_finite_maximum(work.amax(dim))
    return torch.softmax(work, dim).to(scores.dtype)


NORMALIZERS: dict[str, Callable[..., Tensor]] = {"softmax": softmax, "sparsemax": sparsemax}


def normalizer(name: str) -> Callable[..., Tensor]:
    """Return the normalisation function called `name`."""
    return NORMALIZERS[choose(name, NORMALIZERS, "normalize")]
