"""CandidateDatabase: real, labelled samples that decisions are made of; it can be edited without retraining."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoattend.core.model import ProtoAttend
from protoattend.data.inputs import Inputs, count_rows, require_rows, take_rows
from protoattend.data.labels import Classes
from protoattend.data.weights import check_weights
from protoattend.database import condense
from protoattend.database.approximate import Approximation, Neighbours
from protoattend.database.encode import decision_weight, encode, fingerprint
from protoattend.database.n_prototypes import temperature_for
from protoattend.database.previews import kept_alike, require_same_form, with_excerpts
from protoattend.database.quantize import Quantization
from protoattend.database.reading import ReadableDatabase
from protoattend.database.rows import Blocks, Indices, Rows, heeding_labels, unedited_rows
from protoattend.database.storage import edit_log as edits
from protoattend.database.storage import folder as on_disk
from protoattend.errors import StaleDatabase, UserError
from protoattend.folders import alone


class CandidateDatabase(ReadableDatabase):
    """The candidates of one trained model, with labels, that can be searched, edited, saved and opened.

    Rows are named by their index: the row of the training X, and new numbers for rows added later. `add`, `remove` and
    `relabel` act on the next prediction; each happens wholly or, with an error, not at all.
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
    ) -> None:
        super().__init__(model, inputs, classes, rows, rounding)
        self.fingerprint = model_fingerprint or fingerprint(model)
        self._next_id = next_id
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
        """Encode samples with their labels into a database; `on_batch` hears how many are done.

        A row counts as many times as `sample_weight` says, and one of weight 0 is left out; None is once each.
        """
        counts = check_weights(sample_weight, count_rows(X))
        ids = np.flatnonzero(counts)
        source = inputs.source(take_rows(X, ids))
        encoded = encode(model, inputs.tensor(source), on_batch)
        labels = classes.encode(take_rows(y, ids))
        rows = unedited_rows(counts, labels, encoded, decision_weight(model), source=source)
        return cls(model, inputs, classes, rows, next_id=len(counts))  # rows left out keep their numbers

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], model: ProtoAttend, *, inputs: Inputs, classes: Classes
    ) -> CandidateDatabase:
        """Open a saved database for the model that made it, in milliseconds whatever its size.

        Columns are memory-mapped, and the edits in the log are applied. Every file must be there in its full size;
        checksums are checked of the log and of files up to 1 MB, and of all by `verify`.
        """
        path = Path(folder)
        home = edits.Home.of(path)  # first: what is changed while it is read is then found out when edits are saved
        meta, own, decision = on_disk.read_folder_meta(path), fingerprint(model), decision_weight(model)
        if (made_by := meta["fingerprint"]) != own:
            raise StaleDatabase(
                f"a database must be used with the model that made it, but {folder} was made by {made_by[:12]} "
                f"and this one is {own[:12]}; rebuild it with CandidateDatabase.build(model, X, y, ...)."
            )
        rows, next_id, log = on_disk.read_folder(path, meta, decision), meta["next_id"], list(edits.read_log(path))
        for edit in log:
            rows = edit.apply(rows, decision)
            next_id = int(rows.ids[-1]) + 1 if isinstance(edit, edits.Added) else next_id
        rounding = Quantization.from_state(meta.get("rounding"))
        database = cls(model, inputs, classes, rows, next_id=next_id, model_fingerprint=own, rounding=rounding)
        database._home = replace(home, edits=len(log))
        return database

    def save(self, folder: str | os.PathLike[str], *, excerpts: bool = False) -> None:
        """Write the database into `folder`, wholly or not at all.

        With `excerpts` the samples stay where they are: in their place the folder has thumbnails of images, with the
        paths of files, and the first 200 characters of texts. A table's rows are kept as they are.
        """
        self._require_current_model()
        columns = on_disk.columns_of(self._rows)
        if excerpts:
            columns = with_excerpts(columns, self._rows, self.inputs)
        rounding = None if self.rounding is None else self.rounding.state()
        meta = {"fingerprint": self.fingerprint, "next_id": self._next_id, "rounding": rounding}
        on_disk.write_folder(Path(folder), len(self), columns, meta)

    def save_edits(self) -> int:
        """Append the edits since `open` to the log in the database's folder; return how many.

        Each edit is written wholly or not at all. Processes that do this at once wait for one another; where another
        has edited the folder since it was opened, that is an error, and the edits stay unsaved.
        """
        home, unsaved = self._require_home(), self._unsaved
        with alone(home.folder):
            for edit in unsaved:
                home = self._home = edits.append(home, edit)
                self._unsaved = self._unsaved[1:]
        return len(unsaved)

    def compact(self) -> None:
        """Write the folder again with all edits in its columns, so that it opens without a log; wholly or not."""
        home = self._require_home()
        with alone(home.folder):
            edits.require_unchanged(home)
            self.save(home.folder)
        self._home, self._unsaved = edits.Home.of(home.folder), ()
        self._become(
            on_disk.read_folder(home.folder, on_disk.read_folder_meta(home.folder), decision_weight(self.model))
        )

    def verify(self) -> None:
        """Read every file of the database's folder and raise unless all match their checksums."""
        folder = self._require_home().folder
        on_disk.verify_folder(folder, decision_weight(self.model))
        list(edits.read_log(folder))  # which checks every file

    def save_shard(self, folder: str | os.PathLike[str], number: int, of: int) -> None:
        """Write the database as shard `number` (from 0) `of` several in `folder`: many processes can, each its own.

        Shards follow one another as the rows of X do; `merge` makes one database of them.
        """
        self.save(Path(folder) / on_disk.shard_name(number, of))

    @staticmethod
    def merge(shards: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
        """Make one database in `folder` of all shards in `shards`; indices go on from shard to shard."""
        on_disk.merge_shards(Path(shards), Path(folder))

    def __repr__(self) -> str:
        return f"CandidateDatabase({len(self):,} candidates of {len(self.classes)} classes)"

    def add(self, X: Any, y: Any) -> np.ndarray:
        """Add samples as candidates; return their indices."""
        require_rows(X)
        source = self.inputs.source(X)
        labels = self.classes.encode(y)
        if len(source) != len(labels):
            raise UserError(f"X and y must be of one length, but X has {len(source)} rows and y has {len(labels)}.")
        require_same_form(source, self._rows)
        self._require_current_model()
        encoded = encode(self.model, self.inputs.tensor(source))
        ids = np.arange(self._next_id, self._next_id + len(source))
        new = Rows(
            ids,
            labels,
            encoded.keys if self.rounding is None else self.rounding.round(encoded.keys),
            heeding_labels(encoded.values @ decision_weight(self.model).T, labels),
            edited=torch.ones(len(ids), dtype=torch.bool),
            sample_weight=torch.ones(len(ids)),
            blocks=Blocks((kept_alike(self._rows, self.inputs, source, encoded),)),
        )
        self._edit(edits.Added(new))
        self._next_id += len(source)
        return ids

    def remove(self, indices: Indices) -> None:
        """Remove candidates; their indices are not given out again."""
        self._edit(self._removal(indices))

    def relabel(self, indices: Indices, labels: Any) -> None:
        """Give candidates new labels: one for all of them, or one each."""
        positions = self._rows.positions(indices)
        codes = self.classes.encode(np.atleast_1d(np.asarray(labels, dtype=object))).numpy()
        if len(codes) not in (1, len(positions)):
            raise UserError(f"labels must be one or {len(positions)}, as many as indices, but got {len(codes)}.")
        self._edit(edits.Relabelled(self._rows.ids[positions], np.broadcast_to(codes, len(positions)).copy()))

    def without(self, indices: Indices) -> CandidateDatabase:
        """Return a database that lacks these candidates; this one stays as it is."""
        return self._with(self._removal(indices).apply(self._rows, decision_weight(self.model)))

    def with_labels(self, labels: Mapping[int, Any]) -> CandidateDatabase:
        """Return a database whose candidates have other labels, {index: label}; this one stays as it is."""
        supposed = self._with(self._rows)
        if labels:
            supposed.relabel(list(labels), list(labels.values()))
        return supposed

    def condense(self, n: int) -> CandidateDatabase:
        """Return a database of the `n` candidates that decisions rest on most, of every class its share.

        They are those that get most attention from the rows themselves (database/condense.py). This one stays as it is.
        """
        return self._with(
            self._rows.at(condense.most_attended(condense.attention_received(self), self._rows.labels.numpy(), n))
        )

    def condense_within(self, loss: float) -> CandidateDatabase:
        """Return the smallest tried database that decides the rows at most `loss` less accurately than this one.

        Halves n until the accuracy on the rows, each without itself, has fallen by more than `loss` (0.01 is one
        percent point). Accuracy on unseen samples is close to that, not bound by it: check it.
        """
        return self._with(self._rows.at(condense.positions_within(self, loss)))

    def set_n_prototypes(self, n_prototypes: int) -> None:
        """Change how many prototypes make 95 % of a decision by sparsemax, in the median, without training.

        This sets the temperature of the model, which every database of that model follows (`without`, `condense`); it
        is saved with the model, so save a classifier again to keep it. Nothing stored goes stale. Confidence changes
        too: calibrate and choose thresholds after this.
        """
        if self.model.normalize != "sparsemax":
            raise UserError(
                f"set_n_prototypes needs normalize='sparsemax', but it is {self.model.normalize!r}: no weight is 0."
            )
        if not (isinstance(n_prototypes, (int, np.integer)) and n_prototypes >= 1):
            raise UserError(f"n_prototypes must be an integer of at least 1, but got {n_prototypes!r}.")
        self._require_current_model()
        rows = self._rows
        self.model.temperature.fill_(
            temperature_for(self._asked(rows.queries), rows.keys, rows.sample_weight, int(n_prototypes))
        )

    def relocate(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> int:
        """Take candidates kept as files under the folder `old` from `new` instead; return how many there are."""
        edit = edits.Relocated.checked(self._rows, old, new)
        count = len(edit.moved(self._rows))
        self._edit(edit)
        return count

    def quantize_keys(self, dtype: str) -> CandidateDatabase:
        """Return a database with keys as "float16" or "int8", a half or a quarter of their memory.

        Decisions have exact=False; `rounding.score_error(queries, temperature)` states how far any score can be off. An
        engine for `approximate` must be built from the rounded database itself.
        """
        if self.rounding is not None:
            raise UserError(f"keys must be rounded once, but they are {self.rounding.dtype}; round the original ones.")
        rounding = Quantization.of(self._rows.keys, dtype)
        rounded = self._with(replace(self._rows, keys=rounding.round(self._rows.keys)))
        rounded.rounding = rounding
        return rounded

    def approximate(self, neighbours: Neighbours, k: int = 256) -> CandidateDatabase:
        """Return a database that attends to the `k` candidates an engine finds, exactly among those; edits end that.

        Its decisions have exact=False and say how much they may have missed (database/approximate.py).
        """
        if k < 1:
            raise UserError(f"k must be at least 1, but got {k}; it is how many candidates the engine is asked for.")
        approximate = self._with(self._rows)
        approximate._approximation = Approximation(neighbours, k, self._rows.ids)
        return approximate

    def _removal(self, indices: Indices) -> edits.Removed:
        ids = np.unique(self._rows.ids[self._rows.positions(indices)])
        if len(ids) == len(self):
            raise UserError("a database must keep at least one candidate, but all were to be removed; keep some.")
        return edits.Removed(ids)

    def _with(self, rows: Rows) -> CandidateDatabase:
        other = copy.copy(self)
        other._home, other._unsaved = None, ()
        other._become(rows)
        return other

    def _edit(self, edit: edits.Edit) -> None:
        self._become(edit.apply(self._rows, decision_weight(self.model)))
        self._unsaved += () if self._home is None else (edit,)

    def _require_home(self) -> edits.Home:
        if self._home is None:
            raise UserError(
                "only a database opened from a folder has a log of edits and checksums, but this one is in memory "
                "alone; call save(folder) and CandidateDatabase.open(folder, ...)."
            )
        return self._home

    def _require_current_model(self) -> None:
        if fingerprint(self.model) != self.fingerprint:
            raise StaleDatabase(
                "the model has changed since this database was built, so new rows would not fit the old ones; rebuild "
                "it with CandidateDatabase.build or fit again."
            )
