"""The risk-coverage curve: how often answers are wrong when only the most confident samples are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.uncertainty.checks import checked


@dataclass(frozen=True)
class RiskCoverage:
    """The error among the answers (risk) against the share answered (coverage), at every threshold that exists.

    Attributes
    ----------
    thresholds : ndarray of shape (k,)
        The distinct confidences, descending.
    answered : ndarray of int of shape (k,)
        How many samples have at least that confidence.
    errors : ndarray of int of shape (k,)
        How many of these are wrong.
    name : str, default=""
        What it is called in a plot.

    Examples
    --------
    >>> curve = risk_coverage([0.9, 0.8, 0.4, 0.2], [True, True, True, False])
    >>> curve.risk.tolist(), curve.aurc, curve.e_aurc
    ([0.0, 0.0, 0.0, 0.25], 0.0625, 0.0)
    """

    thresholds: np.ndarray
    answered: np.ndarray
    errors: np.ndarray
    name: str = ""

    @property
    def coverage(self) -> np.ndarray:
        """The share answered at each threshold `(k,)`."""
        return self.answered / self.answered[-1]

    @property
    def risk(self) -> np.ndarray:
        """The share of errors among the answers at each threshold `(k,)`."""
        return self.errors / self.answered

    @property
    def accuracy(self) -> np.ndarray:
        """The share of right ones among the answers at each threshold `(k,)`."""
        return (self.answered - self.errors) / self.answered

    def risk_of_most_confident(self) -> np.ndarray:
        """Return `(n,)`: the risk when the k most confident samples are answered, for k = 1..n, expected over ties."""
        counts = np.arange(1, self.answered[-1] + 1)
        return np.interp(counts, np.append(0, self.answered), np.append(0, self.errors)) / counts

    @property
    def aurc(self) -> float:
        """The area under the curve: the mean risk of the k most confident samples over k = 1..n; lower is better."""
        return float(self.risk_of_most_confident().mean())

    @property
    def e_aurc(self) -> float:
        """The excess of `aurc` over that of a confidence that puts every error last; 0 is a perfect order."""
        counts = np.arange(1, self.answered[-1] + 1)
        right = self.answered[-1] - self.errors[-1]
        return self.aurc - float((np.maximum(counts - right, 0) / counts).mean())

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve; further ones drawn on the same axis are compared with it.

        A dotted beginning is what no threshold reaches: so many samples share the highest confidence.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.curves import draw_risk_coverage

        risk, reachable = self.risk_of_most_confident(), int(self.answered[0])
        return draw_risk_coverage(ax, risk, reachable=reachable, aurc=self.aurc, name=self.name)


def risk_coverage(confidence: Any, correct: Any, *, name: str = "") -> RiskCoverage:
    """Return the risk-coverage curve of predictions with this confidence, of which `correct` are right.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Of any model; higher is answered first.
    correct : array-like of bool of shape (n,)
        Whether each prediction is right.
    name : str, default=""
        What the curve is called in a plot.

    Returns
    -------
    RiskCoverage

    Raises
    ------
    UserError
        Where the two are not of one length, empty, or hold NaN.

    Notes
    -----
    For a threshold t, coverage is P(C >= t) and risk P(wrong | C >= t); `aurc` is the mean risk of the k most confident
    samples over k = 1..n (Geifman & El-Yaniv, 2017).

    Examples
    --------
    >>> curve = risk_coverage([0.9, 0.9, 0.4, 0.2], [True, True, False, True])
    >>> curve.coverage.tolist(), curve.errors.tolist()
    ([0.5, 0.75, 1.0], [0, 1, 1])
    """
    confidence, correct = checked(confidence, correct)
    order = np.argsort(-confidence, kind="stable")
    descending, wrong = confidence[order], np.cumsum(~correct[order])
    last_of_ties = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    return RiskCoverage(descending[last_of_ties], last_of_ties + 1, wrong[last_of_ties], name)
