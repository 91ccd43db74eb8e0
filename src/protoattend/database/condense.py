"""Condensing a database: keep of every class the candidates that decisions rest on most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import check_count, check_number
from protoattend.errors import UserError

if TYPE_CHECKING:
    from protoattend.database.reading import ReadableDatabase
    from protoattend.database.variants import VariantMethods

ASKED = 65_536  # rows whose attention is added up; of more, as many spread evenly
BLOCK = 1024  # rows explained at a time


def most_attended(received: np.ndarray, labels: np.ndarray, n: int) -> np.ndarray:
    """Return the positions, ascending, of the `n` candidates that a condensed database keeps.

    Every class keeps its share of n, one candidate at least; within a class those stay that received most attention,
    and of equals the first.

    >>> most_attended(np.array([0.1, 0.5, 0.4, 0.0]), np.array([0, 0, 0, 1]), 3)
    array([1, 2, 3])
    """
    present, counts = np.unique(labels, return_counts=True)
    if not len(present) <= check_count(n, "n", low=0) <= len(labels):
        raise UserError(
            f"n must be from {len(present)}, one candidate for each class there is, to {len(labels)}, the size of the "
            f"database, but got {n}."
        )
    kept = []
    for c, share in zip(present, _shares(counts, n), strict=True):
        rows = np.flatnonzero(labels == c)
        kept.append(rows[np.argsort(-received[rows], kind="stable")[:share]])
    return np.sort(np.concatenate(kept))


def positions_within(database: VariantMethods, loss: float) -> np.ndarray:
    """Return the positions kept when their number is halved as long as no more than `loss` of the accuracy goes."""
    if not 0 <= check_number(loss, "loss") < 1:
        raise UserError(f"loss must be at least 0 and below 1, but got {loss}; 0.01 is one percent point.")
    received, labels = attention_received(database), database.rows.labels.numpy()
    kept, least = np.arange(len(labels)), accuracy_on_rows(database, database) - loss
    while len(kept) // 2 >= len(np.unique(labels)):
        fewer = most_attended(received, labels, len(kept) // 2)
        if accuracy_on_rows(database.without(np.delete(database.rows.ids, fewer)), database) < least:
            break
        kept = fewer
    return kept


def attention_received(database: ReadableDatabase) -> np.ndarray:
    """Return sum_i s_i p_ij `(D,)`: the weight each candidate has in the decisions on all rows, each without itself.

    s_i is how many times row i counts. Of more than 65,536 rows, as many are asked, spread evenly.
    """
    rows = database.rows
    received = np.zeros(len(rows))
    if len(rows) == 1:
        return received
    for asked in _asked(len(rows)).split(BLOCK):
        found = database.attend(rows.blocks.take("queries", asked.numpy()), own=asked)
        given = rows.sample_weight[asked][found.rows].double() * found.weights
        received += torch.bincount(found.positions, given, len(rows)).numpy()
    return received


def accuracy_on_rows(database: ReadableDatabase, whole: ReadableDatabase) -> float:
    """Return how often `database`, a part of `whole`, decides for the label of a row of `whole` without that row."""
    rows = whole.rows
    asked = _asked(len(rows))
    places = np.searchsorted(database.rows.ids, rows.ids[asked.numpy()])
    inside = np.minimum(places, len(database) - 1)
    own = torch.from_numpy(np.where(database.rows.ids[inside] == rows.ids[asked.numpy()], inside, -1))  # -1 is no row
    decided = database.decide(rows.blocks.take("queries", asked.numpy()), own=own).predicted
    right, counts = decided == rows.labels[asked], rows.sample_weight[asked].double()
    return float((counts * right).sum() / counts.sum())


def _asked(count: int) -> Tensor:
    return torch.from_numpy(np.unique(np.linspace(0, count - 1, min(count, ASKED)).astype(np.int64)))


def _shares(counts: np.ndarray, n: int) -> np.ndarray:
    """Divide n in proportion to counts, at least 1 and at most its count each: one after the other to the neediest.

    >>> _shares(np.array([90, 9, 1]), 10)
    array([8, 1, 1])
    """
    exact = n * counts / counts.sum()
    shares = np.clip(np.floor(exact).astype(int), 1, counts)
    while shares.sum() != n:
        step = 1 if shares.sum() < n else -1
        movable = shares < counts if step == 1 else shares > 1
        need = np.where(movable, step * (exact - shares), -np.inf)
        shares[need.argmax()] += step
    return shares
