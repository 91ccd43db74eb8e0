"""The methods of a classifier that watch its inputs: out-of-distribution detection and drift detection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from protoattend.core.model import Encoded
from protoattend.data.inputs import require_rows
from protoattend.database.attention import Attention
from protoattend.database.store import CandidateDatabase
from protoattend.monitoring.drift import DriftMonitor
from protoattend.monitoring.ood import ood_score
from protoattend.monitoring.ood_curves import ConfidenceRatios, OodCurve
from protoattend.monitoring.ood_detector import OodDetector
from protoattend.monitoring.usage import PrototypeUsage, prototype_usage


class MonitoringMethods:
    """Whether inputs are still those it was trained for; named first is what is needed of the classifier."""

    database_: CandidateDatabase
    _encode: Callable[[Any], Encoded]
    _decide: Callable[[Any], Attention]

    def ood_score(self, X: Any, method: str = "neighbours") -> np.ndarray:
        """Return the out-of-distribution score of each row `(n,)`; higher is further from the training data.

        "neighbours" is how far its value is from those of the candidates. "disagreement" is the paper's 1 - C_i, which
        needs many prototypes to tell anything; "key-neighbours", "largest-score", "own-value", "energy" and
        "own-energy" read other signals of the same forward. "combined" is `ood_detector().score(X)`, the best.
        """
        return self._ood_scorer(method)(X)

    def ood_curve(self, X_in: Any, X_out: Any, method: str = "neighbours") -> OodCurve:
        """Return how well a method of `ood_score` tells out-of-distribution rows from in-distribution ones.

        It has `auroc`, `aupr`, `fpr95` and `plot()`.
        """
        score = self._ood_scorer(method)
        return OodCurve.from_scores(score(X_in), score(X_out), name=method)

    def confidence_ratios(self, sets: Mapping[str, Any]) -> ConfidenceRatios:
        """Return the share of rows above each confidence for several X by name: the paper's figure; `plot()` it."""
        return ConfidenceRatios.from_confidences({name: self._decide(X).confidence.numpy() for name, X in sets.items()})

    def ood_detector(self, X: Any = None) -> OodDetector:
        """Return an out-of-distribution detector, `score(X)` and `p_value(X)`, learned from in-distribution rows alone.

        They should be unseen in training, for p-values to hold; without X they are candidates of the database.
        """
        check_is_fitted(self)
        if X is None:
            return OodDetector.fit_on_database(self.database_)
        require_rows(X)
        return OodDetector.fit(self.database_, X)

    def prototype_usage(self, X: Any) -> PrototypeUsage:
        """Return what the decisions on X rest on, in the form a drift monitor is fed with."""
        return prototype_usage(self.database_, self._encode(X).queries)

    def drift_monitor(self, X: Any, *, false_alarm: float = 0.01) -> DriftMonitor:
        """Return a monitor with X, unseen in training, as reference; feed it `clf.prototype_usage(X_new)`."""
        return DriftMonitor(self.prototype_usage(X), false_alarm=false_alarm)

    def _ood_scorer(self, method: str) -> Callable[[Any], np.ndarray]:
        check_is_fitted(self)
        return self.ood_detector().score if method == "combined" else partial(ood_score, self.database_, method=method)
