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


def class_mass_of_found(weights: Tensor, positions: Tensor, candidates: Searchable) -> Tensor:
    rows = torch.arange(len(weights))[:, None].expand_as(positions).flatten()
    labels, n_classes = candidates.labels[positions].flatten(), candidates.class_scores.shape[1]
    return ragged_class_mass(labels, weights.flatten(), n_classes, rows, len(weights))


def _last(shifted: Tensor) -> Tensor:
    return shifted.masked_fill(shifted.isneginf(), torch.inf).amin(1)
