"""Making confidence and probabilities true of labelled samples: temperature scaling and isotonic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.arguments import as_numbers, check_number
from protoattend.errors import UserError
from protoattend.uncertainty.checks import (
    checked_class_shares,
    checked_probabilities,
    checked_shares,
    require_numbers,
    require_shares,
)

TEMPERATURES = (0.05, 20.0)  # the range searched: where all predictions are right, the best one would be 0


@dataclass(frozen=True)
class Recalibration:
    """What labelled samples teach about scores: a temperature for probabilities, a monotone map for confidence.

    Attributes
    ----------
    temperature : float
        By which the logarithms of probabilities are divided.
    confidences, accuracies : ndarray of shape (k,)
        The corners of the map, ascending; it is linear between them.

    Examples
    --------
    >>> p, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]), np.array([0, 0, 1])
    >>> learned = Recalibration.fit(p, y, confidence=p.max(1), correct=p.argmax(1) == y)
    >>> learned.confidence([0.7, 0.75, 0.9]).round(2).tolist()
    [0.0, 0.5, 1.0]
    """

    temperature: float
    confidences: np.ndarray
    accuracies: np.ndarray

    @classmethod
    def fit(cls, probabilities: Any, labels: Any, *, confidence: Any, correct: Any) -> Recalibration:
        """Learn both from samples unseen in training: the likeliest temperature, and isotonic regression.

        Parameters
        ----------
        probabilities : array-like of shape (n, n_classes)
            From 0 to 1.
        labels : array-like of int of shape (n,)
            The true classes, as columns of `probabilities`.
        confidence : array-like of shape (n,)
            From 0 to 1.
        correct : array-like of bool of shape (n,)
            Whether each prediction is right.

        Returns
        -------
        Recalibration
        """
        confidences, accuracies = fit_isotonic(confidence, correct)
        return cls(fit_temperature(probabilities, labels), confidences, accuracies)

    def state(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        corners = [self.confidences.tolist(), self.accuracies.tolist()]
        return {"temperature": self.temperature, "isotonic": corners}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Recalibration:
        """Return what `state` was taken of."""
        confidences, accuracies = map(np.array, state["isotonic"])
        return cls(state["temperature"], confidences, accuracies)

    def probabilities(self, probabilities: Any) -> np.ndarray:
        """Return probabilities `(n, C)` at the learned temperature; the order of classes stays."""
        return scale_temperature(probabilities, self.temperature)

    def confidence(self, confidence: Any) -> np.ndarray:
        """Return how often predictions of such confidence were right; the order of samples stays, up to new ties."""
        given = as_numbers(confidence, "confidence")
        require_numbers(given, "confidence")
        require_shares(given, "confidence")
        return np.interp(given, self.confidences, self.accuracies)


def fit_isotonic(confidence: Any, correct: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the monotone map from confidence to accuracy that fits best (isotonic regression).

    Parameters
    ----------
    confidence : array-like of shape (n,)
        From 0 to 1.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.

    Returns
    -------
    confidences, accuracies : ndarray of shape (k,)
        Ascending; the map is linear between them.

    Raises
    ------
    UserError
        Where confidence leaves [0, 1], or the arrays do not fit together.

    Examples
    --------
    >>> fit_isotonic([0.2, 0.4, 0.6, 0.8], [False, True, False, True])[1].tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    from sklearn.isotonic import IsotonicRegression

    confidence, correct = checked_shares(confidence, correct)
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(confidence, correct.astype(float))
    return np.asarray(fitted.X_thresholds_, dtype=float), np.asarray(fitted.y_thresholds_, dtype=float)


def fit_temperature(probabilities: Any, labels: Any) -> float:
    """Return the temperature T at which softmax(log p / T) makes the labels likeliest.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
        From 0 to 1.
    labels : array-like of int of shape (n,)
        The true classes, as columns of `probabilities`.

    Returns
    -------
    float
        From 0.05 to 20: where all predictions are right, the best one would be 0.

    Raises
    ------
    UserError
        Where probabilities leave [0, 1], or labels are no columns of them.

    Examples
    --------
    >>> round(fit_temperature([[0.99, 0.01]] * 10, [0] * 9 + [1]), 2)  # 99 % confident, 90 % right
    2.09
    """
    from scipy.optimize import minimize_scalar

    shares, numbers = checked_probabilities(probabilities, labels)
    logits = _log(shares)
    own = logits[np.arange(len(numbers)), numbers]

    def loss(inverse: float) -> float:
        return float((_log_sum_exp(inverse * logits) - inverse * own).mean())

    bounds = (1 / TEMPERATURES[1], 1 / TEMPERATURES[0])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})  # convex in 1 / T
    return float(1 / found.x)


def scale_temperature(probabilities: Any, temperature: float) -> np.ndarray:
    """Return softmax(log p / T): above 1 less confident, below 1 more; the order of classes stays.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
        From 0 to 1.
    temperature : float
        T, above 0; 1 changes nothing.

    Returns
    -------
    ndarray of shape (n, n_classes)

    Raises
    ------
    UserError
        Where probabilities leave [0, 1], or T is not above 0.

    Examples
    --------
    >>> scale_temperature([[0.8, 0.2]], 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    temperature = check_number(temperature, "temperature")
    if not temperature > 0:
        raise UserError(f"temperature must be above 0, but got {temperature}; 1 changes nothing.")
    logits = _log(checked_class_shares(probabilities)) / temperature
    return np.exp(logits - _log_sum_exp(logits)[:, None])


def _log(shares: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(shares, np.finfo(float).tiny))  # an impossible class stays impossible, and finite


def _log_sum_exp(logits: np.ndarray) -> np.ndarray:
    highest = logits.max(1)
    return highest + np.log(np.exp(logits - highest[:, None]).sum(1))
