"""The methods of a classifier that say when to answer: selective, calibrated and conformal prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

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

    def predict_or_abstain(self, X: Any, min_confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels, and which of them are answers: those with confidence of at least `min_confidence`."""
        decisions = self._decide(X)
        return self.classes_[decisions.predicted.numpy()], decisions.confidence.numpy() >= min_confidence

    def assess(self, X: Any, y: Any, name: str = "") -> Assessment:
        """Return what labelled, unseen samples tell: `risk_coverage()`, `reliability()`, `metrics()`, `plot()`."""
        decisions = self._decide(X)
        labels = self.database_.classes.encode(y).numpy()
        if len(labels) != len(decisions.logits):
            raise UserError(f"X and y must be of one length, but X has {len(decisions.logits)} rows, y {len(labels)}.")
        return Assessment(
            confidence=decisions.confidence.numpy(),
            predicted=decisions.predicted.numpy(),
            labels=labels,
            probabilities=decisions.probabilities.numpy(),
            class_mass=decisions.class_mass.numpy(),
            classes=self.classes_,
            name=name,
        )

    def threshold_for(self, X: Any, y: Any, accuracy: float = 0.99, *, guarantee: float | None = None) -> float:
        """Return the lowest min_confidence that gives `accuracy` on these labelled samples, unseen in training.

        With `guarantee=0.95` it holds for new samples drawn alike, too, at that probability (`guaranteed_threshold`).
        """
        seen = self.assess(X, y)
        if guarantee is None:
            return threshold_for_accuracy(seen.confidence, seen.correct, accuracy)
        return guaranteed_threshold(seen.confidence, seen.correct, accuracy=accuracy, guarantee=guarantee)

    def calibrate(self, X: Any, y: Any) -> Self:
        """Learn from labelled samples, unseen in training, what prediction sets and calibrated scores need.

        Do it again after an edit of the database, which changes the decisions it was learned from.
        """
        seen = self.assess(X, y)
        support = class_support(seen.class_mass, seen.probabilities)
        recalibration = Recalibration.fit(
            seen.probabilities, seen.labels, confidence=seen.confidence, correct=seen.correct
        )
        self.conformal_, self.recalibration_ = Conformal.fit(support, seen.labels), recalibration
        return self

    def prediction_set(self, X: Any, coverage: float = 0.95, *, by_class: bool = False) -> list[list[Any]]:
        """Return for each row the labels that together hold the true one at least `coverage` of the time.

        An empty list is "none of these": too little speaks for any class. With `by_class` the guarantee holds for the
        samples of each class, however rare, and not only for all of them together.
        """
        decisions = self._decide(X)
        if self.conformal_ is None:
            raise _needs_calibration("prediction_set")
        sets = self.conformal_.sets_by_class if by_class else self.conformal_.sets
        inside = sets(class_support(decisions.class_mass.numpy(), decisions.probabilities.numpy()), coverage)
        return [self.classes_[row].tolist() for row in inside]

    def calibrated_proba(self, X: Any) -> np.ndarray:
        """Return `predict_proba` at the temperature that `calibrate` found likeliest `(n, n_classes)`."""
        decisions = self._decide(X)
        if self.recalibration_ is None:
            raise _needs_calibration("calibrated_proba")
        return self.recalibration_.probabilities(decisions.probabilities.numpy())

    def calibrated_confidence(self, X: Any) -> np.ndarray:
        """Return how often predictions of such confidence were right in `calibrate` `(n,)`."""
        decisions = self._decide(X)
        if self.recalibration_ is None:
            raise _needs_calibration("calibrated_confidence")
        return self.recalibration_.confidence(decisions.confidence.numpy())


def _needs_calibration(name: str) -> UserError:
    return UserError(f"{name} needs calibration first; call calibrate(X_cal, y_cal) with unseen samples.")
