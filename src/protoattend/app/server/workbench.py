"""A classifier on the table: its rows and candidates decided, drafts of edits supposed, and edits saved.

All of it runs in one thread, so that nothing needs a lock; what is asked of it takes milliseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.app.server.problems import Refused
from protoattend.app.server.tables import Distances, Rows, Table
from protoattend.classifier import ProtoAttendClassifier
from protoattend.data.readers import LabelledData
from protoattend.database.encode import encode
from protoattend.database.store import CandidateDatabase
from protoattend.errors import BadFile, UserError
from protoattend.explain.against import speaking_against
from protoattend.explain.counterfactuals import suppose
from protoattend.explain.explanations import Explanation, explanations_of, outcomes, shown_prototypes

SUPPOSED = 4  # databases with drafts that are kept at hand
SHOWN = 8  # prototypes of a card


@dataclass(frozen=True)
class Drafts:
    """Edits that are not saved: candidates left out, and candidates with another class, by index."""

    removed: frozenset[int] = frozenset()
    relabelled: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.relabelled)


@dataclass(frozen=True)
class Decided:
    """An explained decision, the class mass that its confidence is read from, and how far out its input is."""

    explanation: Explanation
    support: np.ndarray
    far: float


@dataclass(frozen=True)
class Question:
    """What is asked about: a query with its value and preview, its known class and its index as a candidate."""

    query: Tensor
    value: Tensor
    preview: Any
    label: int = -1
    index: int | None = None


class Workbench:
    """A saved classifier with rows to look at: those of a file, or its own candidates."""

    def __init__(
        self,
        folder: Path,
        data: LabelledData | None = None,
        *,
        image_roots: Sequence[Path] = (),
        classifier: ProtoAttendClassifier | None = None,  # that of the folder, where it is open already
    ) -> None:
        self.folder, self._image_roots = folder, image_roots
        self.classifier = classifier or ProtoAttendClassifier.load(folder, image_roots=image_roots)
        self.version = 0
        self._supposed: OrderedDict[Drafts, CandidateDatabase] = OrderedDict()
        self._data = None if data is None else self._read(data)
        self._begin()

    @property
    def database(self) -> CandidateDatabase:
        return self.classifier.database_

    @property
    def shown(self) -> Table:
        """The rows that a person looks at first."""
        return self.data or self.candidates

    def unseen_images(self) -> str:
        """Return why training images cannot be shown; empty where they can, or where there are none."""
        if self.classifier.inputs_.kind == "images":
            try:
                np.asarray(self.database.preview_at(0))
            except BadFile as error:
                return str(error)
        return ""

    def table(self, name: str) -> Table:
        """Return "data" or "candidates"."""
        if name == "data" and self.data is None:
            raise Refused(404, "this server shows no data of its own, only candidates; start it with --data.")
        return self.shown if name == "data" else self.candidates

    def _begin(self) -> None:
        """Start all tables again: the database is another."""
        database = self.database
        self._supposed.clear()
        self.distances = Distances.of(database)
        width = database.rows.blocks.blocks[0].queries.shape[1]
        own = Rows(database.rows.ids, database.rows.labels.numpy(), database.preview_at)
        self.candidates = Table.empty(own, width)
        self.data = None if self._data is None else Table.empty(self._data, width)

    def step(self) -> bool:
        """Decide some rows more; False where all are known."""
        for table in (self.shown, self.candidates):
            if not table.finished:
                table.fill(self.database, self.distances)
                return True
        return False

    def _read(self, data: LabelledData) -> Rows:
        inputs, classes = self.classifier.inputs_, self.database.classes
        source = inputs.source(data.X)
        labels = np.full(len(source), -1)
        if data.y is not None:
            # A CSV and a Parquet file may differ in type; a class never seen stays unknown.
            numbers = {str(value): number for number, value in enumerate(classes.values.tolist())}
            labels = np.array([numbers.get(str(label), -1) for label in data.y.tolist()])
        return Rows(np.arange(len(source)), labels, lambda place: inputs.preview(source[place]), source)

    # -- asking -------------------------------------------------------------------------------------------------------

    def row(self, name: str, number: int) -> Question:
        """Return what is asked about one row of a table."""
        table = self.table(name)
        place = table.rows.place(number)
        if place is None:
            raise Refused(404, f"row must be one that is there, but there is no row {number}.")
        label, preview = int(table.rows.labels[place]), table.rows.preview(place)
        if table.rows.source is not None:
            return replace(self.input(table.rows.source[place : place + 1]), preview=preview, label=label)
        take, at = self.database.rows.blocks.take, np.array([place])
        return Question(take("queries", at), take("values", at), preview, label, index=number)

    def input(self, source: np.ndarray) -> Question:
        """Return what is asked about one new row, in its canonical form."""
        inputs = self.classifier.inputs_
        encoded = encode(self.classifier.model_, inputs.tensor(source))
        return Question(encoded.queries, encoded.values, inputs.preview(source[0]))

    def decide(self, asked: Question, drafts: Drafts) -> Decided:
        """Explain one decision with the drafts in effect, and say what is decided without them."""
        database = self.supposed(drafts)
        own = self._own(database, asked)
        found = database.attend(asked.query, own=own)
        (explained,) = explanations_of(database, found, [asked.preview], top=SHOWN)
        (against,) = speaking_against(database, asked.query, found.predicted, own=own)
        others = shown_prototypes(database, *against)
        label = None if asked.label < 0 else database.classes.values[self._label(asked, drafts)]
        before = None
        if drafts:
            as_it_is = self.database.decide(asked.query, own=self._own(self.database, asked))
            (before,) = outcomes(self.database, as_it_is)
        explanation = replace(explained, against=others, label=label, before=before)
        return Decided(explanation, found.support[0].numpy(), float(self.distances.p_values(asked.value)[0]))

    def supposed(self, drafts: Drafts) -> CandidateDatabase:
        """Return the database as it would be with these drafts."""
        if not drafts:
            return self.database
        if drafts not in self._supposed:
            names = self.database.classes.values
            labels = {index: names[self._class(number)] for index, number in drafts.relabelled}
            self._supposed[drafts] = suppose(
                self.database, without=sorted(drafts.removed) or None, with_labels=labels or None
            )
            if len(self._supposed) > SUPPOSED:
                self._supposed.popitem(last=False)
        self._supposed.move_to_end(drafts)
        return self._supposed[drafts]

    def _class(self, number: int) -> int:
        if not 0 <= number < len(self.database.classes):
            raise UserError(
                f"a class is a number from 0 to {len(self.database.classes) - 1}, as /api/model lists them, "
                f"but got {number}."
            )
        return number

    def _own(self, database: CandidateDatabase, asked: Question) -> Tensor | None:
        """Return where in the database the candidate is that is asked about, for it never argues for itself."""
        if asked.index is None:
            return None
        ids = database.rows.ids
        place = int(np.searchsorted(ids, asked.index))
        return torch.tensor([place if place < len(ids) and ids[place] == asked.index else -1])

    def _label(self, asked: Question, drafts: Drafts) -> int:
        return dict(drafts.relabelled).get(-1 if asked.index is None else asked.index, asked.label)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self, drafts: Drafts, version: int) -> int:
        """Write drafts to the database's log of edits; raise, with nothing written, where another was quicker."""
        if version != self.version:
            raise Refused(
                409, "these drafts were made for an earlier state of the database; look at them again and save."
            )
        if not drafts:
            return self.version
        self.supposed(drafts)  # so that what cannot be done is found out before anything is
        try:
            by_class: dict[int, list[int]] = {}
            for index, number in drafts.relabelled:
                by_class.setdefault(number, []).append(index)
            for number, indices in by_class.items():
                self.database.relabel(indices, [self.database.classes.values[number]])
            if drafts.removed:
                self.database.remove(sorted(drafts.removed))
            self.database.save_edits()
        except (UserError, OSError) as error:
            self._open_again()
            raise Refused(
                409, f"nothing was saved, and your drafts are kept: {error} The server shows what is there now."
            ) from None
        self.version += 1
        self._begin()
        return self.version

    def _open_again(self) -> None:
        self.classifier = ProtoAttendClassifier.load(self.folder, image_roots=self._image_roots)
        self.version += 1
        self._begin()
