"""How well a score tells out-of-distribution inputs from in-distribution ones: curves and their metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.arguments import check_mapping
from protoattend.errors import UserError
from protoattend.monitoring.ood import finite

KEPT = 0.95  # share of the in-distribution inputs that pass where fpr95 is taken


@dataclass(frozen=True)
class OodCurve:
    """Telling out-of-distribution (OOD) inputs, the positives, from in-distribution ones by a score higher for OOD.

    Attributes
    ----------
    false_alarms, detected : ndarray of shape (k,)
        The shares of in-distribution and of OOD inputs at or above each threshold.
    auroc : float
        The area under that curve.
    aupr : float
        The average precision at finding OOD inputs.
    fpr95 : float
        The share of OOD inputs that pass where 95 % of the in-distribution ones pass.
    name : str, default=""
        What it is called in a plot.

    Examples
    --------
    >>> curve = OodCurve.from_scores([0.1, 0.2, 0.3], [0.25, 0.9])
    >>> round(curve.auroc, 3), curve.fpr95
    (0.833, 0.5)
    """

    false_alarms: np.ndarray
    detected: np.ndarray
    auroc: float
    aupr: float
    fpr95: float
    name: str = ""

    @classmethod
    def from_scores(cls, in_distribution: Any, out_of_distribution: Any, *, name: str = "") -> OodCurve:
        """Compare scores of in-distribution and OOD inputs; equal ones are told apart by nothing.

        Parameters
        ----------
        in_distribution : array-like of shape (n,)
        out_of_distribution : array-like of shape (m,)
        name : str, default=""
            What the curve is called in a plot.

        Returns
        -------
        OodCurve

        Raises
        ------
        UserError
            Where one of them is empty or holds what is not finite.

        Examples
        --------
        >>> OodCurve.from_scores([0.1, 0.2, 0.3], [0.3, 0.9]).auroc
        0.9166666666666666
        """
        low = finite(in_distribution, "in-distribution scores")
        high = finite(out_of_distribution, "out-of-distribution scores")
        thresholds = np.unique(np.concatenate([low, high]))[::-1]
        false_alarms, detected = (_share_at_least(part, thresholds) for part in (low, high))
        found, alarms = detected * len(high), false_alarms * len(low)
        precision = found / (found + alarms)
        passing = np.sort(low)[int(np.ceil(KEPT * len(low))) - 1]
        x, y = np.append(0.0, false_alarms), np.append(0.0, detected)
        return cls(
            false_alarms=x,
            detected=y,
            auroc=float(np.trapezoid(y, x)),
            aupr=float((np.diff(y) * precision).sum()),
            fpr95=float((high <= passing).mean()),
            name=name,
        )

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
        from protoattend.viz.curves import draw_ood_curve

        return draw_ood_curve(ax, self.false_alarms, self.detected, auroc=self.auroc, name=self.name)


@dataclass(frozen=True)
class ConfidenceRatios:
    """The share of inputs above each confidence, for several sets of inputs (the paper's figure of deviating data).

    Attributes
    ----------
    levels : ndarray of shape (201,)
        Confidences from 0 to 1.
    above : mapping of str to ndarray of shape (201,)
        By name of a set, the share of it whose confidence is at least that.

    Examples
    --------
    >>> ratios = ConfidenceRatios.from_confidences({"test": [0.9, 1.0], "noise": [0.2, 0.9]})
    >>> {name: float(share[160]) for name, share in ratios.above.items()}  # confidence of at least 0.8
    {'test': 1.0, 'noise': 0.5}
    """

    levels: np.ndarray
    above: Mapping[str, np.ndarray]

    @classmethod
    def from_confidences(cls, confidences: Mapping[str, Any]) -> ConfidenceRatios:
        """Compare sets of inputs.

        Parameters
        ----------
        confidences : mapping of str to array-like of shape (n,)
            By the name of the set; the first is mostly the one like the training data.

        Returns
        -------
        ConfidenceRatios

        Raises
        ------
        UserError
            Where there is no set, or one is empty or holds what is not finite.
        """
        if not check_mapping(confidences, "confidences", "{name: confidences}"):
            raise UserError("at least one set of confidences is needed, but there is none; pass {name: confidences}.")
        levels = np.linspace(0, 1, 201)
        return cls(levels, {name: _share_at_least(finite(c, name), levels - 1e-9) for name, c in confidences.items()})

    def plot(self, ax: Any = None) -> Any:
        """Draw one curve a set.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.curves import draw_confidence_ratios

        return draw_confidence_ratios(ax, self.levels, self.above)


def _share_at_least(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return 1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
