"""Representer point selection (Yeh et al., 2018): the logits as a sum over training rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from protoattend.baselines.last_layer import heaviest, optimal_weight, residuals
from protoattend.baselines.network import Network
from protoattend.errors import UserError


@dataclass(frozen=True)
class RepresenterPoints:
    """Training rows by how much each adds to the logit of the predicted class.

    Parameters
    ----------
    network : Network
    penalty : float, default=0.003
        Of the last layer's squared weights, as in its paper.
    top : int, default=10
        Rows that `rank` returns for an input.

    Raises
    ------
    UserError
        Where the penalty is not above 0.

    Notes
    -----
    The last layer is fitted again, to the network's own probabilities and with a penalty, to its exact optimum. There
    the logits are sum_j alpha_j v_j'v with alpha_j = (target_j - p_j) / (2 penalty N): row j excites a class where its
    term is positive and inhibits it where negative. The decision that is explained is that of the fitted layer.

    Examples
    --------
    >>> values = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 1]))
    >>> RepresenterPoints(network).rank([[2.0, 0.0]])[0]
    array([[0, 1]])
    """

    network: Network
    penalty: float = 0.003
    top: int = 10

    def __post_init__(self) -> None:
        if not self.penalty > 0:
            raise UserError(f"penalty must be above 0, but got penalty={self.penalty}; pass penalty=0.003.")

    @cached_property
    def weight(self) -> np.ndarray:
        """The fitted last layer `(n_classes, d)`."""
        return optimal_weight(self.network.values, self._targets, penalty=self.penalty)

    @cached_property
    def alpha(self) -> np.ndarray:
        """What each training row adds to each class, by how alike it is to an input: `(N, n_classes)`."""
        errors = residuals(self.network.values, self.weight, self._targets)
        return -errors / (2 * self.penalty * len(errors))

    def ranking(self, X: Any) -> np.ndarray:
        """Return what each training row adds to the logit of the predicted class.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n, N)
        """
        return self._scores(self.network.read(X)[-1])

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows that add most, and how much; what is below 0 weighs nothing.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        rows : ndarray of int of shape (n, top)
        weights : ndarray of shape (n, top)
        """
        return heaviest(self._scores, self.network.read(X)[-1], self.top)

    def probabilities(self, X: Any, *, without: np.ndarray | None = None, only: np.ndarray | None = None) -> np.ndarray:
        """Return the probabilities of the fitted layer, also with terms of the sum left out.

        Parameters
        ----------
        X : inputs, as the network reads them
        without : ndarray of int of shape (n, m), default=None
            Training rows whose terms are left out for each input; -1 is none.
        only : ndarray of int of shape (n, m), default=None
            Training rows whose terms alone are summed for each input; -1 is none.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        values = self.network.read(X)[-1]
        logits = values @ self.weight.T
        if without is not None:
            logits = logits - self._terms(values, without)
        elif only is not None:
            logits = self._terms(values, only)
        return softmax(logits, axis=1)

    def probabilities_less(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """Return the probabilities without the terms of `rows`: here the same as `probabilities(X, without=rows)`.

        Parameters
        ----------
        X : inputs, as the network reads them
        rows : ndarray of int of shape (n, m)

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return self.probabilities(X, without=rows)

    @cached_property
    def _targets(self) -> np.ndarray:
        return softmax(self.network.values @ self.network.weight.T, axis=1)

    def _scores(self, values: np.ndarray) -> np.ndarray:
        predicted = (values @ self.weight.T).argmax(1)
        return self.alpha[:, predicted].T * (values @ self.network.values.T)

    def _terms(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the sum of the named rows' terms of the logits `(n, n_classes)`."""
        alike = np.einsum("nd,nmd->nm", values, self.network.values[rows]) * (np.asarray(rows) >= 0)
        return np.einsum("nm,nmc->nc", alike, self.alpha[rows])
