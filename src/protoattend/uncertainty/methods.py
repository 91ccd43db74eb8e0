"""The methods of a classifier that say when to answer: selective, calibrated and conformal prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from protoattend.arguments import check_flag, check_number
from protoattend.errors import UserError
from protoattend.uncertainty.assessment import Assessment
from protoattend.uncertainty.calibration import Recalibration
from protoattend.uncertainty.conformal import Conformal, class_support
from protoattend.uncertainty.selective import guaranteed_threshold, threshold_for_accuracy

if TYPE_CHECKING:  # this room works without torch
    from protoattend.database.attention import Attention
    from protoattend.database.store import CandidateDatabase


class UncertaintyMethods:
    """When to answer and with which labels; named first is what is needed of the classifier."""

    classes_: np.ndarray
    database_: CandidateDatabase
    conformal_: Conformal | None
    recalibration_: Recalibration | None
    _decide: Callable[[Any], Attention]

    def class_mass(self, X: Any) -> np.ndarray:
        """Return how much prototype weight lies on each label.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        mass : ndarray of shape (n, n_classes)
            sum_j p_ij 1[y_j = c]; each row sums to one. Columns are in the order of `classes_`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> clf.class_mass(X[:2]).sum(axis=1).round(6)
        array([1., 1.])
        """
        return self._decide(X).support.numpy()

    def confidence(self, X: Any) -> np.ndarray:
        """Return the confidence of each decision: the share of prototype weight whose label is the prediction.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        confidence : ndarray of shape (n,)
            C_i of eq. 3, sum_j p_ij 1[y_j = y_hat_i], from 0 to 1: the class mass of the prediction, and less where an
            input is further from all candidates than nearly all rows of the database are.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> confidence = clf.confidence(X)
        >>> confidence.shape, bool(confidence.max() <= 1)
        ((178,), True)
        """
        return self._decide(X).confidence.numpy()

    def predict_or_abstain(self, X: Any, min_confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the label of each row, and whether it is an answer: confident enough.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.
        min_confidence : float
            The least confidence of an answer, such as `threshold_for` returns.

        Returns
        -------
        labels : ndarray of shape (n,)
            Those of `predict`, also where it abstains.
        answered : ndarray of bool of shape (n,)
            Whether the confidence is at least `min_confidence`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> labels, answered = clf.predict_or_abstain(X, min_confidence=0.9)
        >>> bool((y[answered] == labels[answered]).mean() >= (y == labels).mean())
        True
        """
        least = check_number(min_confidence, "min_confidence")
        if least != least:
            raise UserError("min_confidence must be a number from 0 to 1, but got NaN; choose it by threshold_for.")
        decisions = self._decide(X)
        return self.classes_[decisions.predicted.numpy()], decisions.confidence.numpy() >= least

    def assess(self, X: Any, y: Any, name: str = "") -> Assessment:
        """Return curves and metrics of the decisions on labelled rows, unseen in training.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, unseen in training.
        y : array-like of shape (n,)
            Their labels.
        name : str, default=""
            What curves are called in a legend.

        Returns
        -------
        assessment : Assessment
            `metrics()` are the single numbers; `risk_coverage()`, `auc_coverage()` and `reliability()` the curves;
            `plot()` draws them.

        Raises
        ------
        UserError
            If X and y differ in length, or a label was not seen in `fit`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> metrics = clf.assess(X[1::2], y[1::2]).metrics()
        >>> metrics["accuracy"] == clf.score(X[1::2], y[1::2])
        True
        """
        decisions = self._decide(X)
        labels = self.database_.classes.encode(y).numpy()
        if len(labels) != len(decisions.logits):
            raise UserError(f"X and y must be of one length, but X has {len(decisions.logits)} rows, y {len(labels)}.")
        return Assessment(
            confidence=decisions.confidence.numpy(),
            predicted=decisions.predicted.numpy(),
            labels=labels,
            probabilities=decisions.probabilities.numpy(),
            class_mass=decisions.support.numpy(),
            classes=self.classes_,
            name=name,
        )

    def threshold_for(self, X: Any, y: Any, accuracy: float = 0.99, *, guarantee: float | None = None) -> float:
        """Return the lowest confidence that gives an accuracy on labelled rows, unseen in training.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, unseen in training.
        y : array-like of shape (n,)
            Their labels.
        accuracy : float, default=0.99
            Wanted on the rows that are answered.
        guarantee : float, default=None
            Probability, such as 0.95, with which the accuracy holds for new rows drawn alike too; None is for these
            rows alone.

        Returns
        -------
        min_confidence : float
            For `predict_or_abstain`.

        Raises
        ------
        UserError
            If no threshold gives, or is proven to give, this accuracy.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> threshold = clf.threshold_for(X[1::2], y[1::2], accuracy=0.8)
        >>> labels, answered = clf.predict_or_abstain(X[1::2], threshold)
        >>> bool((labels == y[1::2])[answered].mean() >= 0.8)
        True
        """
        seen = self.assess(X, y)
        if guarantee is None:
            return threshold_for_accuracy(seen.confidence, seen.correct, accuracy)
        return guaranteed_threshold(seen.confidence, seen.correct, accuracy=accuracy, guarantee=guarantee)

    def calibrate(self, X: Any, y: Any) -> Self:
        """Learn from labelled rows what prediction sets and calibrated probabilities need.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, unseen in training.
        y : array-like of shape (n,)
            Their labels.

        Returns
        -------
        self : ProtoAttendClassifier
            The classifier, calibrated.

        Notes
        -----
        An edit of the database changes the decisions that this was learned from: calibrate again after it.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> clf.calibrate(X[1::2], y[1::2]).calibrated_confidence(X[:2]).shape
        (2,)
        """
        seen = self.assess(X, y)
        support = class_support(seen.class_mass, seen.probabilities)
        recalibration = Recalibration.fit(
            seen.probabilities, seen.labels, confidence=seen.confidence, correct=seen.correct
        )
        self.conformal_, self.recalibration_ = Conformal.fit(support, seen.labels), recalibration
        return self

    def prediction_set(self, X: Any, coverage: float = 0.95, *, by_class: bool = False) -> list[list[Any]]:
        """Return for each row the labels that together hold the true one often enough (split conformal prediction).

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.
        coverage : float, default=0.95
            The least probability that the set of a row drawn like those of `calibrate` holds its label.
        by_class : bool, default=False
            Whether this holds for the rows of each class, however rare, and not only for all of them together.

        Returns
        -------
        sets : list of list of labels, of length n
            An empty list is "none of these": too little speaks for any class.

        Raises
        ------
        UserError
            Before `calibrate`, or where it had too few rows for this coverage.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> sets = clf.calibrate(X[1::2], y[1::2]).prediction_set(X[1::2], coverage=0.9)
        >>> sum(label in labels for label, labels in zip(y[1::2], sets)) >= 0.9 * len(sets)
        True
        """
        decisions = self._decide(X)
        if self.conformal_ is None:
            raise _needs_calibration("prediction_set")
        sets = self.conformal_.sets_by_class if check_flag(by_class, "by_class") else self.conformal_.sets
        inside = sets(class_support(decisions.support.numpy(), decisions.probabilities.numpy()), coverage)
        return [self.classes_[row].tolist() for row in inside]

    def calibrated_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities after temperature scaling.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Those of `predict_proba` at the temperature that `calibrate` found likeliest.

        Raises
        ------
        UserError
            Before `calibrate`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> clf.calibrate(X[1::2], y[1::2]).calibrated_proba(X[:2]).sum(axis=1).round(6)
        array([1., 1.])
        """
        decisions = self._decide(X)
        if self.recalibration_ is None:
            raise _needs_calibration("calibrated_proba")
        return self.recalibration_.probabilities(decisions.probabilities.numpy())

    def calibrated_confidence(self, X: Any) -> np.ndarray:
        """Return how often predictions of such confidence were right in `calibrate`.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        accuracy : ndarray of shape (n,)
            Isotonic regression of accuracy on the confidence C_i.

        Raises
        ------
        UserError
            Before `calibrate`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> accuracy = clf.calibrate(X[1::2], y[1::2]).calibrated_confidence(X)
        >>> bool(((0 <= accuracy) & (accuracy <= 1)).all())
        True
        """
        decisions = self._decide(X)
        if self.recalibration_ is None:
            raise _needs_calibration("calibrated_confidence")
        return self.recalibration_.confidence(decisions.confidence.numpy())


def _needs_calibration(name: str) -> UserError:
    return UserError(f"{name} needs calibration first; call calibrate(X_cal, y_cal) with unseen samples.")
