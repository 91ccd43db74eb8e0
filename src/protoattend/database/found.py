"""Attention among the candidates that an engine has found for each query."""

from __future__ import annotations

import torch
from torch import Tensor

from protoattend.core.attention import ragged_class_mass
from protoattend.database.searchable import Searchable


def softmax_of_found(scores: Tensor, counts: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights among the found and the most that `outside` others, no closer than the last found, could have."""
    shifted = scores - scores.amax(1, keepdim=True)
    masses = counts * shifted.exp()
    total = masses.sum(1)
    others = outside * _last(shifted).exp()
    return masses / total[:, None], others / (total + others)


def sparsemax_of_found(scores: Tensor, counts: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """The same for p_j = w_j max(z_j - tau, 0); others can only raise tau."""
    shifted = scores - scores.amax(1, keepdim=True)
    ordered, order = shifted.clamp(min=-1e30).sort(1, descending=True)  # 0 * -inf would be NaN
    heaviness = counts.gather(1, order)
    tau = (((heaviness * ordered).cumsum(1) - 1) / heaviness.cumsum(1)).amax(1, keepdim=True)
    weights = torch.where(shifted > tau, counts * (shifted - tau), 0.0)
    return weights, (outside * (_last(shifted) - tau.squeeze(1)).clamp(min=0)).clamp(max=1)


def decisive(scores: Tensor, positions: Tensor, candidates: Searchable) -> Tensor:
    """Return the scores of the candidates that may decide; where a query finds none of those, of all found."""
    away = torch.isin(positions, candidates.atypical) & scores.isfinite()
    left = scores.masked_fill(away, -torch.inf)
    return torch.where(left.isfinite().any(1, keepdim=True), left, scores)


def flat_reading_of_found(
    scores: Tensor, counts: Tensor, outside: Tensor, labels: Tensor, n_classes: int
) -> tuple[Tensor, Tensor]:
    """Return the class mass of the flat reading among the found, and the logarithm of the most its total can be.

    The most, for an input must not be called unfamiliar because of candidates that were not looked at.
    """
    shares, missed = softmax_of_found(scores, counts, outside)
    rows = torch.arange(len(shares))[:, None].expand_as(labels).flatten()
    mass = ragged_class_mass(labels.flatten(), shares.flatten(), n_classes, rows, len(shares))
    found = torch.logsumexp(scores + counts.clamp(min=torch.finfo(counts.dtype).tiny).log(), dim=1)
    return mass, found - torch.log1p(-missed)


def _last(shifted: Tensor) -> Tensor:
    return shifted.masked_fill(shifted.isneginf(), torch.inf).amin(1)
