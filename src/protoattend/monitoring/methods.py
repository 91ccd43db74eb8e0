"""The methods of a classifier that watch its inputs: out-of-distribution detection and drift detection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from protoattend.arguments import check_mapping
from protoattend.core.model import Encoded
from protoattend.data.inputs import require_rows
from protoattend.database.attention import Attention
from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError
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

    def ood_score(self, X: Any, method: str = "auto") -> np.ndarray:
        """Return how far out-of-distribution each row is.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.
        method : str, default="auto"
            "auto" is "combined", which is `ood_detector().score(X)`, the most accurate, where the training samples are
            at hand, and "neighbours" where they are not. "neighbours" is the distance of a row's value to those of the
            nearest candidates. "disagreement" is the paper's 1 - C_i. "key-neighbours", "largest-score", "own-value",
            "energy" and "own-energy" read other signals of the same forward pass.

        Returns
        -------
        scores : ndarray of shape (n,)
            Higher is further from the training data.

        Raises
        ------
        UserError
            If `method` is none of these.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> bool(clf.ood_score(X).mean() < clf.ood_score(10 * X).mean())
        True
        """
        return self._ood_scorer(method)(X)

    def ood_curve(self, X_in: Any, X_out: Any, method: str = "auto") -> OodCurve:
        """Return how well a method of `ood_score` tells out-of-distribution rows from in-distribution ones.

        Parameters
        ----------
        X_in, X_out : array-like, DataFrame, list of str or images
            Rows of either kind, those of `X_in` unseen in training.
        method : str, default="auto"
            A method of `ood_score`.

        Returns
        -------
        curve : OodCurve
            It has `auroc`, `aupr`, `fpr95` and `plot()`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> clf.ood_curve(X[1::2], 10 * X[1::2]).auroc > 0.5
        True
        """
        score = self._ood_scorer(method)
        return OodCurve.from_scores(score(X_in), score(X_out), name=method)

    def confidence_ratios(self, sets: Mapping[str, Any]) -> ConfidenceRatios:
        """Return the share of rows above each confidence, for several sets of rows: a figure of the paper.

        Parameters
        ----------
        sets : dict {str: X}
            Rows by the name of their set.

        Returns
        -------
        ratios : ConfidenceRatios
            `levels` of confidence, and the share `above` each by set; `plot()` draws them.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> ratios = clf.confidence_ratios({"wine": X[1::2], "scaled": 10 * X[1::2]})
        >>> list(ratios.above), ratios.above["wine"].shape == ratios.levels.shape
        (['wine', 'scaled'], True)
        """
        sets = check_mapping(sets, "sets", "rows by name {name: X}")
        return ConfidenceRatios.from_confidences({name: self._decide(X).confidence.numpy() for name, X in sets.items()})

    def ood_detector(self, X: Any = None) -> OodDetector:
        """Return an out-of-distribution detector that is learned from in-distribution rows alone.

        Parameters
        ----------
        X : array-like, DataFrame, list of str, images or None, default=None
            In-distribution rows, unseen in training: p-values hold for them. None takes candidates of the database.

        Returns
        -------
        detector : OodDetector
            `score(X)` combines several methods of `ood_score`; `p_value(X)` is the share of in-distribution rows that
            score as high.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> detector = clf.ood_detector(X[1::2])
        >>> bool((detector.p_value(10 * X[:3]) < 0.05).all())
        True
        """
        check_is_fitted(self)
        if X is None:
            return OodDetector.fit_on_database(self.database_.snapshot())
        require_rows(X)
        return OodDetector.fit(self.database_.snapshot(), X)

    def prototype_usage(self, X: Any) -> PrototypeUsage:
        """Return what the decisions on X rest on, as a drift monitor is fed with it.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        usage : PrototypeUsage of length n
            Confidence (n,), class mass (n, n_classes) and the heaviest prototypes of each decision; no row of X itself.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> usage = clf.prototype_usage(X[:4])
        >>> len(usage), usage.class_mass.shape
        (4, (4, 3))
        """
        return prototype_usage(self.database_.snapshot(), self._encode(X).queries)

    def drift_monitor(self, X: Any, *, false_alarm: float = 0.01) -> DriftMonitor:
        """Return a drift monitor with X as reference.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            At least 20 rows, unseen in training, of the distribution that is expected.
        false_alarm : float, default=0.01
            The probability at the most that an alarm is ever raised without drift, however long it watches.

        Returns
        -------
        monitor : DriftMonitor
            To be fed with `monitor.update(clf.prototype_usage(X_new))`.

        Raises
        ------
        UserError
            If X has fewer than 20 rows.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> monitor = clf.drift_monitor(X[1::2])
        >>> report = monitor.update(clf.prototype_usage(10 * X))
        >>> report.n_seen, report.alarm
        (178, True)
        """
        return DriftMonitor(self.prototype_usage(X), false_alarm=false_alarm)

    def _ood_scorer(self, method: str) -> Callable[[Any], np.ndarray]:
        check_is_fitted(self)
        if isinstance(method, str) and method == "combined":
            return self._combined().score
        if isinstance(method, str) and method == "auto":
            try:
                return self._combined().score
            except UserError:  # excerpts only, or too few rows
                method = "neighbours"
        return partial(ood_score, self.database_.snapshot(), method=method)

    def _combined(self) -> OodDetector:
        """Return the detector that was learned from the database as it is, and learn it at the first use."""
        rows = self.database_.rows
        known: tuple[Any, OodDetector] | None = getattr(self, "_detector", None)
        if known is None or known[0] is not rows:
            known = self._detector = rows, self.ood_detector()
        return known[1]
