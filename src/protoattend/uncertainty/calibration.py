"""Does a confidence of 90 % mean that 90 % are right? Reliability diagrams and calibration errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from protoattend.arguments import check_count
from protoattend.uncertainty.checks import checked_probabilities, checked_shares
from protoattend.uncertainty.recalibration import Recalibration, fit_isotonic, fit_temperature, scale_temperature

if TYPE_CHECKING:  # what draws is imported when something is drawn
    from protoattend.viz.blocks import Chart

__all__ = [
    "Recalibration",
    "Reliability",
    "adaptive_calibration_error",
    "adaptive_reliability",
    "brier_score",
    "expected_calibration_error",
    "fit_isotonic",
    "fit_temperature",
    "multiclass_brier_score",
    "reliability",
    "scale_temperature",
]

MOST_BINS = 1 << 20  # of a diagram; each takes memory


@dataclass(frozen=True)
class Reliability:
    """Predictions in bins of confidence: how many, how confident and how often right.

    Attributes
    ----------
    edges : ndarray of shape (k + 1,)
        A bin holds confidences above its lower edge up to its upper one.
    counts : ndarray of int of shape (k,)
        How many predictions are in each.
    confidence, accuracy : ndarray of shape (k,)
        Their mean confidence, and the share that is right; NaN in an empty bin.
    name : str, default=""
        What it is called in a plot.

    Examples
    --------
    >>> diagram = reliability([0.95, 0.85, 0.95, 0.85], [True, True, True, False])
    >>> round(diagram.ece, 3), round(diagram.largest_gap, 3)
    (0.2, 0.35)
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
        """Draw accuracy by confidence, with the number of samples of each bin above it.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.curves import draw_reliability

        bins = {"counts": self.counts, "confidence": self.confidence, "accuracy": self.accuracy}
        return draw_reliability(ax, self.edges, **bins, ece=self.ece, name=self.name)

    def chart(self) -> Chart:
        """Return the same as reports and notebooks show it."""
        from protoattend.viz.svg_charts import reliability_chart

        bins = {"counts": self.counts, "confidence": self.confidence, "accuracy": self.accuracy}
        return reliability_chart(self.edges, **bins, ece=self.ece)


def reliability(confidence: Any, correct: Any, *, bins: int = 10, name: str = "") -> Reliability:
    """Return the reliability diagram in bins of equal width (the paper's).

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Read as a probability: from 0 to 1.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    bins : int, default=10
        How many.
    name : str, default=""
        What it is called in a plot.

    Returns
    -------
    Reliability

    Raises
    ------
    UserError
        Where confidence leaves [0, 1], the arrays do not fit together, or bins is below 1.

    Examples
    --------
    >>> reliability([0.95, 0.85, 0.95, 0.85], [True, True, True, False], bins=10).accuracy[-2:].tolist()
    [0.5, 1.0]
    """
    confidence, correct = checked_shares(confidence, correct)
    bins = check_count(bins, "bins", high=MOST_BINS)
    edges = np.linspace(0, 1, bins + 1)
    return _binned(confidence, correct, np.searchsorted(edges[1:-1], confidence), edges, name)


def adaptive_reliability(confidence: Any, correct: Any, *, bins: int = 10, name: str = "") -> Reliability:
    """Return the reliability diagram in up to `bins` bins of as equal numbers of samples as ties allow.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Read as a probability: from 0 to 1.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    bins : int, default=10
        How many, at the most.
    name : str, default=""
        What it is called in a plot.

    Returns
    -------
    Reliability

    Raises
    ------
    UserError
        Where confidence leaves [0, 1], the arrays do not fit together, or bins is below 1.

    Examples
    --------
    >>> adaptive_reliability([0.99, 0.98, 0.97, 0.6], [True, True, False, False], bins=2).counts.tolist()
    [2, 2]
    """
    confidence, correct = checked_shares(confidence, correct)
    bins = check_count(bins, "bins", high=MOST_BINS)
    values, which, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2  # rank of a value, shared by all samples that have it
    # Bins that no value has its middle in are left out: 1.0 alone may be worth several.
    _, bin_of_value = np.unique(np.floor(middle / len(confidence) * bins).astype(int), return_inverse=True)
    last = np.flatnonzero(np.append(bin_of_value[1:] != bin_of_value[:-1], True))
    between = (values[last[:-1]] + values[last[:-1] + 1]) / 2
    edges = np.concatenate([[0.0], between, [1.0]])
    return _binned(confidence, correct, bin_of_value[which], edges, name)


def expected_calibration_error(confidence: Any, correct: Any, *, bins: int = 15) -> float:
    """Return the ECE over bins of equal width: 0 where confidence is accuracy.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Read as a probability: from 0 to 1.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    bins : int, default=15
        How many.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where confidence leaves [0, 1], the arrays do not fit together, or bins is below 1.

    Notes
    -----
    ECE = sum_b (n_b / n) |mean confidence of b - accuracy of b|.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False]), 3)
    0.15
    """
    return reliability(confidence, correct, bins=bins).ece


def adaptive_calibration_error(confidence: Any, correct: Any, *, bins: int = 15) -> float:
    """Return the ECE over bins of equal numbers of samples, which does not hide gaps where most samples are.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Read as a probability: from 0 to 1.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    bins : int, default=15
        How many, at the most.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where confidence leaves [0, 1], the arrays do not fit together, or bins is below 1.

    Examples
    --------
    >>> round(adaptive_calibration_error([0.9, 0.9, 0.6, 0.6], [True, True, True, False], bins=2), 3)
    0.1
    """
    return adaptive_reliability(confidence, correct, bins=bins).ece


def brier_score(confidence: Any, correct: Any) -> float:
    """Return the mean squared difference of confidence and being right: from 0, perfect, to 1.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Read as a probability: from 0 to 1.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where confidence leaves [0, 1], or the arrays do not fit together.

    Examples
    --------
    >>> brier_score([1.0, 0.5], [True, False])
    0.125
    """
    confidence, correct = checked_shares(confidence, correct)
    return float(((confidence - correct) ** 2).mean())


def multiclass_brier_score(probabilities: Any, labels: Any) -> float:
    """Return Brier's score of the probabilities of all classes: from 0, perfect, to 2.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
        From 0 to 1.
    labels : array-like of int of shape (n,)
        The true classes, as columns of `probabilities`.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where probabilities leave [0, 1], or labels are no columns of them.

    Examples
    --------
    >>> multiclass_brier_score([[1.0, 0.0], [0.5, 0.5]], [0, 1])
    0.25
    """
    shares, numbers = checked_probabilities(probabilities, labels)
    truth = np.eye(shares.shape[1])[numbers]
    return float(((shares - truth) ** 2).sum(1).mean())


def _binned(
    confidence: np.ndarray, correct: np.ndarray, bin_of: np.ndarray, edges: np.ndarray, name: str
) -> Reliability:
    n_bins = len(edges) - 1
    counts = np.bincount(bin_of, minlength=n_bins)
    divisor = np.where(counts > 0, counts, np.nan)
    mean_confidence = np.bincount(bin_of, weights=confidence, minlength=n_bins) / divisor
    accuracy = np.bincount(bin_of, weights=correct, minlength=n_bins) / divisor
    return Reliability(edges, counts, mean_confidence, accuracy, name)
