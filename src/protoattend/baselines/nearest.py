"""k-nearest neighbours in the network's values: the plainest explanation by examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from protoattend.baselines.network import Network
from protoattend.errors import UserError

BLOCK = 64  # inputs at a time whose distances to all training rows are held


@dataclass(frozen=True)
class NearestNeighbours:
    """A vote of the k nearest training rows, by Euclidean distance of values.

    Parameters
    ----------
    network : Network
    k : int, default=10
        Neighbours that vote; all rows where there are fewer.

    Raises
    ------
    UserError
        Where k is below 1.

    Examples
    --------
    >>> values = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    >>> network = Network(
    ...     lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 0, 1])
    ... )
    >>> nearest = NearestNeighbours(network, k=2)
    >>> nearest.predict([[0.0, 2.0]]), nearest.rank([[0.0, 2.0]])[0], nearest.confidence([[0.0, 2.0]])
    (array(['a'], dtype='<U1'), array([[1, 0]]), array([1.]))
    """

    network: Network
    k: int = 10

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k must be at least 1, but got k={self.k}; pass k=10.")

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row that most of its neighbours have; of equal counts the first in `classes`.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.network.classes[self.probabilities(X).argmax(1)]

    def confidence(self, X: Any) -> np.ndarray:
        """Return the share of the neighbours that have the predicted label.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.probabilities(X).max(1)

    def ranking(self, X: Any) -> np.ndarray:
        """Return the distances to all training rows, negative: the nearest matter most.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n, N)
        """
        return -cdist(self.network.read(X)[-1], self.network.values)

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest training rows, the nearest first; all weigh the same.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        rows : ndarray of int of shape (n, k)
        weights : ndarray of shape (n, k)
        """
        rows = self._index.kneighbors(self.network.read(X)[-1], return_distance=False)
        return rows, np.full(rows.shape, 1 / rows.shape[1])

    def probabilities(self, X: Any, *, without: np.ndarray | None = None, only: np.ndarray | None = None) -> np.ndarray:
        """Return the share of the neighbours that each label has.

        Parameters
        ----------
        X : inputs, as the network reads them
        without : ndarray of int of shape (n, m), default=None
            Training rows that may not vote on each input; the next ones do. -1 is none.
        only : ndarray of int of shape (n, m), default=None
            Training rows that alone may vote on each input. -1 is none.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        if without is None and only is None:
            return self._shares(self.rank(X)[0])
        values, given = self.network.read(X)[-1], np.asarray(only if without is None else without)
        blocks = [slice(start, start + BLOCK) for start in range(0, len(values), BLOCK)]
        return np.concatenate([self._among(values[block], given[block], keep=without is None) for block in blocks])

    def probabilities_less(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """Return what `probabilities` does without the votes of some neighbours, whose place no others take.

        Parameters
        ----------
        X : inputs, as the network reads them
        rows : ndarray of int of shape (n, m)
            Training rows whose votes on each input are left out; their share goes to all labels alike. -1 is none.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        neighbours = self.rank(X)[0]
        left = (neighbours[:, :, None] != np.asarray(rows)[:, None]).all(2)
        votes = np.eye(len(self.network.classes))[self.network.labels[neighbours]] * left[..., None]
        return votes.mean(1) + (1 - left.mean(1, keepdims=True)) / len(self.network.classes)

    @cached_property
    def _index(self) -> NearestNeighbors:
        return NearestNeighbors(n_neighbors=min(self.k, len(self.network.labels))).fit(self.network.values)

    def _among(self, values: np.ndarray, given: np.ndarray, *, keep: bool) -> np.ndarray:
        """Return the shares where exactly the `given` rows `(b, m)`, or all others, may vote."""
        named = np.zeros((len(values), len(self.network.labels) + 1), dtype=bool)
        np.put_along_axis(named, np.where(given < 0, len(self.network.labels), given), True, axis=1)
        may_vote = named[:, :-1] == keep
        distances = np.where(may_vote, cdist(values, self.network.values), np.inf)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : self.k]
        return self._shares(nearest, np.take_along_axis(may_vote, nearest, axis=1))

    def _shares(self, rows: np.ndarray, counted: np.ndarray | None = None) -> np.ndarray:
        votes = np.eye(len(self.network.classes))[self.network.labels[rows]]
        if counted is None:
            return votes.mean(1)
        return (votes * counted[..., None]).sum(1) / np.maximum(counted.sum(1, keepdims=True), 1)
