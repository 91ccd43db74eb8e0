"""Does a confidence of 90 % mean that 90 % are right? Reliability diagrams, calibration errors and recalibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
class Reliability:
    """Predictions in bins of confidence: how many, how confident and how often right.

    An empty bin has NaN for the latter two. A bin holds confidences above its lower edge up to its upper one; `edges`
    are `(k + 1,)`, all else `(k,)`.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    name: str = ""

    @property
    def ece(self) -> float:
        """The expected calibration error: the mean gap of confidence and accuracy, bins weighing as their samples."""
        return float(np.nansum(self.counts * np.abs(self.confidence - self.accuracy)) / self.counts.sum())

    @property
    def largest_gap(self) -> float:
        """The maximum calibration error: the gap of the worst bin."""
        return float(np.nanmax(np.abs(self.confidence - self.accuracy)))

    def plot(self, ax: Any = None) -> Any:
        """Draw accuracy by confidence, with the number of samples of each bin above it; return the axis."""
        from protoattend.viz.curves import draw_reliability

        bins = {"counts": self.counts, "confidence": self.confidence, "accuracy": self.accuracy}
        return draw_reliability(ax, self.edges, **bins, ece=self.ece, name=self.name)


def reliability(confidence: Any, correct: Any, *, bins: int = 10, name: str = "") -> Reliability:
    """Return the reliability diagram in `bins` bins of equal width (the paper's).

    >>> reliability([0.95, 0.85, 0.95, 0.85], [True, True, True, False], bins=10).accuracy[-2:].tolist()
    [0.5, 1.0]
    """
    confidence, correct = checked_shares(confidence, correct)
    _require_bins(bins)
    edges = np.linspace(0, 1, bins + 1)
    return _binned(confidence, correct, np.searchsorted(edges[1:-1], confidence), edges, name)


def adaptive_reliability(confidence: Any, correct: Any, *, bins: int = 10, name: str = "") -> Reliability:
    """Return the reliability diagram in up to `bins` bins of as equal numbers of samples as ties allow."""
    confidence, correct = checked_shares(confidence, correct)
    _require_bins(bins)
    values, which, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2  # rank of a value, shared by all samples that have it
    # Bins that no value has its middle in are left out: 1.0 alone may be worth several.
    _, bin_of_value = np.unique(np.floor(middle / len(confidence) * bins).astype(int), return_inverse=True)
    last = np.flatnonzero(np.append(bin_of_value[1:] != bin_of_value[:-1], True))
    between = (values[last[:-1]] + values[last[:-1] + 1]) / 2
    edges = np.concatenate([[0.0], between, [1.0]])
    return _binned(confidence, correct, bin_of_value[which], edges, name)


def expected_calibration_error(confidence: Any, correct: Any, *, bins: int = 15) -> float:
    """Return the ECE over bins of equal width: 0 where confidence is accuracy."""
    return reliability(confidence, correct, bins=bins).ece


def adaptive_calibration_error(confidence: Any, correct: Any, *, bins: int = 15) -> float:
    """Return the ECE over bins of equal numbers of samples, which does not hide gaps where most samples are."""
    return adaptive_reliability(confidence, correct, bins=bins).ece


def brier_score(confidence: Any, correct: Any) -> float:
    """Return the mean squared difference of confidence and being right: from 0, perfect, to 1."""
    confidence, correct = checked_shares(confidence, correct)
    return float(((confidence - correct) ** 2).mean())


def multiclass_brier_score(probabilities: Any, labels: Any) -> float:
    """Return Brier's score of probabilities `(n, C)` for class numbers `(n,)`: from 0, perfect, to 2."""
    shares, numbers = checked_probabilities(probabilities, labels)
    truth = np.eye(shares.shape[1])[numbers]
    return float(((shares - truth) ** 2).sum(1).mean())


@dataclass(frozen=True)
class Recalibration:
    """What labelled samples teach about scores: a temperature for probabilities, a monotone map for confidence.

    The map is linear between its corners, `confidences` and `accuracies`, both `(k,)` and ascending.
    """

    temperature: float
    confidences: np.ndarray
    accuracies: np.ndarray

    @classmethod
    def fit(cls, probabilities: Any, labels: Any, *, confidence: Any, correct: Any) -> Recalibration:
        """Learn both from samples unseen in training: the likeliest temperature, and isotonic regression."""
        confidences, accuracies = fit_isotonic(confidence, correct)
        return cls(fit_temperature(probabilities, labels), confidences, accuracies)

    def state(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        corners = [self.confidences.tolist(), self.accuracies.tolist()]
        return {"temperature": self.temperature, "isotonic": corners}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Recalibration:
        confidences, accuracies = map(np.array, state["isotonic"])
        return cls(state["temperature"], confidences, accuracies)

    def probabilities(self, probabilities: Any) -> np.ndarray:
        """Return probabilities `(n, C)` at the learned temperature; the order of classes stays."""
        return scale_temperature(probabilities, self.temperature)

    def confidence(self, confidence: Any) -> np.ndarray:
        """Return how often predictions of such confidence were right; the order of samples stays, up to new ties."""
        given = np.asarray(confidence, dtype=float)
        require_numbers(given, "confidence")
        require_shares(given, "confidence")
        return np.interp(given, self.confidences, self.accuracies)


def fit_isotonic(confidence: Any, correct: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the monotone map from confidence to accuracy that fits best (isotonic regression)."""
    from sklearn.isotonic import IsotonicRegression

    confidence, correct = checked_shares(confidence, correct)
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(confidence, correct.astype(float))
    return np.asarray(fitted.X_thresholds_, dtype=float), np.asarray(fitted.y_thresholds_, dtype=float)


def fit_temperature(probabilities: Any, labels: Any) -> float:
    """Return the temperature at which softmax(log p / T) makes the labels `(n,)` likeliest, in 0.05..20."""
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
    """Return softmax(log p / T) `(n, C)`: above 1 less confident, below 1 more.

    >>> scale_temperature([[0.8, 0.2]], 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    if not temperature > 0:
        raise UserError(f"temperature must be above 0, but got {temperature}; 1 changes nothing.")
    logits = _log(checked_class_shares(probabilities)) / temperature
    return np.exp(logits - _log_sum_exp(logits)[:, None])


def _binned(
    confidence: np.ndarray, correct: np.ndarray, bin_of: np.ndarray, edges: np.ndarray, name: str
) -> Reliability:
    n_bins = len(edges) - 1
    counts = np.bincount(bin_of, minlength=n_bins)
    divisor = np.where(counts > 0, counts, np.nan)
    mean_confidence = np.bincount(bin_of, weights=confidence, minlength=n_bins) / divisor
    accuracy = np.bincount(bin_of, weights=correct, minlength=n_bins) / divisor
    return Reliability(edges, counts, mean_confidence, accuracy, name)


def _require_bins(bins: int) -> None:
    if bins < 1:
        raise UserError(f"bins must be at least 1, but got {bins}; 10 is common.")


def _log(shares: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(shares, np.finfo(float).tiny))  # an impossible class stays impossible, and finite


def _log_sum_exp(logits: np.ndarray) -> np.ndarray:
    highest = logits.max(1)
    return highest + np.log(np.exp(logits - highest[:, None]).sum(1))
