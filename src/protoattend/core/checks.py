"""What every normalisation asks of scores: some candidate for every input, and finite numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from protoattend.errors import UserError


def masked(scores: Tensor, exclude: Tensor | None, dim: int) -> Tensor:
    """Return the scores, -inf where `exclude` is true; half precision is widened to float32."""
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
