"""Influence functions (Koh and Liang, 2017) on the last layer, where the inverse of the Hessian is exact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from protoattend.baselines.last_layer import gradients, heaviest, hessian, residuals, solver
from protoattend.baselines.network import Network
from protoattend.errors import UserError


@dataclass(frozen=True)
class InfluenceFunctions:
    """Training rows by how much the loss of the predicted class would grow without each.

    Parameters
    ----------
    network : Network
    damping : float, default=0.001
        Added to the Hessian's diagonal, which has zeros: adding one vector to all classes changes no decision. Of a
        last layer trained with penalty * |weight|^2 it is twice the penalty.
    top : int, default=10
        Rows that `rank` returns for an input.

    Raises
    ------
    UserError
        Where the damping is not above 0.

    Notes
    -----
    The score is g(x)' (H + damping I)^-1 g(x_j) / N, with g the gradient of the loss by the last layer's weight, at the
    predicted class of x and the label of x_j, and H the mean Hessian. Row j helps where it is positive. To first
    order it is what the loss at x gains when the last layer is trained without row j.

    Examples
    --------
    >>> values = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 1]))
    >>> InfluenceFunctions(network).rank([[2.0, 0.0]])[0]
    array([[0, 1]])
    """

    network: Network
    damping: float = 1e-3
    top: int = 10

    def __post_init__(self) -> None:
        if not self.damping > 0:
            raise UserError(f"damping must be above 0, but got damping={self.damping}; pass damping=0.001.")

    def ranking(self, X: Any) -> np.ndarray:
        """Return the influence of each training row: positive ones help the prediction.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n, N)
        """
        return self._scores(self.network.read(X)[-1])

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows that help most, and how much; what does not help weighs nothing.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        rows : ndarray of int of shape (n, top)
        weights : ndarray of shape (n, top)
        """
        return heaviest(self._scores, self.network.read(X)[-1], self.top)

    @cached_property
    def _columns(self) -> np.ndarray:
        """The inverse Hessian times the gradient of each training row `(C d, N)`."""
        values, weight = self.network.values, self.network.weight
        errors = residuals(values, weight, np.eye(len(weight))[self.network.labels])
        curvature = hessian(values, softmax(values @ weight.T, axis=1))
        curvature[np.diag_indices_from(curvature)] += self.damping
        return solver(curvature)(gradients(values, errors).T) / len(values)

    def _scores(self, values: np.ndarray) -> np.ndarray:
        weight = self.network.weight
        predicted = (values @ weight.T).argmax(1)  # the label of a new input is unknown
        return gradients(values, residuals(values, weight, np.eye(len(weight))[predicted])) @ self._columns
