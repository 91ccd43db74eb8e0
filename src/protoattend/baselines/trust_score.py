"""The trust score (Jiang et al., 2018): how near the predicted class is, beside the nearest other one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from protoattend.baselines.network import Network
from protoattend.errors import UserError

TINY = 1e-12  # an input that is a training row is at distance 0


@dataclass(frozen=True)
class TrustScore:
    """Agreement of the network with the classes' dense regions, in the space of its values.

    Parameters
    ----------
    network : Network
    k : int, default=10
        Density of a training row is by the radius that holds k rows of its class, itself included.
    alpha : float, default=0.0
        Share of each class, its least dense rows, that is left out.

    Raises
    ------
    UserError
        Where k or alpha is out of range.

    Notes
    -----
    The score is d(x, nearest class that is not predicted) / d(x, predicted class), where d is the distance to the
    nearest row that is left. A class without any row is infinitely far.

    Examples
    --------
    >>> values = np.array([[0.0, 0.0], [0.0, 4.0]])
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 1]))
    >>> TrustScore(network).confidence([[0.0, 3.0]])
    array([3.])
    """

    network: Network
    k: int = 10
    alpha: float = 0.0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k must be at least 1, but got k={self.k}; pass k=10.")
        if not 0 <= self.alpha < 1:
            raise UserError(f"alpha must be at least 0 and below 1, but got alpha={self.alpha}; pass alpha=0.1.")

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row: the network's.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.network.predict(X)

    def confidence(self, X: Any) -> np.ndarray:
        """Return the trust score of each prediction: 0 or more, above 1 where the nearest class is the predicted one.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        values = self.network.read(X)[-1]
        predicted = (values @ self.network.weight.T).argmax(1)
        distances = np.full((len(values), len(self.network.classes)), np.inf)
        for number, dense in self._dense_rows.items():
            distances[:, number] = NearestNeighbors(n_neighbors=1).fit(dense).kneighbors(values)[0][:, 0]
        own = distances[np.arange(len(values)), predicted]
        distances[np.arange(len(values)), predicted] = np.inf
        return distances.min(1) / (own + TINY)

    @cached_property
    def _dense_rows(self) -> dict[int, np.ndarray]:
        """The values of each class that are left, by class number; a class without rows is not there."""
        return {
            int(number): dense_rows(self.network.values[self.network.labels == number], k=self.k, alpha=self.alpha)
            for number in np.unique(self.network.labels)
        }


def dense_rows(values: np.ndarray, *, k: int, alpha: float) -> np.ndarray:
    """Return the rows whose k-th neighbour, themselves the first, is within the (1 - alpha) quantile of such radii.

    >>> dense_rows(np.array([[0.0], [1.0], [2.0], [9.0]]), k=2, alpha=0.25).ravel()
    array([0., 1., 2.])
    """
    neighbours = NearestNeighbors(n_neighbors=min(k, len(values))).fit(values)
    radii = neighbours.kneighbors(values)[0][:, -1]
    return values[radii <= np.quantile(radii, 1 - alpha)]
