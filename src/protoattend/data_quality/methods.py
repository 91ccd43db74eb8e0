"""The methods of a classifier that judge its data: label errors and error analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from protoattend.core.model import Encoded
from protoattend.data_quality.error_analysis import ErrorAnalysis, error_analysis
from protoattend.data_quality.judges import cross_fit_issues, leave_one_out_issues
from protoattend.data_quality.label_errors import LabelIssues
from protoattend.database.store import CandidateDatabase


class DataQualityMethods:
    """Which labels are wrong and which candidates do harm; named first is what is needed of the classifier."""

    database_: CandidateDatabase
    _encode: Callable[[Any], Encoded]

    def find_label_issues(self, X: Any = None, y: Any = None, *, cv: int = 5) -> LabelIssues:
        """Return the rows whose label is disputed, worst first, with a suggestion and the prototypes that say so.

        Parameters
        ----------
        X : array-like, DataFrame, list of str, images or None, default=None
            Rows to judge by `cv` clones of this classifier (it need not be fitted), each trained without the rows it
            judges. None judges the candidates of this classifier by one another: no training, and less accurate.
        y : array-like of shape (n,), default=None
            Labels of X.
        cv : int, default=5
            How many clones are trained.

        Returns
        -------
        issues : LabelIssues
            A sequence of `LabelIssue` with `indices`, `scores` of all rows, `corrected(y)`, `plot` and `to_frame`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> y[0] = 2  # a label error
        >>> clf = ProtoAttendClassifier(max_epochs=10, random_state=0, verbose=0).fit(X, y)
        >>> worst = clf.find_label_issues()[0]
        >>> worst.index, int(worst.given_label), int(worst.suggested_label)
        (0, 2, 0)
        """
        if X is not None:
            return cross_fit_issues(self, X, y, cv=cv)
        check_is_fitted(self)
        return leave_one_out_issues(self.database_.snapshot())

    def error_analysis(self, X: Any, y: Any, top: int = 20) -> ErrorAnalysis:
        """Return which candidates pull which classes into which errors, and of which classes more data is wanted.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, unseen in training.
        y : array-like of shape (n,)
            Their labels.
        top : int, default=20
            How many harmful candidates are reported at the most.

        Returns
        -------
        analysis : ErrorAnalysis
            `counts` (n_classes, n_classes) is the confusion matrix, true classes by row; `confusions`, `harmful` and
            `wanted` are worst first.

        Raises
        ------
        UserError
            If X has no rows, or a label was not seen in `fit`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> analysis = clf.error_analysis(X[1::2], y[1::2])
        >>> int(analysis.counts.sum()), analysis.counts.shape
        (89, (3, 3))
        """
        check_is_fitted(self)
        database = self.database_.snapshot()
        return error_analysis(database, self._encode(X).queries, database.classes.encode(y), top=top)
