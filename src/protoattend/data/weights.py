"""How much rows count: sample weights, checked, and the shares of frequent classes that are kept."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import as_array
from protoattend.data.labels import Classes
from protoattend.errors import UserError

TYPICAL_MEAN = (0.1, 10.0)  # a mean weight outside is rather one of ratios, or of large counts


def check_weights(weights: Any, n_rows: int) -> np.ndarray:
    """Return one weight for each row `(n,)`, all of them finite and at least 0, some above; None is 1 each.

    >>> check_weights([2, 0, 1], 3)
    array([2., 0., 1.], dtype=float32)
    """
    if weights is None:
        return np.ones(n_rows, dtype=np.float32)
    try:
        with np.errstate(over="ignore"):  # a weight too large for float32 becomes infinite, which is an error below
            checked = as_array(weights, "sample_weight").astype(np.float64).astype(np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"sample_weight must hold numbers, but it does not ({error}); convert them first.") from None
    if checked.shape != (n_rows,):
        raise UserError(
            f"sample_weight must hold one number for each row of X, ({n_rows},), but its shape is {checked.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(checked) | (checked < 0))
    if len(bad):
        raise UserError(
            f"every sample_weight must be finite and at least 0, but row {bad[0]} has {checked[bad[0]]} (and "
            f"{len(bad) - 1} more such); a row of weight 0 is left out."
        )
    if not checked.any():
        raise UserError(
            f"sample_weight must be above zero for some rows, but all {n_rows} weights are zero; leave it out to count "
            "every row once."
        )
    return checked


def warn_of_unusual_weights(weights: np.ndarray) -> None:
    """Warn where sparsemax, for which weights are counts of rows, would decide unlike it does without weights."""
    mean = weights[weights > 0].mean()
    if not TYPICAL_MEAN[0] <= mean <= TYPICAL_MEAN[1]:
        effect = "spreads a decision over very many candidates" if mean < 1 else "gives a decision to one candidate"
        warnings.warn(
            f"sample_weight counts rows (2 is as good as the row twice), but the mean weight is {mean:.2g}: with that, "
            f"normalize='sparsemax' {effect}; divide the weights by their mean, or use normalize='softmax', which "
            "heeds only ratios.",
            UserWarning,
            stacklevel=3,
        )


def class_shares(undersample: Mapping[Any, float] | None, labels: Tensor, classes: Classes) -> Tensor | None:
    """Return the share of its class that is kept, for each row `(n,)`; classes that are not named are kept whole."""
    if undersample is None:
        return None
    if not isinstance(undersample, Mapping):
        raise UserError(f"undersample must be None or {{label: share}}, but got {undersample!r}.")
    shares = torch.ones(len(classes), dtype=torch.float64)
    counts = torch.bincount(labels, minlength=len(classes)).tolist()
    for label, share in undersample.items():
        number = classes.number(label, "undersample")
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share <= 1:
            raise UserError(
                f"undersample must keep a share above 0 and at most 1 of a class, but {label!r} has {share!r}; 0.5 "
                "keeps every other row."
            )
        if round(share * counts[number]) < 1:
            raise UserError(
                f"undersample must keep at least one row of each class, but {share!r} of the {counts[number]} rows of "
                f"{label!r} is none; keep at least {1 / counts[number]:.2g}."
            )
        shares[number] = float(share)
    return shares[labels]


def choose_rows(labels: Tensor, shares: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows, ascending: of each class a random choice of the share that `class_shares` gave, one at least."""
    kept = torch.ones(len(labels), dtype=torch.bool)
    for c in labels[shares < 1].unique():
        rows = (labels == c).nonzero().squeeze(1)
        count = max(1, round(float(shares[rows[0]]) * len(rows)))
        kept[rows[torch.randperm(len(rows), generator=generator)[count:]]] = False
    return kept.nonzero().squeeze(1)
