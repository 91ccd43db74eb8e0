"""What is decided of many rows, filled in slice by slice, so that a page is there at once and clicks go before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.data_quality.label_errors import label_error_scores
from protoattend.database.encode import encode
from protoattend.database.store import CandidateDatabase
from protoattend.monitoring.ood import neighbour_distance

KEPT = 8  # prototypes kept of each decision, to find the decisions of a prototype
MOST = 20_000  # rows of a table; of more, an even sample is decided
WORK = 1 << 21  # pairs of a row and a candidate in a slice: some 40 ms, which a click may have to wait
ANCHORS, REFERENCE = 4096, 1024  # candidates that distances are taken to, and whose own distances are known


@dataclass(frozen=True)
class Distances:
    """How far from the training rows a row is, as a share of these that are at least as far from one another."""

    anchors: Tensor
    reference: np.ndarray

    @classmethod
    def of(cls, database: CandidateDatabase) -> Distances:
        count = len(database)
        places = spread(count, ANCHORS + REFERENCE)
        held = places[:: max(2, -(-len(places) // REFERENCE))]
        anchors = np.setdiff1d(places, held) if len(places) > 1 else places
        take = database.rows.blocks.take
        values, others = take("values", anchors), take("values", held)
        return cls(values, np.sort(neighbour_distance(others, values)))

    def p_values(self, values: Tensor) -> np.ndarray:
        """Return for each row the share of training rows that are as far out: small is out-of-distribution."""
        far = len(self.reference) - np.searchsorted(self.reference, neighbour_distance(values, self.anchors), "left")
        return (far + 1) / (len(self.reference) + 1)


def spread(count: int, most: int) -> np.ndarray:
    """Return at most so many of `count` positions, evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


@dataclass(frozen=True)
class Rows:
    """Rows to be decided: what they are called, their samples or their places as candidates, and known labels.

    `labels` are class numbers, -1 where none is known; `source` is None for rows that are candidates, whose queries are
    those of the database, and which are decided without themselves.
    """

    ids: np.ndarray
    labels: np.ndarray
    preview: Callable[[int], Any]
    source: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> bool:
        return bool((self.labels >= 0).all())

    def place(self, number: int) -> int | None:
        """Return where a row is, by what it is called; None where there is no such row."""
        place = int(np.searchsorted(self.ids, number))
        return place if place < len(self.ids) and self.ids[place] == number else None


@dataclass
class Table:
    """Decisions of rows; those at `order[:done]` are known, and the others come slice by slice."""

    rows: Rows
    order: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    far: np.ndarray  # p-value of being as far from the training rows
    dispute: np.ndarray  # label-error score, NaN where there is no label
    suggested: np.ndarray
    heaviest: np.ndarray  # (n, KEPT) indices of candidates
    weights: np.ndarray
    queries: Tensor
    done: int = 0
    known: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.known = np.zeros(len(self.rows), dtype=bool)

    @classmethod
    def empty(cls, rows: Rows, d_query: int) -> Table:
        n = len(rows)
        order = np.random.default_rng(0).permutation(spread(n, MOST))  # at any time a fair sample is known
        numbers = np.full(n, -1)
        floats = np.full(n, np.nan)
        return cls(
            rows,
            order,
            numbers.copy(),
            floats.copy(),
            floats.copy(),
            floats.copy(),
            numbers.copy(),
            np.full((n, KEPT), -1),
            np.zeros((n, KEPT), dtype=np.float32),
            torch.zeros(n if rows.source is not None else 0, d_query),
        )

    @property
    def finished(self) -> bool:
        return self.done >= len(self.order)

    def fill(self, database: CandidateDatabase, distances: Distances) -> None:
        """Decide the next slice of rows."""
        size = int(np.clip(WORK // len(database), 8, 512))
        places = np.sort(self.order[self.done : self.done + size])
        self._decide(places, database, distances)
        self.known[places] = True
        self.done += len(places)

    def _decide(self, places: np.ndarray, database: CandidateDatabase, distances: Distances) -> None:
        queries, values, own = self._encoded(places, database)
        found = database.attend(queries, own=own, top=KEPT)
        positions, weights = found.heaviest(KEPT)
        self.predicted[places] = found.predicted.numpy()
        self.confidence[places] = found.confidence.numpy()
        self.far[places] = distances.p_values(values)
        self.heaviest[places] = np.where(weights > 0, database.rows.ids[positions.numpy()], -1)
        self.weights[places] = weights.numpy()
        labels = self.rows.labels[places]
        known = labels >= 0
        if known.any():
            by_value = (values @ database.model.decision.weight.detach().cpu().T).double().softmax(1)
            support = ((found.probabilities + by_value) / 2).numpy()[known]
            scores, suggested = label_error_scores(support, labels[known])
            rows = np.arange(len(support))
            disputed = support[rows, suggested] > support[rows, labels[known]]
            self.dispute[places[known]] = np.where(disputed, scores, 0.0)
            self.suggested[places[known]] = suggested

    def _encoded(self, places: np.ndarray, database: CandidateDatabase) -> tuple[Tensor, Tensor, Tensor | None]:
        if self.rows.source is None:
            take = database.rows.blocks.take
            return take("queries", places), take("values", places), torch.from_numpy(places)
        encoded = encode(database.model, database.inputs.tensor(self.rows.source[places]))
        self.queries[torch.from_numpy(places)] = encoded.queries
        return encoded.queries, encoded.values, None
