"""What the methods have in common: some say how confident a prediction is, others which training rows matter to it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class ConfidenceMethod(Protocol):
    """A method that predicts and says how much each prediction is to be trusted.

    Examples
    --------
    >>> from protoattend.baselines import MaxProbability, Network
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (np.eye(2),), np.array([0, 1]))
    >>> isinstance(MaxProbability(network), ConfidenceMethod)
    True
    """

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row `(n,)`."""

    def confidence(self, X: Any) -> np.ndarray:
        """Return how confident each prediction is `(n,)`; only the order counts, higher is more confident."""


@runtime_checkable
class ExampleMethod(Protocol):
    """A method that says which training rows a decision goes back to; `prototype_quality` can measure it.

    Examples
    --------
    >>> from protoattend.baselines import NearestNeighbours, Network
    >>> network = Network(lambda X: (np.asarray(X),), np.eye(2), np.array(["a", "b"]), (np.eye(2),), np.array([0, 1]))
    >>> isinstance(NearestNeighbours(network, k=1), ExampleMethod)
    True
    """

    def ranking(self, X: Any) -> np.ndarray:
        """Return a score of each training row for each input `(n, N)`; the highest matter most."""

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows `(n, k)` that matter most, most important first, and their weights, none below 0."""
