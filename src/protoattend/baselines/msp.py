"""Maximum softmax probability (MSP), the baseline of Hendrycks and Gimpel (2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.baselines.network import Network


@dataclass(frozen=True)
class MaxProbability:
    """The network's own largest probability as confidence.

    Parameters
    ----------
    network : Network

    Examples
    --------
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (np.eye(2),), np.array([0, 1]))
    >>> MaxProbability(network).confidence([[0.0, 0.0], [9.0, 0.0]]).round(3)
    array([0.5, 1. ])
    """

    network: Network

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.network.predict(X)

    def confidence(self, X: Any) -> np.ndarray:
        """Return the largest probability of each row.

        Parameters
        ----------
        X : inputs, as the network reads them

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.network.probabilities(X).max(1)
