"""CandidateDatabase: real, labelled samples that decisions are made of; it can be edited without retraining."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoattend.arguments import check_length
from protoattend.core.model import ProtoAttend
from protoattend.data.inputs import Inputs, count_rows, require_rows, take_rows
from protoattend.data.labels import Classes, column_of
from protoattend.data.weights import check_weights
from protoattend.database.encode import decision_weight, encode, fingerprint
from protoattend.database.mutex import Mutex
from protoattend.database.previews import kept_alike, require_same_form
from protoattend.database.quantize import Quantization
from protoattend.database.readings import Readings
from protoattend.database.rows import Blocks, Indices, Rows, heeding_labels, unedited_rows
from protoattend.database.saving import SavingMethods
from protoattend.database.storage import edit_log as edits
from protoattend.database.storage import folder as on_disk
from protoattend.errors import BadFile, StaleDatabase, UserError
from protoattend.folders import read_whole


class CandidateDatabase(SavingMethods):
    """The candidates of one trained model, with labels, that can be searched, edited, saved and opened.

    Made by `ProtoAttendClassifier.fit` as `database_`, by `build` or by `open`. Rows are named by their index: the row
    of the training X, and new numbers for rows added later. `add`, `remove` and `relabel` act on the next prediction;
    each happens wholly or, with an error, not at all. Threads may share a database: edits wait for one another, and
    whoever reads has the candidates of one moment; `snapshot` keeps these for several questions.

    Attributes
    ----------
    model : ProtoAttend
        The model that made the database.
    inputs : object
        How X is read.
    classes : Classes
        The labels in the order of class numbers, `classes.values`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> clf.database_.remove([0, 1])
    >>> clf.database_
    CandidateDatabase(176 candidates of 3 classes)
    """

    def __init__(
        self,
        model: ProtoAttend,
        inputs: Inputs,
        classes: Classes,
        rows: Rows,
        *,
        next_id: int,
        model_fingerprint: str | None = None,
        rounding: Quantization | None = None,
        readings: Readings | None = None,
    ) -> None:
        super().__init__(model, inputs, classes, rows, rounding, readings, next_id)
        self.fingerprint = model_fingerprint or fingerprint(model)
        self._writing = Mutex()
        self._home: edits.Home | None = None
        self._unsaved: tuple[edits.Edit, ...] = ()

    @classmethod
    def build(
        cls,
        model: ProtoAttend,
        X: Any,
        y: Any,
        *,
        inputs: Inputs,
        classes: Classes,
        sample_weight: Any = None,
        on_batch: Callable[[int], None] = lambda done: None,
    ) -> CandidateDatabase:
        """Encode samples with their labels into a database.

        Parameters
        ----------
        model : ProtoAttend
            A trained model.
        X : array-like, DataFrame, list of str or images
            n samples.
        y : array-like of shape (n,)
            Their labels.
        inputs : object
            How X is read, such as `clf.inputs_`.
        classes : Classes
            The labels there are, such as `clf.database_.classes`.
        sample_weight : array-like of shape (n,), default=None
            How many times each row counts; None is once each, and a row of sample weight 0 is left out.
        on_batch : callable, default=nothing
            Is called with the number of samples encoded so far.

        Returns
        -------
        database : CandidateDatabase
            Row i of X has index i.

        Raises
        ------
        UserError
            If X cannot be read by `inputs`, or a label is not one of `classes`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> CandidateDatabase.build(clf.model_, X[:50], y[:50], inputs=clf.inputs_, classes=clf.database_.classes)
        CandidateDatabase(50 candidates of 3 classes)
        """
        require_rows(X)
        counts, given = check_weights(sample_weight, count_rows(X)), column_of(y)
        ids = np.flatnonzero(counts)
        labels = classes.encode(check_length(given, "y", len(counts), "rows of X")[ids])
        source = inputs.source(take_rows(X, ids))
        encoded = encode(model, inputs.tensor(source), on_batch)
        rows = unedited_rows(counts, labels, encoded, decision_weight(model), source=source)
        return cls(model, inputs, classes, rows, next_id=len(counts))  # rows left out keep their numbers

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], model: ProtoAttend, *, inputs: Inputs, classes: Classes
    ) -> CandidateDatabase:
        """Open a saved database for the model that made it, in milliseconds whatever its size.

        Columns are memory-mapped, and the edits in the log are applied.

        Parameters
        ----------
        folder : path
            Where `save` or `merge` wrote it.
        model : ProtoAttend
            The model that made it.
        inputs : object
            How X is read, such as `clf.inputs_`.
        classes : Classes
            The labels there are, such as `clf.database_.classes`.

        Returns
        -------
        database : CandidateDatabase
            Its edits can be written by `save_edits`.

        Raises
        ------
        StaleDatabase
            If another model made it.
        BadFile
            If a file is missing or of another size, or a checksum of the log or of a file up to 1 MB does not match;
            `verify` compares those of all.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> with TemporaryDirectory() as folder:
        ...     clf.database_.save(folder)
        ...     CandidateDatabase.open(folder, clf.model_, inputs=clf.inputs_, classes=clf.database_.classes)
        CandidateDatabase(178 candidates of 3 classes)
        """
        path = Path(os.path.realpath(folder))
        return read_whole(path, lambda: cls._open(path, model, inputs, classes))

    @classmethod
    def _open(cls, folder: Path, model: ProtoAttend, inputs: Inputs, classes: Classes) -> CandidateDatabase:
        home = edits.Home.of(folder)
        meta, own, decision = on_disk.read_folder_meta(folder), fingerprint(model), decision_weight(model)
        if (made_by := meta["fingerprint"]) != own:
            raise StaleDatabase(
                f"a database must be used with the model that made it, but {folder} was made by {made_by[:12]} "
                f"and this one is {own[:12]}; rebuild it with CandidateDatabase.build(model, X, y, ...)."
            )
        saved = on_disk.read_folder(folder, meta, decision)
        rows, next_id, n_edits = edits.replay(folder, saved, meta["next_id"], decision)
        rounding = Quantization.from_state(meta.get("rounding"))
        readings = Readings.from_state(meta.get("readings"))
        bars = None if readings is None else readings.familiar_from
        if bars is not None and len(bars) != len(classes):
            raise BadFile(
                f"{folder}: readings.familiar_from must be of all {len(classes)} classes; restore the folder."
            )
        database = cls(
            model,
            inputs,
            classes,
            rows,
            next_id=next_id,
            model_fingerprint=own,
            rounding=rounding,
            readings=readings,
        )
        database._home = replace(home, edits=n_edits)
        return database

    def __repr__(self) -> str:
        return f"CandidateDatabase({len(self):,} candidates of {len(self.classes)} classes)"

    def add(self, X: Any, y: Any) -> np.ndarray:
        """Add samples as candidates, without training.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n samples, of the kind the database has.
        y : array-like of shape (n,)
            Their labels, of classes known in training.

        Returns
        -------
        indices : ndarray of int of shape (n,)
            What the new rows are called; no index is given twice.

        Raises
        ------
        UserError
            If X cannot be read, X and y differ in length, or a label is unknown.
        StaleDatabase
            If the model has changed since the database was built.

        Notes
        -----
        A value comes from the encoder, which never saw this label; where its largest class score is at another class,
        the two scores change places, so that the row argues for its label.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X[::2], y[::2])
        >>> clf.database_.add(X[1:5:2], y[1:5:2])
        array([89, 90])
        """
        require_rows(X)
        source = self.inputs.source(X)
        labels = self.classes.encode(y)
        if len(source) != len(labels):
            raise UserError(f"X and y must be of one length, but X has {len(source)} rows and y has {len(labels)}.")
        require_same_form(source, self._rows)
        self._require_current_model()
        encoded = encode(self.model, self.inputs.tensor(source))
        class_scores = heeding_labels(encoded.values @ decision_weight(self.model).T, labels)
        with self._writing:
            state = self._state
            ids = np.arange(state.next_id, state.next_id + len(source))
            new = Rows(
                ids,
                labels,
                encoded.keys if state.rounding is None else state.rounding.round(encoded.keys),
                class_scores,
                edited=torch.ones(len(ids), dtype=torch.bool),
                sample_weight=torch.ones(len(ids)),
                blocks=Blocks((kept_alike(state.rows, self.inputs, source, encoded),)),
            )
            self._edit(edits.Added(new))
        return ids

    def remove(self, indices: Indices) -> None:
        """Remove candidates.

        Parameters
        ----------
        indices : int or sequence of int
            What the rows are called; these indices are not given out again.

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
        >>> clf.database_.remove([0, 2])
        >>> clf.database_.indices[:3]
        array([1, 3, 4])
        """
        with self._writing:
            self._edit(self._removal(indices))

    def relabel(self, indices: Indices, labels: Any) -> None:
        """Give candidates other labels; each row argues for its new one.

        Parameters
        ----------
        indices : int or sequence of int
            What the rows are called.
        labels : label or array-like of labels
            One for all rows, or one each, of classes known in training.

        Raises
        ------
        UserError
            If an index is not in the database, a label is unknown, or there are not one or as many labels as indices.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.relabel([0, 1], 2)
        >>> clf.database_.labels[:3]
        array([2, 2, 0])
        """
        with self._writing:
            self._edit(self._relabelling(indices, labels))

    def _require_current_model(self) -> None:
        if fingerprint(self.model) != self.fingerprint:
            raise StaleDatabase(
                "the model has changed since this database was built, so new rows would not fit the old ones; rebuild "
                "it with CandidateDatabase.build or fit again."
            )
