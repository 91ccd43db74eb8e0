"""The methods of a classifier that explain its decisions further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from protoattend.core.model import Encoded
from protoattend.database.store import CandidateDatabase
from protoattend.explain.contrast import Contrast, contrast, explain_diverse
from protoattend.explain.explanations import Explanations
from protoattend.explain.quality import PrototypeQuality
from protoattend.explain.ranking import database_quality


class ExplainMethods:
    """Why not another decision, and how good prototypes are; named first is what is needed of the classifier."""

    database_: CandidateDatabase
    _read: Callable[[Any], tuple[Encoded, list[Any]]]

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
