"""The methods of a classifier that explain its decisions: prototypes, contrasts, counterfactuals and their quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from protoattend.core.model import Encoded
from protoattend.database.rows import Indices
from protoattend.database.store import CandidateDatabase
from protoattend.explain.contrast import Contrast, contrast, explain_diverse
from protoattend.explain.counterfactuals import Counterfactual, counterfactuals, suppose, with_before
from protoattend.explain.explanations import Explanations, explain
from protoattend.explain.quality import PrototypeQuality
from protoattend.explain.ranking import database_quality


class ExplainMethods:
    """What decisions rest on, and what would change them; named first is what is needed of the classifier."""

    database_: CandidateDatabase
    _encode: Callable[[Any], Encoded]
    _read: Callable[[Any], tuple[Encoded, list[Any]]]

    def explain(
        self,
        X: Any = None,
        top: int = 5,
        *,
        without: Indices | None = None,
        with_labels: Mapping[int, Any] | None = None,
    ) -> Explanations:
        """Return the prototypes of each row with their weights, also for a supposed change of the database.

        Parameters
        ----------
        X : array-like, DataFrame, list of str, images or None, default=None
            Rows to explain, of the kind given to `fit`. None explains every row of the database, each without itself.
        top : int, default=5
            How many prototypes are shown at the most; the prediction rests on all of them.
        without : int or sequence of int, default=None
            Indices of candidates that are supposed to be absent.
        with_labels : dict {index: label}, default=None
            Candidates that are supposed to have other labels.

        Returns
        -------
        explanations : Explanations of length n
            A sequence of `Explanation` with `plot`, `to_html` and `to_frame`. Where something is supposed, each has
            what is decided now as `before`, and `changed`; the database itself stays as it is.

        Raises
        ------
        UserError
            If `top` is below 1, or an index is not in the database.

        Notes
        -----
        A prototype's weight is p_ij of eq. 1, its share of the decision; all prototypes of a row sum to one.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> explanation = clf.explain(X[:1], top=3)[0]
        >>> heaviest = explanation.prototypes[0]
        >>> len(explanation.prototypes), bool(heaviest.label == y[heaviest.index])
        (3, True)
        >>> bool(clf.explain(X[:1], without=[heaviest.index])[0].changed)
        False
        """
        check_is_fitted(self)
        database = self.database_.snapshot()
        supposed, own = suppose(database, without=without, with_labels=with_labels), None
        if X is None:
            shown = [supposed.preview_at(position) for position in range(len(supposed))]
            queries = supposed.rows.queries
            own = torch.from_numpy(np.searchsorted(database.rows.ids, supposed.rows.ids))
        else:
            encoded, shown = self._read(X)
            queries = encoded.queries
        themselves = torch.arange(len(queries)) if X is None else None
        explanations = explain(supposed, queries, shown, top=top, own=themselves)
        return explanations if supposed is database else with_before(explanations, database, queries, own=own)

    def explain_diverse(self, X: Any, top: int = 5) -> Explanations:
        """Return each row's prototypes like `explain`, but none that nearly repeats another.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            Rows to explain, of the kind given to `fit`.
        top : int, default=5
            How many prototypes are shown at the most.

        Returns
        -------
        explanations : Explanations of length n
            First the heaviest prototype; each next one has the largest product of its weight and its distance, in key
            and value, to those before it. Weights are those of `explain`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> diverse, plain = clf.explain_diverse(X[:1])[0], clf.explain(X[:1])[0]
        >>> diverse.prototypes[0].index == plain.prototypes[0].index
        True
        """
        encoded, previews = self._read(X)
        return explain_diverse(self.database_.snapshot(), encoded.queries, previews, top=top)

    def contrast(self, X: Any, label: Any, top: int = 5) -> list[Contrast]:
        """Return for each row why it is not decided to be `label`: its best candidates, and the weight they lack.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            Rows, of the kind given to `fit`.
        label : object
            One of `classes_`.
        top : int, default=5
            How many candidates of `label`, and how many prototypes, are shown at the most.

        Returns
        -------
        contrasts : list of Contrast, of length n
            `behind` is how far the logit of `label` is below that of the prediction, `mass` its class mass, and
            `rivals` the candidates of `label` with the largest attention scores.

        Raises
        ------
        UserError
            If `label` is not a class, or the database has no candidate of it.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> why_not = clf.contrast(X[:1], label=1)[0]
        >>> why_not.behind > 0, len(why_not.rivals)
        (True, 5)
        """
        encoded, previews = self._read(X)
        return contrast(self.database_.snapshot(), encoded.queries, previews, label=label, top=top)

    def counterfactuals(self, X: Any, *, at_most: int = 100) -> list[Counterfactual | None]:
        """Return for each row the fewest prototypes found whose removal changes its prediction.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            Rows, of the kind given to `fit`.
        at_most : int, default=100
            How many candidates may be removed.

        Returns
        -------
        counterfactuals : list of Counterfactual or None, of length n
            `indices` of the candidates removed, the outcome `before` and `after`, and whether they are the `smallest`
            set there is. None where `at_most` are not enough.

        Raises
        ------
        UserError
            If `at_most` is below 1.

        Notes
        -----
        With softmax every set is the smallest; with sparsemax a removal lets other candidates in, and `smallest` says
        whether all smaller sets could be tried.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> flip = clf.counterfactuals(X[83:84])[0]
        >>> bool(flip.before.prediction != flip.after.prediction)
        True
        """
        return counterfactuals(self.database_.snapshot(), self._encode(X).queries, at_most=at_most)

    def prototype_quality(self, X: Any, y: Any, **more: Any) -> PrototypeQuality:
        """Return how good the prototypes of labelled rows are, in numbers.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            Rows, of the kind given to `fit`, best unseen in training.
        y : array-like of shape (n,)
            Their labels.
        **more
            `subclasses` of shape (n,) and `candidate_subclasses` of shape (len(database_),), finer groups than
            labels; `perturb`, a callable `(X, generator) -> X` that makes a small change, for `stability`.

        Returns
        -------
        quality : PrototypeQuality
            Agreement of labels, faithfulness, stability, diversity and more; `plot` draws the deletion curve.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> quality = clf.prototype_quality(X[1::2], y[1::2])
        >>> 0.5 < quality.same_class <= 1
        True
        """
        check_is_fitted(self)
        return database_quality(self.database_.snapshot(), X, self.database_.classes.encode(y).numpy(), **more)
