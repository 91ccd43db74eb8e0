"""TracIn (Pruthi et al., 2020) on the last layer: which training rows' gradients point the way of an input's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.baselines.last_layer import heaviest, residuals
from protoattend.baselines.network import Network
from protoattend.errors import UserError


@dataclass(frozen=True)
class TracIn:
    """Training rows by how much a step on each would lower the loss of the predicted class.

    Parameters
    ----------
    checkpoints : sequence of Network
        The same training rows as the network saw them at several times; the last one, which decides, will do.
    rates : sequence of float, default=None
        The learning rate at each; None counts all alike.
    top : int, default=10
        Rows that `rank` returns for an input.

    Raises
    ------
    UserError
        Where there is no checkpoint, or there is not one rate for each.

    Notes
    -----
    The score is sum_t rate_t g_t(x)'g_t(x_j), with g the gradient of the loss by the last layer's weight, at the class
    that the last network predicts for x and the label of x_j. Row j is a proponent where it is positive.

    Examples
    --------
    >>> values = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (values,), np.array([0, 1]))
    >>> TracIn([network]).rank([[2.0, 1.0]])[0]
    array([[0, 1]])
    """

    checkpoints: Sequence[Network]
    rates: Sequence[float] | None = None
    top: int = 10

    def __post_init__(self) -> None:
        if not self.checkpoints:
            raise UserError("TracIn needs at least one network, but there is none; pass [network].")
        if self.rates is not None and len(self.rates) != len(self.checkpoints):
            raise UserError(
                f"every checkpoint needs a rate, but there are {len(self.checkpoints)} and {len(self.rates)} rates."
            )

    def ranking(self, X: Any) -> np.ndarray:
        """Return the score of each training row: positive ones are proponents of the prediction.

        Parameters
        ----------
        X : inputs, as the networks read them

        Returns
        -------
        ndarray of shape (n, N)
        """
        return self._scores(np.concatenate([network.read(X)[-1] for network in self.checkpoints], axis=1))

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the strongest proponents, and how strong; what is no proponent weighs nothing.

        Parameters
        ----------
        X : inputs, as the networks read them

        Returns
        -------
        rows : ndarray of int of shape (n, top)
        weights : ndarray of shape (n, top)
        """
        side_by_side = np.concatenate([network.read(X)[-1] for network in self.checkpoints], axis=1)
        return heaviest(self._scores, side_by_side, self.top)

    def _scores(self, side_by_side: np.ndarray) -> np.ndarray:
        """Return the scores of inputs whose values by all checkpoints stand side by side `(n, sum of d)`."""
        rates = [1.0] * len(self.checkpoints) if self.rates is None else self.rates
        ends = np.cumsum([network.values.shape[1] for network in self.checkpoints])
        by_checkpoint = np.split(side_by_side, ends[:-1], axis=1)
        predicted = (by_checkpoint[-1] @ self.checkpoints[-1].weight.T).argmax(1)
        total: Any = 0.0
        for network, rate, values in zip(self.checkpoints, rates, by_checkpoint, strict=True):
            labels = np.eye(len(network.classes))
            own = residuals(values, network.weight, labels[predicted])
            theirs = residuals(network.values, network.weight, labels[network.labels])
            total = total + rate * (own @ theirs.T) * (values @ network.values.T)
        return total
