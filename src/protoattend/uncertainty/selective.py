"""Confidence-controlled prediction: answer only where the confidence is high enough.

Everything here takes the confidence of any model and whether its predictions are right. Samples of equal confidence are
answered together by any threshold; where a number must fall among them, it is the mean over all their orders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.arguments import as_numbers, check_count
from protoattend.errors import UserError
from protoattend.uncertainty.checks import check_share, checked, checked_flags, require_numbers
from protoattend.uncertainty.risk_coverage import RiskCoverage, risk_coverage

__all__ = [
    "AucCoverage",
    "RiskCoverage",
    "accuracy_at_coverage",
    "auc_coverage",
    "coverage_at_accuracy",
    "guaranteed_threshold",
    "risk_coverage",
    "threshold_for_accuracy",
]

# Thresholds that a guarantee may choose from, fixed before any sample is seen: fine where confidence is high. The first
# is just below 1, as the weights of prototypes that all agree may sum to 0.99999994.
GRID = (
    *(0.999999, 0.9999, 0.9998, 0.9995, 0.999, 0.998, 0.995, 0.99, 0.985, 0.98, 0.97, 0.96, 0.95, 0.94, 0.92, 0.9),
    *(0.88, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.0),
)
STRIDE = 5  # of the grid: how many thresholds lie between those that get a share of the error probability


def accuracy_at_coverage(confidence: Any, correct: Any, coverage: float) -> float:
    """Return the accuracy on the most confident `coverage` of the samples.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Higher is answered first; of samples that tie at the limit, it is the mean over all their orders.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    coverage : float
        Share of the samples that is answered, above 0 and at most 1.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where coverage is out of range, or the arrays do not fit together.

    Examples
    --------
    >>> accuracy_at_coverage([0.9, 0.8, 0.1], [True, True, False], 2 / 3)
    1.0
    """
    risk = risk_coverage(confidence, correct).risk_of_most_confident()
    coverage = check_share(coverage, "coverage")
    return float(1 - risk[max(1, round(coverage * len(risk))) - 1])


def coverage_at_accuracy(confidence: Any, correct: Any, accuracy: float) -> float:
    """Return the largest share of samples that a threshold can answer at `accuracy`; 0 where none can.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Higher is answered first.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    accuracy : float
        Wanted among the answers, above 0 and at most 1.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where accuracy is out of range, or the arrays do not fit together.

    Examples
    --------
    >>> coverage_at_accuracy([0.9, 0.8, 0.4, 0.2], [True, True, True, False], 1.0)
    0.75
    """
    curve = risk_coverage(confidence, correct)
    accuracy = check_share(accuracy, "accuracy")
    return float(curve.coverage[curve.accuracy >= accuracy].max(initial=0.0))


def threshold_for_accuracy(confidence: Any, correct: Any, accuracy: float) -> float:
    """Return the lowest confidence such that the answers at or above it are right at least `accuracy` of the time.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Higher is answered first.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    accuracy : float
        Wanted among the answers, above 0 and at most 1.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where no threshold reaches it on these samples; the message says what the best one reaches.

    Notes
    -----
    It holds on these samples. For new ones there is `guaranteed_threshold`.

    Examples
    --------
    >>> threshold_for_accuracy([0.9, 0.8, 0.4, 0.2], [True, True, True, False], 1.0)
    0.4
    """
    curve = risk_coverage(confidence, correct)
    accuracy = check_share(accuracy, "accuracy")
    possible = curve.thresholds[curve.accuracy >= accuracy]
    if len(possible) == 0:
        raise UserError(
            f"no confidence threshold gives accuracy {accuracy} on these samples: the best is "
            f"{curve.accuracy.max():.4f}; ask for less or train a better model."
        )
    return float(possible[-1])


def guaranteed_threshold(
    confidence: Any, correct: Any, *, accuracy: float, guarantee: float = 0.95, grid: Any = GRID
) -> float:
    """Return the lowest threshold of `grid` for which `accuracy` is proven beyond these samples.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Of samples seen neither in training nor when the grid was chosen.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    accuracy : float
        To be proven for answers to new samples, above 0 and below 1.
    guarantee : float, default=0.95
        Probability, over the draw of these samples, that what is returned is right; above 0 and below 1.
    grid : array-like of float, default=GRID
        Thresholds to choose from, fixed before any sample is seen.

    Returns
    -------
    float

    Raises
    ------
    UserError
        Where none is proven; the message says how many samples it takes at least.

    Notes
    -----
    The guarantee: let these be independent samples of some distribution. Then with probability of at least `guarantee`
    over their draw, a new sample of that distribution that is answered (confidence >= threshold) is answered rightly
    with probability of at least `accuracy`.

    Choosing the threshold on the same samples is allowed for: each threshold is an exact binomial test that accuracy is
    too low, and the tests go from the highest threshold down the grid by the fallback procedure (Wiens, 2003), which
    keeps the probability of any wrong proof below 1 - guarantee whatever the dependence. Every fifth threshold gets an
    equal share of that probability, and a proven threshold hands all it had to the next one.

    Examples
    --------
    >>> confidence = np.linspace(0.5, 1.0, 1000)
    >>> guaranteed_threshold(confidence, confidence > 0.6, accuracy=0.9)
    0.6
    """
    from scipy.stats import binom

    confidence, correct = checked(confidence, correct)
    accuracy = check_share(accuracy, "accuracy", below_one=True)
    guarantee = check_share(guarantee, "guarantee", below_one=True)
    thresholds = np.unique(as_numbers(grid, "grid"))[::-1]
    require_numbers(thresholds, "grid")
    if len(thresholds) == 0:
        raise UserError("grid must hold at least one threshold, but it is empty; leave it out for the default.")
    answered = np.array([int((confidence >= threshold).sum()) for threshold in thresholds])
    errors = np.array([int((~correct[confidence >= threshold]).sum()) for threshold in thresholds])
    p_values = binom.cdf(errors, answered, 1 - accuracy)
    starts = np.arange(len(thresholds)) % STRIDE == 0
    share = (1 - guarantee) / starts.sum()
    proven = np.zeros(len(thresholds), dtype=bool)
    level = 0.0
    for i, p_value in enumerate(p_values):
        level = share * starts[i] + (level if i and proven[i - 1] else 0.0)
        proven[i] = p_value <= level
    if not proven.any():
        best = int(p_values.argmin())
        needed = math.ceil(math.log(share) / math.log(accuracy))
        raise UserError(
            f"no threshold is proven to give accuracy {accuracy} with guarantee {guarantee}: nearest comes confidence "
            f">= {thresholds[best]:g}, where {answered[best] - errors[best]} of {answered[best]} are right; ask for "
            f"less, or pass more labelled samples (at least {needed} answered ones, all right, for this accuracy)."
        )
    return float(thresholds[proven][-1])


@dataclass(frozen=True)
class AucCoverage:
    """The area under the ROC curve of the answers against the share answered, as the paper shows for ISIC Melanoma.

    Attributes
    ----------
    thresholds : ndarray of shape (k,)
        Confidences, descending.
    coverage : ndarray of shape (k,)
        The share answered at each.
    auc : ndarray of shape (k,)
        The AUC among the answers; NaN where these are of one class only.
    name : str, default=""
        What it is called in a plot.

    Examples
    --------
    >>> curve = auc_coverage([0.9, 0.8, 0.3, 0.2], [0.9, 0.1, 0.3, 0.6], [True, False, True, False])
    >>> curve.coverage.tolist(), curve.auc.tolist()
    ([0.25, 0.5, 0.75, 1.0], [nan, 1.0, 1.0, 0.75])
    """

    thresholds: np.ndarray
    coverage: np.ndarray
    auc: np.ndarray
    name: str = ""

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve; further ones drawn on the same axis are compared with it.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.curves import draw_auc_coverage

        return draw_auc_coverage(ax, self.coverage, self.auc, name=self.name)


def auc_coverage(confidence: Any, scores: Any, positive: Any, *, name: str = "", points: int = 100) -> AucCoverage:
    """Return the AUC of `scores` for telling `positive` samples from others, among those of enough confidence.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Higher is answered first.
    scores : array-like of shape (n,)
        Higher for positive samples, such as their probability.
    positive : array-like of bool of shape (n,)
        Which samples are of the positive class.
    name : str, default=""
        What the curve is called in a plot.
    points : int, default=100
        At how many of the confidences that occur it is measured at the most, spread evenly over coverage.

    Returns
    -------
    AucCoverage

    Raises
    ------
    UserError
        Where all samples are of one class, or the arrays do not fit together.

    Examples
    --------
    >>> auc_coverage([0.9, 0.8, 0.3], [0.9, 0.1, 0.0], [True, False, True]).auc.tolist()
    [nan, 1.0, 0.5]
    """
    from sklearn.metrics import roc_auc_score

    confidence, flags = checked(confidence, checked_flags(positive, "positive"))
    given = as_numbers(scores, "scores")
    if given.shape != confidence.shape:
        raise UserError(f"scores must be one for each confidence, but have shape {given.shape} for {len(confidence)}.")
    require_numbers(given, "scores")
    if flags.all() or not flags.any():
        raise UserError(f"AUC needs samples of two classes, but positive is {bool(flags[0])} for all; pass others too.")
    curve = risk_coverage(confidence, flags)
    points = check_count(points, "points", high=len(confidence) * 1000)
    targets = np.linspace(1 / points, 1, points)
    chosen = np.unique(np.searchsorted(curve.coverage, targets).clip(max=len(curve.coverage) - 1))
    auc = np.full(len(chosen), np.nan)
    for i, threshold in enumerate(curve.thresholds[chosen]):
        answered = confidence >= threshold
        if flags[answered].any() and not flags[answered].all():
            auc[i] = roc_auc_score(flags[answered], given[answered])
    return AucCoverage(curve.thresholds[chosen], curve.coverage[chosen], auc, name)
