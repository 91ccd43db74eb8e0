"""An assessment: what labelled samples tell about the confidence of a classifier, from one pass over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.errors import UserError
from protoattend.uncertainty import calibration, selective
from protoattend.uncertainty.calibration import Reliability
from protoattend.uncertainty.selective import AucCoverage, RiskCoverage


@dataclass(frozen=True)
class Assessment:
    """What labelled samples tell about the confidence of a classifier; `ProtoAttendClassifier.assess` makes it.

    Attributes
    ----------
    confidence : ndarray of shape (n,)
        C_i of eq. 3.
    predicted, labels : ndarray of int of shape (n,)
        Predicted and true class numbers.
    probabilities, class_mass : ndarray of shape (n, n_classes)
        Of every class.
    classes : ndarray of shape (n_classes,)
        The labels that class numbers stand for.
    name : str, default=""
        What it is called in plots, where several can be compared on one axis.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> found = Assessment(p.max(1), p.argmax(1), np.array([0, 1, 1]), p, p, np.array(["no", "yes"]))
    >>> round(found.metrics()["accuracy"], 2), found.coverage_at_accuracy(1.0) > 0.6
    (0.67, True)
    """

    confidence: np.ndarray
    predicted: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray
    class_mass: np.ndarray
    classes: np.ndarray
    name: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def correct(self) -> np.ndarray:
        """Which predictions are right `(n,)`."""
        return self.predicted == self.labels

    def risk_coverage(self) -> RiskCoverage:
        """Return the error among the answers against the share answered.

        Returns
        -------
        RiskCoverage
        """
        return selective.risk_coverage(self.confidence, self.correct, name=self.name)

    def auc_coverage(self, positive: Any = None) -> AucCoverage:
        """Return the AUC for one class against the share answered.

        Parameters
        ----------
        positive : label or None, default=None
            The class; None is the second of two.

        Returns
        -------
        AucCoverage

        Raises
        ------
        UserError
            Where there are more than two classes and none is named, or it is not one of them.
        """
        if positive is None and len(self.classes) != 2:
            raise UserError(f"positive must be given where there are {len(self.classes)} classes; choose one of them.")
        number = 1 if positive is None else self._number(positive)
        return selective.auc_coverage(
            self.confidence, self.probabilities[:, number], self.labels == number, name=self.name
        )

    def reliability(self, bins: int = 10) -> Reliability:
        """Return how often predictions are right by their confidence, in bins of equal width.

        Parameters
        ----------
        bins : int, default=10
            How many.

        Returns
        -------
        Reliability
        """
        return calibration.reliability(self.confidence, self.correct, bins=bins, name=self.name)

    def adaptive_reliability(self, bins: int = 10) -> Reliability:
        """Return the same in up to `bins` bins of as equal numbers of samples as ties allow."""
        return calibration.adaptive_reliability(self.confidence, self.correct, bins=bins, name=self.name)

    def accuracy_at_coverage(self, coverage: float) -> float:
        """Return the accuracy on the most confident `coverage` of the samples."""
        return selective.accuracy_at_coverage(self.confidence, self.correct, coverage)

    def coverage_at_accuracy(self, accuracy: float) -> float:
        """Return the largest share of samples that can be answered at `accuracy`."""
        return selective.coverage_at_accuracy(self.confidence, self.correct, accuracy)

    def metrics(self) -> dict[str, float]:
        """Return the single numbers: accuracy, then what confidence is worth, then what probabilities are.

        Returns
        -------
        dict of str to float
            "accuracy", "aurc", "e_aurc", "accuracy_at_coverage_90", "coverage_at_accuracy_99", "ece", "adaptive_ece",
            "brier" and "probability_brier".
        """
        curve = self.risk_coverage()
        return {
            "accuracy": float(self.correct.mean()),
            "aurc": curve.aurc,
            "e_aurc": curve.e_aurc,
            "accuracy_at_coverage_90": self.accuracy_at_coverage(0.9),
            "coverage_at_accuracy_99": self.coverage_at_accuracy(0.99),
            "ece": calibration.expected_calibration_error(self.confidence, self.correct),
            "adaptive_ece": calibration.adaptive_calibration_error(self.confidence, self.correct),
            "brier": calibration.brier_score(self.confidence, self.correct),
            "probability_brier": calibration.multiclass_brier_score(self.probabilities, self.labels),
        }

    def plot(self) -> Any:
        """Draw the risk-coverage curve and the reliability diagram, side by side.

        Returns
        -------
        matplotlib figure
        """
        from protoattend.viz.style import side_by_side

        plots = [self.risk_coverage().plot, self.reliability().plot]
        return side_by_side(plots, "plotting an assessment", (12.0, 4.8))

    def _repr_html_(self) -> str:
        from protoattend.viz.notebook import assessment_cell

        curve = self.risk_coverage()
        return assessment_cell(
            self.name,
            self.metrics(),
            curve.risk_of_most_confident(),
            aurc=curve.aurc,
            reliability=self.reliability().chart(),
        )

    def _number(self, label: Any) -> int:
        numbers = [c for c, value in enumerate(self.classes.tolist()) if value == label]
        if not numbers:
            raise UserError(f"positive must be one of {self.classes.tolist()[:9]}, but got {label!r}.")
        return numbers[0]
