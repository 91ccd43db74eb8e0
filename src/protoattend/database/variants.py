"""The methods that make other databases of one: fewer candidates, other labels, less memory, another search."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import as_array, check_count, check_mapping
from protoattend.database import condense
from protoattend.database.approximate import Approximation, Neighbours
from protoattend.database.encode import decision_weight
from protoattend.database.mutex import Mutex
from protoattend.database.n_prototypes import HIGHEST, temperature_for
from protoattend.database.quantize import Quantization
from protoattend.database.reading import ReadableDatabase
from protoattend.database.readings import Readings, choose_readings, readings_taken_over
from protoattend.database.rows import Indices, Rows
from protoattend.database.storage import edit_log as edits
from protoattend.errors import UserError


class VariantMethods(ReadableDatabase):
    """Databases made of this one, which stays as it is; named first is what is needed of the whole one."""

    _home: edits.Home | None
    _unsaved: tuple[edits.Edit, ...]
    _writing: Mutex
    _require_current_model: Callable[[], None]

    def snapshot(self) -> Self:
        """Return the database as it is now, in no time; edits of this one do not reach it, nor the other way round.

        Returns
        -------
        database : CandidateDatabase
            In memory alone: it has no folder. Several questions to it are answered from the same candidates, whatever
            other threads do with this one meanwhile.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> before = clf.database_.snapshot()
        >>> clf.database_.remove([0, 1])
        >>> len(before), len(clf.database_)
        (178, 176)
        """
        other = copy.copy(self)
        other._home, other._unsaved, other._writing = None, (), Mutex()
        return other

    def without(self, indices: Indices) -> Self:
        """Return a database that lacks some candidates; this one stays as it is.

        Parameters
        ----------
        indices : int or sequence of int
            What the rows are called.

        Returns
        -------
        database : CandidateDatabase

        Raises
        ------
        UserError
            If an index is not in the database, or no candidate would be left.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.without([0, 1]), len(clf.database_)
        (CandidateDatabase(176 candidates of 3 classes), 178)
        """
        now = self.snapshot()
        return now._with(now._removal(indices).apply(now._state.laid_out, decision_weight(self.model)))

    def with_labels(self, labels: Mapping[int, Any]) -> Self:
        """Return a database in which some candidates have other labels; this one stays as it is.

        Parameters
        ----------
        labels : dict {index: label}
            The labels of the rows that get another one.

        Returns
        -------
        database : CandidateDatabase

        Raises
        ------
        UserError
            If an index is not in the database, or a label is unknown.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.with_labels({0: 2}).labels[:2], clf.database_.labels[:2]
        (array([2, 0]), array([0, 0]))
        """
        check_mapping(labels, "labels", "a dict {index: label}")
        if not labels:
            return self._with(self._rows)
        now = self.snapshot()
        edit = now._relabelling(list(labels), list(labels.values()))
        return now._with(edit.apply(now._state.laid_out, decision_weight(self.model)))

    def condense(self, n: int) -> Self:
        """Return a database of the candidates that decisions rest on most; this one stays as it is.

        Parameters
        ----------
        n : int
            How many candidates it has, at least one for each class there is.

        Returns
        -------
        database : CandidateDatabase
            The rows that get most attention from the other rows, of every class its share.

        Raises
        ------
        UserError
            If `n` is below the number of classes or above the size of the database.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.condense(30)
        CandidateDatabase(30 candidates of 3 classes)
        """
        now = self.snapshot()
        received, labels = condense.attention_received(now), now._rows.labels.numpy()
        return now._fewer(condense.most_attended(received, labels, n))

    def condense_within(self, loss: float) -> Self:
        """Return the smallest condensed database tried that is hardly less accurate; this one stays as it is.

        Parameters
        ----------
        loss : float
            How much accuracy on the rows, each without itself, may fall; 0.01 is one percentage point.

        Returns
        -------
        database : CandidateDatabase
            Of `condense(n)` with n halved as long as the loss allows it. Accuracy on unseen samples is close to that on
            the rows, not bound by it: check it.

        Raises
        ------
        UserError
            If `loss` is not in [0, 1).

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> len(clf.database_.condense_within(0.02)) <= len(clf.database_)
        True
        """
        now = self.snapshot()
        return now._fewer(condense.positions_within(now, loss))

    def quantize_keys(self, dtype: str) -> Self:
        """Return a database with keys of a smaller type; this one stays as it is.

        Parameters
        ----------
        dtype : {"float16", "int8"}
            A half or a quarter of the memory of the keys.

        Returns
        -------
        database : CandidateDatabase
            Its `Attention` has exact=False; `rounding.score_error(queries, temperature)` is how far any score can be
            off. An engine for `approximate` must be built from this database itself.

        Raises
        ------
        UserError
            If `dtype` is another one, or keys are rounded already.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> rounded = clf.database_.quantize_keys("int8")
        >>> rounded.rows.keys.dtype, rounded.decide(rounded.rows.queries).exact
        (torch.int8, False)
        """
        if self.rounding is not None:
            raise UserError(f"keys must be rounded once, but they are {self.rounding.dtype}; round the original ones.")
        rows = self._rows
        rounding = Quantization.of(rows.keys, dtype)
        rounded = self._with(replace(rows, keys=rounding.round(rows.keys)))
        rounded.rounding = rounding
        return rounded

    def approximate(self, neighbours: Neighbours, k: int = 256) -> Self:
        """Return a database whose candidates another engine finds; this one stays as it is.

        Parameters
        ----------
        neighbours : Neighbours
            `FaissNeighbours`, `MilvusNeighbours` or any object with `search(queries, k)`, built from this database.
        k : int, default=256
            How many candidates the engine is asked for.

        Returns
        -------
        database : CandidateDatabase
            Attention is exact among those found: its `Attention` has exact=False, and `missed` bounds the weight of
            others. An edit ends it: the next search is exact again.

        Raises
        ------
        UserError
            If `k` is below 1.

        Examples
        --------
        >>> from protoattend.database.approximate import FaissNeighbours
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> approximate = clf.database_.approximate(FaissNeighbours.build(clf.database_), k=50)
        >>> found = approximate.decide(clf.database_.rows.queries[:2])
        >>> found.exact, float(found.missed.max()) < 1e-6
        (False, True)
        """
        k = check_count(k, "k")
        if not callable(getattr(neighbours, "search", None)):
            name = type(neighbours).__name__
            raise UserError(f"neighbours must be an engine with search(queries, k), but got {name}; build one first.")
        approximate = self.snapshot()
        engine = Approximation(neighbours, k, approximate._rows.ids)
        approximate._state = replace(approximate._state, approximation=engine)
        return approximate

    def set_n_prototypes(self, n_prototypes: int) -> None:
        """Change how many prototypes make 95 % of a decision by sparsemax, in the median, without training.

        Parameters
        ----------
        n_prototypes : int
            How many at the most.

        Raises
        ------
        UserError
            If the model's `normalize` is not "sparsemax", or `n_prototypes` is below 1.

        Notes
        -----
        This lowers or raises the temperature t of the scores K q / (sqrt(d_att) t) in eq. 1: one number of the model,
        which every database of that model follows (`without`, `condense`). Nothing stored goes stale. It is saved with
        the model, so save a classifier again to keep it. Confidence changes too: calibrate and choose thresholds after
        this.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.set_n_prototypes(3)
        >>> attention = clf.database_.attend(clf.database_.rows.queries)
        >>> int(attention.counts(0.95).median()) <= 3
        True
        """
        if self.model.normalize != "sparsemax":
            raise UserError(
                f"set_n_prototypes needs normalize='sparsemax', but it is {self.model.normalize!r}: no weight is 0."
            )
        n_prototypes = check_count(n_prototypes, "n_prototypes")
        self._require_current_model()
        self._sharpen(n_prototypes)

    def choose_readings(self, n_prototypes: int, typical_only: bool, *, held_out: Tensor) -> None:
        """Let so many prototypes decide, and read confidence and probabilities as suits the rows at `held_out` best.

        They are at most as many as a class has rows: of more, some would have to be of other classes. Where there are
        no more candidates than that anyway, weights are not made flatter until all of them decide.
        """
        self.readings = Readings(1.0, typical_only=typical_only)
        self._sharpen_within_classes(n_prototypes, held_out)
        self.readings = choose_readings(self, held_out)

    def take_over_readings(self, n_prototypes: int, other: VariantMethods) -> None:
        """Let so many prototypes decide, and read confidence and probabilities as another database of these rows does.

        The other's model has not learned some of the rows, and by these its readings were chosen; this one's has.
        """
        assert other.readings is not None, "there is nothing to take over"
        self.readings = other.readings
        self._sharpen_within_classes(n_prototypes)
        self.readings = readings_taken_over(self, other.readings, self.temperature / other.temperature)

    def _sharpen_within_classes(self, n_prototypes: int, held_out: Tensor | None = None) -> None:
        of_a_class = max(1, len(self) // len(self.classes))
        self._sharpen(min(n_prototypes, of_a_class), held_out, flatten=len(self) > n_prototypes)

    def _sharpen(self, n_prototypes: int, held_out: Tensor | None = None, *, flatten: bool = True) -> None:
        """Give the model the temperature for so many prototypes, counted on these rows where they are enough."""
        state, highest = self._state, HIGHEST if flatten else 1.0
        queries = state.asked(state.rows.queries)
        found = temperature_for(queries, state.searchable, n_prototypes, at_most=highest, held_out=held_out)
        self.model.temperature.fill_(found)

    def _fewer(self, positions: np.ndarray) -> Self:
        """Return a database of the rows at these positions; among fewer, the flat reading is another."""
        fewer = self._with(self._rows.at(positions))
        if self.readings is not None:
            fewer.readings = choose_readings(fewer, torch.arange(0))
        return fewer

    def _with(self, rows: Rows) -> Self:
        other = self.snapshot()
        other._become(rows, other._next_id)
        return other

    def _removal(self, indices: Indices) -> edits.Removed:
        rows = self._rows
        ids = np.unique(rows.ids[rows.positions(indices)])
        if len(ids) == len(rows):
            raise UserError("a database must keep at least one candidate, but all were to be removed; keep some.")
        return edits.Removed(ids)

    def _relabelling(self, indices: Indices, labels: Any) -> edits.Relabelled:
        rows = self._rows
        positions = rows.positions(indices)
        codes = self.classes.encode(np.atleast_1d(as_array(labels, "labels").astype(object))).numpy()
        if len(codes) not in (1, len(positions)):
            raise UserError(f"labels must be one or {len(positions)}, as many as indices, but got {len(codes)}.")
        return edits.Relabelled(rows.ids[positions], np.broadcast_to(codes, len(positions)).copy())
