"""What a fitted classifier tells beyond its decisions: how sure, how strange, how good, and which labels are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from protoattend.core.model import Encoded
from protoattend.data.inputs import require_rows
from protoattend.data_quality.error_analysis import ErrorAnalysis, error_analysis
from protoattend.data_quality.judges import cross_fit_issues, leave_one_out_issues
from protoattend.data_quality.label_errors import LabelIssues
from protoattend.database.attention import Attention
from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError
from protoattend.explain.contrast import Contrast, contrast, explain_diverse
from protoattend.explain.explanations import Explanations
from protoattend.explain.quality import PrototypeQuality
from protoattend.explain.ranking import database_quality
from protoattend.monitoring.drift import DriftMonitor
from protoattend.monitoring.ood import ood_score
from protoattend.monitoring.ood_curves import ConfidenceRatios, OodCurve
from protoattend.monitoring.ood_detector import OodDetector
from protoattend.monitoring.usage import PrototypeUsage, prototype_usage
from protoattend.uncertainty.assessment import Assessment
from protoattend.uncertainty.calibration import Recalibration
from protoattend.uncertainty.conformal import Conformal, class_support
from protoattend.uncertainty.selective import guaranteed_threshold, threshold_for_accuracy


class TrustMixin:
    """The methods of a classifier that say how far to trust it; named here is what they need of the classifier."""

    classes_: np.ndarray
    database_: CandidateDatabase
    conformal_: Conformal | None
    recalibration_: Recalibration | None
    _encode: Callable[[Any], Encoded]
    _decide: Callable[[Any], Attention]
    _read: Callable[[Any], tuple[Encoded, list[Any]]]

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

    def prototype_usage(self, X: Any) -> PrototypeUsage:
        """Return what the decisions on X rest on, in the form a drift monitor is fed with."""
        return prototype_usage(self.database_, self._encode(X).queries)

    def drift_monitor(self, X: Any, *, false_alarm: float = 0.01) -> DriftMonitor:
        """Return a monitor with X, unseen in training, as reference; feed it `clf.prototype_usage(X_new)`."""
        return DriftMonitor(self.prototype_usage(X), false_alarm=false_alarm)

    def ood_score(self, X: Any, method: str = "neighbours") -> np.ndarray:
        """Return how strange each row is `(n,)`; higher is further from the training data.

        "neighbours" is how far its value is from those of the candidates. "disagreement" is the paper's 1 - C_i, which
        needs many prototypes to tell anything; "key-neighbours", "largest-score", "own-value", "energy" and
        "own-energy" read other signals of the same forward. "combined" is `ood_detector().score(X)`, the best.
        """
        return self._strangeness(method)(X)

    def ood_curve(self, X_usual: Any, X_strange: Any, method: str = "neighbours") -> OodCurve:
        """Return how well a method of `ood_score` tells strange rows from usual ones: `auroc`, `fpr95`, `plot()`."""
        score = self._strangeness(method)
        return OodCurve.from_scores(score(X_usual), score(X_strange), name=method)

    def confidence_ratios(self, sets: Mapping[str, Any]) -> ConfidenceRatios:
        """Return the share of rows above each confidence for several X by name: the paper's figure; `plot()` it."""
        return ConfidenceRatios.from_confidences({name: self._decide(X).confidence.numpy() for name, X in sets.items()})

    def ood_detector(self, X: Any = None) -> OodDetector:
        """Return a detector of strange inputs, `score(X)` and `p_value(X)`, learned from usual rows alone.

        They should be unseen in training, for p-values to hold; without X they are candidates of the database.
        """
        check_is_fitted(self)
        if X is None:
            return OodDetector.fit_on_database(self.database_)
        require_rows(X)
        return OodDetector.fit(self.database_, X)

    def find_label_issues(self, X: Any = None, y: Any = None, *, cv: int = 5) -> LabelIssues:
        """Return the rows whose label is disputed, worst first, with a suggestion and the prototypes that say so.

        Without X: the candidates of this classifier, by one another, at no cost. With X and y: `cv` clones of it (it
        need not be fitted) are trained to judge rows they never saw, which is slower and better.
        """
        if X is not None:
            return cross_fit_issues(self, X, y, cv=cv)
        check_is_fitted(self)
        return leave_one_out_issues(self.database_)

    def error_analysis(self, X: Any, y: Any, top: int = 20) -> ErrorAnalysis:
        """Return which candidates pull which classes into which errors on labelled rows, and where data is wanted."""
        check_is_fitted(self)
        return error_analysis(self.database_, self._encode(X).queries, self.database_.classes.encode(y), top=top)

    def contrast(self, X: Any, label: Any, top: int = 5) -> list[Contrast]:
        """Return for each row the best candidates of another label, and how much weight they lack."""
        encoded, previews = self._read(X)
        return contrast(self.database_, encoded.queries, previews, label=label, top=top)

    def explain_diverse(self, X: Any, top: int = 5) -> Explanations:
        """Return each row's prototypes like `explain`, but no near-copies of one another."""
        encoded, previews = self._read(X)
        return explain_diverse(self.database_, encoded.queries, previews, top=top)

    def prototype_quality(self, X: Any, y: Any, **more: Any) -> PrototypeQuality:
        """Return how good the prototypes of labelled rows are, in numbers.

        May be given: `subclasses` and `candidate_subclasses`, finer groups than labels; `perturb`, a small change of X.
        """
        check_is_fitted(self)
        return database_quality(self.database_, X, self.database_.classes.encode(y).numpy(), **more)

    def _strangeness(self, method: str) -> Callable[[Any], np.ndarray]:
        check_is_fitted(self)
        return self.ood_detector().score if method == "combined" else partial(ood_score, self.database_, method=method)


def _needs_calibration(name: str) -> UserError:
    return UserError(f"{name} needs calibration first; call calibrate(X_cal, y_cal) with unseen samples.")
