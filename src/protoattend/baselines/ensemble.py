"""Deep ensembles (Lakshminarayanan et al., 2017): the same network, trained several times from different seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from protoattend.baselines.plain import PlainClassifier
from protoattend.errors import UserError

MEMBERS = 4  # as in the paper's comparison


class Member(Protocol):
    """A fitted classifier as scikit-learn has it."""

    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class DeepEnsemble:
    """The mean of the probabilities of several networks.

    Parameters
    ----------
    members : sequence of fitted classifiers
        At least one; all of the same classes.

    Raises
    ------
    UserError
        Where there is no member, or their classes differ.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> classifier = PlainClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
    >>> ensemble = DeepEnsemble.around(classifier, X, y, n_members=2)
    >>> ensemble.confidence(X).shape
    (178,)
    """

    members: Sequence[Member]

    def __post_init__(self) -> None:
        if not self.members:
            raise UserError("an ensemble needs at least one member, but there is none; pass fitted classifiers.")
        if any(not np.array_equal(member.classes_, self.members[0].classes_) for member in self.members):
            raise UserError("all members must have the same classes, but theirs differ; fit them on the same labels.")

    @classmethod
    def around(cls, classifier: PlainClassifier, X: Any, y: Any, *, n_members: int = MEMBERS) -> DeepEnsemble:
        """Train further networks like a fitted one, which is the first member.

        Parameters
        ----------
        classifier : PlainClassifier
            Fitted; it stays as it is.
        X : inputs, as in fit
        y : array-like of shape (n,)
        n_members : int, default=4
            Members in all.

        Returns
        -------
        DeepEnsemble
        """
        random = check_random_state(classifier.random_state)
        seeds = random.randint(2**31 - 1, size=max(0, n_members - 1))
        others = [clone(classifier).set_params(random_state=int(seed)).fit(X, y) for seed in seeds]
        return cls((classifier, *others))

    def probabilities(self, X: Any) -> np.ndarray:
        """Return the mean of the members' probabilities.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return np.mean([member.predict_proba(X) for member in self.members], axis=0)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row by the mean probabilities.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.members[0].classes_[self.probabilities(X).argmax(1)]

    def confidence(self, X: Any) -> np.ndarray:
        """Return the largest mean probability of each row.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.probabilities(X).max(1)
