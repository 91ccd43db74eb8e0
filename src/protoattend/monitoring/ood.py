"""Out-of-distribution scores: how far an input is from everything the decisions are made of. Higher is further."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import as_numbers, as_tensor, check_count
from protoattend.core.model import Encoded
from protoattend.data.inputs import require_rows
from protoattend.database.attention import Attention
from protoattend.database.encode import encode
from protoattend.database.search import QUERIES
from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError, choose
from protoattend.uncertainty.checks import checked_by_class

NEIGHBOURS = 10
REFERENCE_ROWS = 1 << 16  # that distances are taken to at a time


@dataclass(frozen=True)
class Seen:
    """Inputs as a model and its database see them; `own` `(n,)` are the positions that each may not attend to."""

    database: CandidateDatabase
    encoded: Encoded
    own: Tensor | None = None

    @cached_property
    def decisions(self) -> Attention:
        return self.database.decide(self.encoded.queries, own=self.own)

    @property
    def own_logits(self) -> Tensor:
        """The logits at alpha 0: the decision on the input's own value."""
        return self.encoded.values @ self.database.model.decision.weight.detach().cpu().T


def disagreement(confidence: np.ndarray) -> np.ndarray:
    """Return the paper's score 1 - C_i: prototypes of out-of-distribution inputs disagree about the label."""
    return 1 - confidence


def energy(logits: np.ndarray) -> np.ndarray:
    """Return the free energy of logits: out-of-distribution inputs excite no class, so theirs is higher.

    Parameters
    ----------
    logits : array-like of shape (n, n_classes)

    Returns
    -------
    ndarray of shape (n,)

    Notes
    -----
    E = -log sum_c exp(logit_c) (Liu et al., 2020).

    Examples
    --------
    >>> energy([[10.0, 0.0], [0.0, 0.0]]).round(2).tolist()
    [-10.0, -0.69]
    """
    return -np.logaddexp.reduce(checked_by_class(logits, "logits"), axis=1)


def value_disagreement(logits: np.ndarray, own_logits: np.ndarray) -> np.ndarray:
    """Return the Jensen-Shannon divergence `(n,)`, in [0, log 2], of the decisions on prototypes and on own values."""
    ours, theirs = (_log_softmax(np.asarray(part, dtype=float)) for part in (logits, own_logits))
    middle = np.logaddexp(ours, theirs) - np.log(2)
    divergence = (np.exp(ours) * (ours - middle) + np.exp(theirs) * (theirs - middle)).sum(1) / 2
    return np.maximum(divergence, 0.0)  # a sum near zero may round below it


def neighbour_distance(features: Tensor, reference: Tensor, k: int = NEIGHBOURS) -> np.ndarray:
    """Return the distance from features to the k-th nearest of a reference.

    Parameters
    ----------
    features : Tensor of shape (n, d)
    reference : Tensor of shape (D, d)
        Such as the values of a database, `clf.database_.rows.values`.
    k : int, default=10
        Which neighbour; the last one where there are fewer.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    UserError
        Where the reference is empty.

    Notes
    -----
    Distances are Euclidean, in double precision, and taken to some rows of the reference at a time (Sun et al., 2022).

    Examples
    --------
    >>> neighbour_distance(torch.tensor([[0.0], [9.0]]), torch.tensor([[1.0], [2.0], [3.0]]), k=2).tolist()
    [2.0, 7.0]
    """
    features, reference = (
        as_tensor(given, name, ("n", "d")) for given, name in ((features, "features"), (reference, "reference"))
    )
    if features.shape[1] != reference.shape[1]:
        widths = f"{features.shape[1]} and {reference.shape[1]}"
        raise UserError(f"features and reference must be of one width, but have {widths} columns.")
    k = min(check_count(k, "k"), len(reference))
    if k < 1:
        raise UserError("a distance needs at least one reference row, but there is none; pass some.")
    return torch.cat([_nearest(part.double(), reference, k)[:, -1] for part in features.split(QUERIES)]).numpy()


def _nearest(features: Tensor, reference: Tensor, k: int) -> Tensor:
    """Return the k least distances `(n, k)`, ascending; those to millions of rows are never held all at once."""
    least = features.new_empty(len(features), 0)
    for some in reference.split(REFERENCE_ROWS):
        found = torch.cat([least, torch.cdist(features, some.double())], dim=1)
        least = found.topk(min(k, found.shape[1]), dim=1, largest=False).values
    return least


def _disagreement(seen: Seen) -> np.ndarray:
    return disagreement(seen.decisions.confidence.numpy())


def _largest_score(seen: Seen) -> np.ndarray:
    return -seen.decisions.largest_score.numpy()


def _neighbours(seen: Seen, features: Tensor, reference: Tensor) -> np.ndarray:
    # A row of the database is its own nearest neighbour.
    return neighbour_distance(features, reference, NEIGHBOURS if seen.own is None else NEIGHBOURS + 1)


METHODS: Mapping[str, Callable[[Seen], np.ndarray]] = MappingProxyType(
    {
        "disagreement": _disagreement,
        "largest-score": _largest_score,
        "own-value": lambda seen: value_disagreement(seen.decisions.logits.numpy(), seen.own_logits.numpy()),
        "energy": lambda seen: energy(seen.decisions.logits.numpy()),
        "own-energy": lambda seen: energy(seen.own_logits.numpy()),
        "neighbours": lambda seen: _neighbours(seen, seen.encoded.values, seen.database.rows.values),
        "key-neighbours": lambda seen: _neighbours(seen, seen.encoded.keys, seen.database.keys),
    }
)


def see(database: CandidateDatabase, X: Any) -> Seen:
    """Return inputs as the model of a database sees them."""
    return Seen(database, encode(database.model, database.inputs.tensor(database.inputs.source(X))))


def ood_score(database: CandidateDatabase, X: Any, method: str) -> np.ndarray:
    """Return how far from in-distribution each row of X is `(n,)` by one of METHODS."""
    score = METHODS[choose(method, METHODS, "method")]
    require_rows(X)
    return score(see(database, X))


def finite(scores: Any, name: str) -> np.ndarray:
    """Return scores `(n,)` as float64, or say what is wrong with them."""
    found = as_numbers(scores, name)
    if found.ndim != 1 or len(found) == 0:
        raise UserError(f"{name} must be one number for each of at least one input, but have shape {found.shape}.")
    if not np.isfinite(found).all():
        bad = np.flatnonzero(~np.isfinite(found))
        raise UserError(
            f"{name} must be finite, but {len(bad)} are NaN or infinite, the first at {bad[0]}; drop these."
        )
    return found


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
