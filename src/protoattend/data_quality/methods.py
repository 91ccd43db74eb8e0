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
