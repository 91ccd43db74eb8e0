"""Relational attention (eq. 1) and what follows from its weights: class mass, confidence (eq. 3), regularisers."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.core.normalize import normalizer

EPSILON = 1e-8  # inside the logarithm of L_sparse, for p = 0
SLACK = 1e-6  # float weights sum to one only up to rounding: without it, a share of 1 might never be reached


def attention_scores(queries: Tensor, keys: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
    """Return the scores K Q^T / (sqrt(d_att) temperature) `(B, D)` of queries `(B, d_att)` and keys `(D, d_att)`.

    Examples
    --------
    >>> attention_scores(torch.ones(1, 4), torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 1]]))
    tensor([[2.0000, 0.5000]])
    """
    # Scaling the queries costs B x d_att products instead of B x D.
    return (queries / (math.sqrt(queries.shape[-1]) * temperature)) @ keys.T


def relational_attention(
    queries: Tensor,
    keys: Tensor,
    *,
    normalize: str,
    temperature: float | Tensor = 1.0,
    exclude: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Return the weights p = n(K Q^T / (sqrt(d_att) temperature)) `(B, D)` of eq. 1.

    Queries are `(B, d_att)`, keys `(D, d_att)`; `normalize` is "sparsemax" or "softmax". Entries where `exclude` `(B,
    D)` is true are 0. `sample_weight` `(D,)` is how many times each candidate counts; None is once each.

    Examples
    --------
    >>> keys = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 1]])
    >>> relational_attention(torch.ones(1, 4), keys, normalize="sparsemax")
    tensor([[0.7500, 0.2500, 0.0000]])
    """
    scores = attention_scores(queries, keys, temperature)
    return normalizer(normalize)(scores, exclude=exclude, sample_weight=sample_weight)


def class_mass(weights: Tensor, votes: Tensor) -> Tensor:
    """Return sum_j p_ij t_jc `(B, C)`: how much of the decision rests on each label.

    `weights` p are `(B, D)`. `votes` t `(D, C)` is how much of each label a candidate is made of: of one label,
    `label_votes`.

    Examples
    --------
    >>> class_mass(torch.tensor([[0.7, 0.2, 0.1]]), label_votes(torch.tensor([0, 1, 0]), 2, torch.float32))
    tensor([[0.8000, 0.2000]])
    """
    return (votes.T @ weights.T).T  # for votes by columns, as label_votes lays them out, a third of the time


def label_votes(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """Return 1[y_j = c] `(D, n_classes)` of labels `(D,)`.

    Examples
    --------
    >>> label_votes(torch.tensor([0, 1]), 2, torch.float32)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return (labels == torch.arange(n_classes, device=labels.device)[:, None]).to(dtype).T


def ragged_class_mass(
    labels: Tensor, weights: Tensor, n_classes: int, rows: Tensor | None = None, n_rows: int = 1
) -> Tensor:
    """Return the class mass `(n_rows, n_classes)` for weights `(N,)` in a list, with labels and rows; None is row 0.

    Examples
    --------
    >>> ragged_class_mass(torch.tensor([0, 1, 1]), torch.tensor([0.75, 0.25, 1.0]), 2, torch.tensor([0, 0, 1]), 2)
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]])
    """
    places = labels if rows is None else rows * n_classes + labels
    # In float64: unlike a product, a running sum of millions would lose digits.
    return torch.bincount(places, weights.double(), n_rows * n_classes).view(n_rows, n_classes).to(weights.dtype)


def confidence(mass: Tensor, prediction: Tensor) -> Tensor:
    """Return C_i = sum_j p_ij 1[y_j = y_hat_i] `(B,)` of eq. 3: the class mass `(B, C)` at the prediction `(B,)`.

    Examples
    --------
    >>> confidence(torch.tensor([[0.8, 0.2]]), torch.tensor([0]))
    tensor([0.8000])
    """
    return mass.gather(1, prediction[:, None]).squeeze(1).clamp(max=1.0)  # a sum of weights may round above one


def sparsity_loss(weights: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return L_sparse = -1/B sum_ij p_ij log(p_ij + eps): the entropy, smallest for a single prototype.

    `weights` p are `(B, D)`; `sample_weight` `(B,)`, of mean one, is how many times each input counts; None is once
    each.

    Examples
    --------
    >>> sparsity_loss(torch.tensor([[0.5, 0.5]])) > sparsity_loss(torch.tensor([[1.0, 0.0]]))
    tensor(True)
    """
    return -_mean((weights * torch.log(weights + EPSILON)).sum(-1), sample_weight)


def confidence_loss(
    weights: Tensor, candidate_labels: Tensor, y: Tensor, sample_weight: Tensor | None = None
) -> Tensor:
    """Return L_conf = -1/B sum_ij p_ij 1[y_j = y_i]: smallest when every prototype has the label of its input.

    `weights` p are `(B, D)`, `candidate_labels` `(D,)`, `y` and `sample_weight` `(B,)`.

    Examples
    --------
    >>> confidence_loss(torch.tensor([[0.75, 0.25]]), torch.tensor([1, 0]), torch.tensor([1]))
    tensor(-0.7500)
    """
    agree = candidate_labels[None, :] == y[:, None]
    return -_mean(torch.where(agree, weights, 0.0).sum(-1), sample_weight)


def agreement_loss(mass: Tensor, votes: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return 1/B sum_ic (m_ic - t_ic)^2: smallest when the class mass m `(B, C)` is divided as the input is.

    `votes` t `(B, C)` is how much of each label an input is made of, such as a half of two labels for a blend. Unlike
    L_conf it does not reward agreement as such, but as much of it as there should be.

    Examples
    --------
    >>> agreement_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
    tensor(0.5000)
    """
    return _mean((mass - votes).square().sum(-1), sample_weight)


def _mean(of_inputs: Tensor, sample_weight: Tensor | None) -> Tensor:
    return of_inputs.mean() if sample_weight is None else (of_inputs * sample_weight).mean()


def prototype_counts(weights: Tensor, share: float) -> Tensor:
    """Return, for each row of weights `(B, D)`, the fewest prototypes whose weights add up to `share` of the decision.

    Examples
    --------
    >>> prototype_counts(torch.tensor([[0.6, 0.1, 0.3]]), 0.9)
    tensor([2])
    """
    reached = weights.sort(-1, descending=True).values.cumsum(-1)
    return ((reached < share - SLACK).sum(-1) + 1).clamp(max=weights.shape[-1])


def ragged_prototype_counts(weights: Tensor, rows: Tensor, n_rows: int, share: float) -> Tensor:
    """Return the same `(n_rows,)` for weights `(N,)` in a list, rows ascending and the heaviest of each first.

    Examples
    --------
    >>> ragged_prototype_counts(torch.tensor([0.6, 0.3, 0.1, 1.0]), torch.tensor([0, 0, 0, 1]), 2, 0.9)
    tensor([2, 1])
    """
    sizes = torch.bincount(rows, minlength=n_rows)
    reached = F.pad(weights.double().cumsum(0), (1, 0))
    before = reached[sizes.cumsum(0) - sizes]
    short = reached[1:] - before[rows] < share - SLACK
    return torch.minimum(torch.bincount(rows[short], minlength=n_rows) + 1, sizes)
