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
from protoattend.viz import style as display
from protoattend.viz.figures import AGREES, DIFFERS, INK, LINE, QUIET

TEMPERATURES = (0.05, 20.0)  # the range searched: where all predictions are right, the best one would be 0


@dataclass(frozen=True)
class Reliability:
    """Predictions in bins of confidence: how many, how sure and how often right; an empty bin has NaN for the latter.

    A bin holds confidences above its lower edge up to its upper one; `edges` are `(k + 1,)`, all else `(k,)`.
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
        ax = display.axes(ax, "plotting a reliability diagram", (6.0, 5.2))
        left, width = self.edges[:-1], np.diff(self.edges)
        full = self.counts > 0
        ax.bar(left, np.nan_to_num(self.accuracy), width, align="edge", color=AGREES, edgecolor="white", alpha=0.6)
        ax.plot([0, 1], [0, 1], color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, label="confidence = accuracy")
        ax.vlines(self.confidence[full], self.accuracy[full], self.confidence[full], color=DIFFERS, linewidth=2)
        ax.plot(
            self.confidence[full], self.confidence[full], "o", color=DIFFERS, markersize=4.5, label="mean confidence"
        )
        display.dress(ax, title="", xlabel="confidence", ylabel="share of predictions that are right")
        display.percents(ax.xaxis)
        display.percents(ax.yaxis)
        ax.grid(axis="x", visible=False)
        ax.set(xlim=(0, 1), ylim=(0, 1.02))
        ax.legend(loc="upper left", frameon=False)
        above = ax.inset_axes((0, 1.04, 1, 0.17), sharex=ax)
        above.bar(left, self.counts, width, align="edge", color=LINE, edgecolor="white")
        for x, wide, count in zip(left, width, self.counts, strict=True):
            if wide >= 0.04:  # a narrower bin of equal-mass ones has no room for its number
                above.text(x + wide / 2, count, f"{count:,}", ha="center", va="bottom", size=8, color=QUIET)
        above.set(ylim=(0, 1.45 * self.counts.max()), yticks=[])
        above.tick_params(bottom=False, labelbottom=False)
        above.spines[["top", "right", "left"]].set_visible(False)
        above.spines["bottom"].set_color(LINE)
        above.set_ylabel("samples", color=QUIET, size=8, rotation=0, ha="right", va="center")
        title = f"Reliability{f' of {self.name}' if self.name else ''}: calibration error {100 * self.ece:.1f} %"
        above.set_title(title, loc="left", color=INK, size=11, weight="bold")
        return ax


def reliability(confidence: Any, correct: Any, *, bins: int = 10, name: str = "") -> Reliability:
    """Return the reliability diagram in `bins` bins of equal width (the paper's).

    >>> reliability([0.95, 0.85, 0.95, 0.85], [True, True, True, False], bins=10).accuracy[-2:].tolist()
    [0.5, 1.0]
    """
    sure, right = checked_shares(confidence, correct)
    _require_bins(bins)
    edges = np.linspace(0, 1, bins + 1)
    return _binned(sure, right, np.searchsorted(edges[1:-1], sure), edges, name)


def adaptive_reliability(confidence: Any, correct: Any, *, bins: int = 10, name: str = "") -> Reliability:
    """Return the reliability diagram in up to `bins` bins of as equal numbers of samples as ties allow."""
    sure, right = checked_shares(confidence, correct)
    _require_bins(bins)
    values, which, counts = np.unique(sure, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2  # rank of a value, shared by all samples that have it
    # Bins that no value has its middle in are left out: 1.0 alone may be worth several.
    _, bin_of_value = np.unique(np.floor(middle / len(sure) * bins).astype(int), return_inverse=True)
    last = np.flatnonzero(np.append(bin_of_value[1:] != bin_of_value[:-1], True))
    between = (values[last[:-1]] + values[last[:-1] + 1]) / 2
    edges = np.concatenate([[0.0], between, [1.0]])
    return _binned(sure, right, bin_of_value[which], edges, name)


def expected_calibration_error(confidence: Any, correct: Any, *, bins: int = 15) -> float:
    """Return the ECE over bins of equal width: 0 where confidence is accuracy."""
    return reliability(confidence, correct, bins=bins).ece


def adaptive_calibration_error(confidence: Any, correct: Any, *, bins: int = 15) -> float:
    """Return the ECE over bins of equal numbers of samples, which does not hide gaps where most samples are."""
    return adaptive_reliability(confidence, correct, bins=bins).ece


def brier_score(confidence: Any, correct: Any) -> float:
    """Return the mean squared difference of confidence and being right: from 0, perfect, to 1."""
    sure, right = checked_shares(confidence, correct)
    return float(((sure - right) ** 2).mean())


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
        sure = np.asarray(confidence, dtype=float)
        require_numbers(sure, "confidence")
        require_shares(sure, "confidence")
        return np.interp(sure, self.confidences, self.accuracies)


def fit_isotonic(confidence: Any, correct: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the monotone map from confidence to accuracy that fits best (isotonic regression)."""
    from sklearn.isotonic import IsotonicRegression

    sure, right = checked_shares(confidence, correct)
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(sure, right.astype(float))
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
    """Return softmax(log p / T) `(n, C)`: above 1 less sure, below 1 surer.

    >>> scale_temperature([[0.8, 0.2]], 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    if not temperature > 0:
        raise UserError(f"temperature must be above 0, but got {temperature}; 1 changes nothing.")
    logits = _log(checked_class_shares(probabilities)) / temperature
    return np.exp(logits - _log_sum_exp(logits)[:, None])


def _binned(sure: np.ndarray, right: np.ndarray, bin_of: np.ndarray, edges: np.ndarray, name: str) -> Reliability:
    n_bins = len(edges) - 1
    counts = np.bincount(bin_of, minlength=n_bins)
    divisor = np.where(counts > 0, counts, np.nan)
    confidence = np.bincount(bin_of, weights=sure, minlength=n_bins) / divisor
    accuracy = np.bincount(bin_of, weights=right, minlength=n_bins) / divisor
    return Reliability(edges, counts, confidence, accuracy, name)


def _require_bins(bins: int) -> None:
    if bins < 1:
        raise UserError(f"bins must be at least 1, but got {bins}; 10 is usual.")


def _log(shares: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(shares, np.finfo(float).tiny))  # an impossible class stays impossible, and finite


def _log_sum_exp(logits: np.ndarray) -> np.ndarray:
    highest = logits.max(1)
    return highest + np.log(np.exp(logits - highest[:, None]).sum(1))
