"""Prediction sets with a guarantee: split conformal prediction on the prototypes' class mass.

A set holds the classes for which at least as much speaks as for the true class of most calibration samples. It may be
empty: then too little speaks for any class, and the prediction is "none of these".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from protoattend.arguments import as_array
from protoattend.errors import UserError
from protoattend.uncertainty.checks import check_share, checked_by_class, require_class_numbers


@dataclass(frozen=True)
class Conformal:
    """Split conformal prediction: sets of classes that hold the true one at least a given share of the time.

    Attributes
    ----------
    nonconformity : ndarray of shape (n,)
        How little speaks for the true class of each calibration sample, ascending.
    labels : ndarray of int of shape (n,)
        These classes, in the same order; -1 where they are not known.

    Notes
    -----
    The nonconformity of class c is 1 - support_c. A set holds the classes whose nonconformity is at most the
    ceil((n + 1) coverage)-th smallest of the calibration samples, so P(true class in set) >= coverage for samples drawn
    alike (Vovk et al., 2005). It may be empty: too little speaks for any class.

    Examples
    --------
    >>> support = np.tile([[0.8, 0.2], [0.3, 0.7]], (10, 1))
    >>> conformal = Conformal.fit(support, np.tile([0, 1], 10))
    >>> conformal.sets(np.array([[0.9, 0.1], [0.5, 0.5]]), coverage=0.9).tolist()
    [[True, False], [False, False]]
    """

    nonconformity: np.ndarray
    labels: np.ndarray

    @classmethod
    def fit(cls, support: np.ndarray, labels: np.ndarray) -> Conformal:
        """Learn from samples unseen in training.

        Parameters
        ----------
        support : ndarray of shape (n, n_classes)
            What speaks for each class, such as class mass or probabilities.
        labels : ndarray of int of shape (n,)
            The true classes, as columns of `support`.

        Returns
        -------
        Conformal

        Raises
        ------
        UserError
            Where there are no samples, or labels are no columns of support.
        """
        speaking, numbers = checked_by_class(support, "support"), as_array(labels, "labels")
        if len(speaking) == 0 or numbers.shape != speaking.shape[:1]:
            raise UserError(
                f"calibration needs samples with one label each, but there are {len(speaking)} samples and labels of "
                f"shape {numbers.shape}; pass X and y of one length."
            )
        require_class_numbers(numbers, speaking.shape[1], "support")
        nonconformity = 1 - speaking[np.arange(len(numbers)), numbers]
        order = np.argsort(nonconformity, kind="stable")
        return cls(nonconformity[order], numbers[order])

    def state(self) -> dict[str, list[float]]:
        """Return it as JSON can hold it."""
        return {"nonconformity": self.nonconformity.tolist(), "labels": self.labels.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, list[float]] | list[float]) -> Conformal:
        """Read it back; folders saved before there were sets by class hold a list of nonconformities alone."""
        if isinstance(state, list):
            return cls(np.array(state), np.full(len(state), -1))
        return cls(np.array(state["nonconformity"]), np.array(state["labels"]))

    def sets(self, support: np.ndarray, coverage: float) -> np.ndarray:
        """Return which classes are in the set of each sample.

        The probability is over calibration samples and new ones together, drawn alike. Rare classes may be covered less
        than frequent ones; `sets_by_class` covers each.

        Parameters
        ----------
        support : ndarray of shape (m, n_classes)
            As in `fit`, of new samples.
        coverage : float
            How often, at least, the true class is to be in its set; above 0 and below 1.

        Returns
        -------
        ndarray of bool of shape (m, n_classes)

        Raises
        ------
        UserError
            Where there were too few calibration samples for this coverage.
        """
        return 1 - checked_by_class(support, "support") <= _quantile(self.nonconformity, coverage, "")

    def sets_by_class(self, support: np.ndarray, coverage: float) -> np.ndarray:
        """Return sets as `sets` does, for which the guarantee holds among the samples of each class on its own.

        Parameters
        ----------
        support : ndarray of shape (m, n_classes)
            As in `fit`, of new samples.
        coverage : float
            How often, at least, the true class is to be in its set; above 0 and below 1.

        Returns
        -------
        ndarray of bool of shape (m, n_classes)

        Raises
        ------
        UserError
            Where there were too few calibration samples of some class for this coverage.
        """
        speaking = checked_by_class(support, "support")
        limits = [
            _quantile(self.nonconformity[self.labels == c], coverage, f" of class number {c}")
            for c in range(speaking.shape[1])
        ]
        return 1 - speaking <= np.array(limits)


def class_support(class_mass: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return what speaks for each class: prototype mass, and where that is equal (often 0 or 1) the probability."""
    return (class_mass.astype(float) + 1e-3 * probabilities) / (1 + 1e-3)


def _quantile(nonconformity: np.ndarray, coverage: float, which: str) -> float:
    """Return the smallest limit that holds for `coverage` of these and of one more sample alike."""
    coverage = check_share(coverage, "coverage", below_one=True)
    n = len(nonconformity)
    rank = math.ceil(round((n + 1) * coverage, 9))  # rounded: 0.07 * 100 is 7.000000000000001
    if rank > n:
        needed = math.ceil(round(coverage / (1 - coverage), 9))
        raise UserError(
            f"coverage {coverage} needs at least {needed} calibration samples{which}, but there were {n}; use more, or "
            "ask for less coverage."
        )
    return float(nonconformity[rank - 1])
