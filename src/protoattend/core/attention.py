"""Relational attention (eq. 1) and what follows from its weights: class mass, confidence (eq. 3), regularisers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from protoattend.core.normalize import normalizer

EPSILON = 1e-8  # inside the logarithm of L_sparse, for p = 0


def attention_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Return K Q^T / sqrt(d_att) as `(B, D)` for queries `(B, d_att)` and keys `(D, d_att)`."""
    # Scaling the queries costs B x d_att products instead of B x D.
    return (queries / math.sqrt(queries.shape[-1])) @ keys.T


def relational_attention(
    queries: Tensor,
    keys: Tensor,
    *,
    normalize: str,
    exclude: Tensor | None = None,
    candidate_weights: Tensor | None = None,
) -> Tensor:
    """Return the weights p `(B, D)` of eq. 1; entries where `exclude` is true are 0.

    `candidate_weights` `(D,)` is how many times each candidate counts; None is once each.
    """
    return normalizer(normalize)(attention_scores(queries, keys), exclude=exclude, weights=candidate_weights)


def class_mass(weights: Tensor, candidate_labels: Tensor, n_classes: int) -> Tensor:
    """Return sum_j p_ij 1[y_j = c] as `(B, n_classes)`: how much of the decision rests on each label."""
    mass = weights.new_zeros(weights.shape[0], n_classes)
    return mass.index_add_(1, candidate_labels, weights)


def confidence(mass: Tensor, prediction: Tensor) -> Tensor:
    """Return C_i `(B,)` of eq. 3: the class mass at the predicted class."""
    return mass.gather(1, prediction[:, None]).squeeze(1).clamp(max=1.0)  # a sum of weights may round above one


def sparsity_loss(weights: Tensor, input_weights: Tensor | None = None) -> Tensor:
    """Return L_sparse = -1/B sum_ij p_ij log(p_ij + eps): the entropy, smallest for a single prototype.

    `input_weights` `(B,)`, of mean one, is how many times each input counts; None is once each.
    """
    return -_mean((weights * torch.log(weights + EPSILON)).sum(-1), input_weights)


def confidence_loss(
    weights: Tensor, candidate_labels: Tensor, y: Tensor, input_weights: Tensor | None = None
) -> Tensor:
    """Return L_conf = -1/B sum_ij p_ij 1[y_j = y_i]: smallest when every prototype has the label of its input."""
    agree = candidate_labels[None, :] == y[:, None]
    return -_mean(torch.where(agree, weights, 0.0).sum(-1), input_weights)


def agreement_loss(mass: Tensor, votes: Tensor, input_weights: Tensor | None = None) -> Tensor:
    """Return 1/B sum_ic (m_ic - t_ic)^2: smallest when the class mass m `(B, C)` is divided as the input is.

    `votes` t `(B, C)` is how much of each label an input is made of, such as a half of two labels for a blend. Unlike
    L_conf it does not reward agreement as such, but as much of it as there should be.
    """
    return _mean((mass - votes).square().sum(-1), input_weights)


def _mean(of_inputs: Tensor, input_weights: Tensor | None) -> Tensor:
    return of_inputs.mean() if input_weights is None else (of_inputs * input_weights).mean()


def prototype_counts(weights: Tensor, share: float) -> Tensor:
    """Return, for each row, the smallest number of prototypes whose weights add up to `share` of the decision.

    >>> prototype_counts(torch.tensor([[0.6, 0.1, 0.3]]), 0.9)
    tensor([2])
    """
    reached = weights.sort(-1, descending=True).values.cumsum(-1)
    # Float weights sum to one only up to rounding: without the slack, share=1 might never be reached.
    short = reached < share - 1e-6
    return (short.sum(-1) + 1).clamp(max=weights.shape[-1])
