"""Deep k-nearest neighbours (Papernot and McDaniel, 2018): do the neighbours in every layer support a label?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from protoattend.baselines.network import Network
from protoattend.data.labels import Classes
from protoattend.errors import UserError


@dataclass(frozen=True)
class DeepKnn:
    """Conformal prediction by the labels of the nearest training rows in each layer.

    Parameters
    ----------
    network : Network
        All its layers are used.
    X : inputs, as the network reads them
        Calibration rows: in-distribution, and unseen in training.
    y : array-like of shape (m,)
        Their labels.
    k : int, default=75
        Neighbours in each layer; all rows where there are fewer.

    Raises
    ------
    UserError
        Where k is below 1, there is no calibration row, or a label is unknown.

    Notes
    -----
    Neighbours are by the cosine of activations, as in its paper, but exact. With Omega_l the labels of the k nearest in
    layer l, the nonconformity of label j is alpha(x, j) = sum_l |{i in Omega_l: i != j}|, and its p-value is the share
    of calibration rows whose alpha(x, y) is at least as large. The prediction is the label with the largest p-value
    (among equal ones that of least nonconformity), *credibility* that p-value, *confidence* 1 minus the second largest.
    Confidence is 1 wherever no calibration row is as nonconform as the second label, which for an accurate network is
    nearly everywhere; it is credibility that its paper abstains by.

    Examples
    --------
    >>> values = np.array([[1.0, 0.1], [0.9, 0.0], [0.0, 0.8], [0.2, 1.0]])
    >>> network = Network(
    ...     lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 0, 1, 1])
    ... )
    >>> deep = DeepKnn(network, [[1.0, 0.0], [0.0, 1.0]], ["a", "b"], k=2)
    >>> deep.predict([[3.0, 0.0]]), deep.credibility([[3.0, 0.0]]), deep.confidence([[3.0, 0.0]])
    (array(['a'], dtype='<U1'), array([1.]), array([1.]))
    """

    network: Network
    X: Any
    y: Any
    k: int = 75

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k must be at least 1, but got k={self.k}; pass k=75.")

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row that its neighbours support most.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.network.classes[self.nonconformity(X).argmin(1)]

    def confidence(self, X: Any) -> np.ndarray:
        """Return 1 minus the second largest p-value of each row: how clearly all other labels are ruled out.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return 1 - np.sort(self.p_values(X), axis=1)[:, -2]

    def credibility(self, X: Any) -> np.ndarray:
        """Return the largest p-value of each row: low where no label is supported as those of calibration rows are.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.p_values(X).max(1)

    def p_values(self, X: Any) -> np.ndarray:
        """Return the p-value of each label.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        below = np.searchsorted(self._calibration, self.nonconformity(X), side="left")
        return 1 - below / len(self._calibration)

    def nonconformity(self, X: Any) -> np.ndarray:
        """Return how many of the neighbours, over all layers, have another label than each one.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of int of shape (n, n_classes)
        """
        numbers = np.arange(len(self.network.classes))
        found: Any = 0
        for neighbours, layer in zip(self._neighbours, self.network.read(X), strict=True):
            nearest = self.network.labels[neighbours.kneighbors(_unit(layer), return_distance=False)]
            found = found + np.stack([(nearest != number).sum(1) for number in numbers], axis=1)
        return found

    @cached_property
    def _neighbours(self) -> list[NearestNeighbors]:
        k = min(self.k, len(self.network.labels))
        return [NearestNeighbors(n_neighbors=k, algorithm="brute").fit(_unit(layer)) for layer in self.network.layers]

    @cached_property
    def _calibration(self) -> np.ndarray:
        """The nonconformity of the calibration rows with their own labels, ascending."""
        labels = Classes(self.network.classes).encode(self.y).numpy()
        found = self.nonconformity(self.X)
        if len(labels) != len(found):
            raise UserError(f"calibration rows need a label each, but there are {len(found)} and {len(labels)} labels.")
        return np.sort(found[np.arange(len(labels)), labels])


def _unit(layer: np.ndarray) -> np.ndarray:
    return layer / np.maximum(np.linalg.norm(layer, axis=1, keepdims=True), 1e-12)
