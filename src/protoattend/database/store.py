"""CandidateDatabase: real, labelled samples that decisions are made of; it can be edited without retraining."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.core.model import Encoded, ProtoAttend
from protoattend.data.inputs import Inputs, count_rows, require_rows, take_rows
from protoattend.data.labels import Classes
from protoattend.data.samples import Samples, chunks
from protoattend.data.weights import check_weights
from protoattend.database import files
from protoattend.database.search import Decisions, Prototypes, Searchable, decide, prototypes
from protoattend.encoders.build import rows_at_once
from protoattend.errors import StaleDatabase, UserError

TENSORS = ("labels", "queries", "keys", "values", "edited", "weights")


@dataclass(frozen=True)
class Rows:
    """The rows of a database as arrays of one length; an edit makes a new one.

    `ids` are stable and ascending: the row of the training X, then numbers of their own for added rows.
    `edited` marks rows whose label was given by a person after training; `weights` is how many times a row counts.
    """

    ids: np.ndarray
    labels: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    source: np.ndarray
    edited: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, keep: np.ndarray) -> Rows:
        chosen = torch.from_numpy(keep)
        return Rows(
            self.ids[keep],
            self.labels[chosen],
            self.queries[chosen],
            self.keys[chosen],
            self.values[chosen],
            self.source[keep],
            self.edited[chosen],
            self.weights[chosen],
        )

    def followed_by(self, other: Rows) -> Rows:
        return Rows(
            np.concatenate([self.ids, other.ids]),
            torch.cat([self.labels, other.labels]),
            torch.cat([self.queries, other.queries]),
            torch.cat([self.keys, other.keys]),
            torch.cat([self.values, other.values]),
            np.concatenate([self.source, other.source]),
            torch.cat([self.edited, other.edited]),
            torch.cat([self.weights, other.weights]),
        )


class CandidateDatabase:
    """The candidates of one trained model, with labels, that can be searched, edited, saved and opened.

    Rows are named by their index: the row of the training X, and new numbers for rows added later. `add`, `remove` and
    `relabel` act on the next prediction; each happens wholly or, with an error, not at all.
    """

    def __init__(self, model: ProtoAttend, inputs: Inputs, classes: Classes, rows: Rows) -> None:
        self.model = model
        self.inputs = inputs
        self.classes = classes
        self.fingerprint = fingerprint(model)
        self._rows = rows
        self._next_id = int(rows.ids[-1]) + 1 if len(rows) else 0
        self._searchable = self._make_searchable(rows)

    @classmethod
    def build(
        cls,
        model: ProtoAttend,
        X: Any,
        y: Any,
        *,
        inputs: Inputs,
        classes: Classes,
        weights: Any = None,
        on_batch: Callable[[int], None] = lambda done: None,
        encoded: Encoded | None = None,
    ) -> CandidateDatabase:
        """Encode samples with their labels into a database; `on_batch` hears how many are done.

        A row counts as many times as its weight says, and one of weight 0 is left out; None is once each. Where the
        model has `encoded` the other rows already, they are taken as they are.
        """
        counts = check_weights(weights, count_rows(X))
        ids = np.flatnonzero(counts)
        source = inputs.source(take_rows(X, ids))
        if encoded is None:
            encoded = encode(model, inputs.tensor(source), on_batch)
        rows = Rows(
            ids,
            classes.encode(take_rows(y, ids)),
            encoded.queries,
            encoded.keys,
            encoded.values,
            source,
            edited=torch.zeros(len(ids), dtype=torch.bool),
            weights=torch.from_numpy(counts[ids]),
        )
        database = cls(model, inputs, classes, rows)
        database._next_id = len(counts)  # the last rows may be left out, and yet their numbers are taken
        return database

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], model: ProtoAttend, *, inputs: Inputs, classes: Classes
    ) -> CandidateDatabase:
        """Open a saved database for the model that made it."""
        meta, arrays = files.read(Path(folder))
        if meta["fingerprint"] != fingerprint(model):
            raise StaleDatabase(
                f"a database must be used with the model that made it, but {folder} was made by model "
                f"{meta['fingerprint'][:12]} and this one is {fingerprint(model)[:12]}; rebuild it with "
                "CandidateDatabase.build(model, X, y, inputs=..., classes=...)."
            )
        tensors = {name: torch.from_numpy(arrays[name]) for name in TENSORS}
        database = cls(model, inputs, classes, Rows(ids=arrays["ids"], source=arrays["source"], **tensors))
        database._next_id = meta["next_id"]
        return database

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the database into `folder`, wholly or not at all."""
        rows = self._rows
        arrays = {
            "ids": rows.ids,
            "source": rows.source,
            **{name: getattr(rows, name).numpy() for name in TENSORS},
        }
        files.write(Path(folder), arrays, {"fingerprint": self.fingerprint, "next_id": self._next_id})

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"CandidateDatabase({len(self):,} candidates of {len(self.classes)} classes)"

    @property
    def indices(self) -> np.ndarray:
        """The index of every row, ascending."""
        return self._rows.ids.copy()

    @property
    def labels(self) -> np.ndarray:
        """The label of every row, in the order of `indices`."""
        return self.classes.decode(self._rows.labels)

    @property
    def weights(self) -> np.ndarray:
        """How many times every row counts, in the order of `indices`."""
        return self._rows.weights.numpy().copy()

    def exhibit(self, index: int) -> Any:
        """Return the sample at `index` in the form a person is shown."""
        return self.inputs.exhibit(self._rows.source[self._positions([index])[0]])

    def add(self, X: Any, y: Any) -> np.ndarray:
        """Add samples as candidates; return their indices."""
        require_rows(X)
        source = self.inputs.source(X)
        labels = self.classes.encode(y)
        if len(source) != len(labels):
            raise UserError(f"X and y must be of one length, but X has {len(source)} rows and y has {len(labels)}.")
        self._require_same_form(source)
        self._require_current_model()
        encoded = encode(self.model, self.inputs.tensor(source))
        ids = np.arange(self._next_id, self._next_id + len(source))
        edited = torch.ones(len(source), dtype=torch.bool)
        weights = torch.ones(len(source))
        new = Rows(ids, labels, encoded.queries, encoded.keys, encoded.values, source, edited, weights)
        self._replace(self._rows.followed_by(new))
        self._next_id += len(source)
        return ids

    def remove(self, indices: Sequence[int] | np.ndarray | int) -> None:
        """Remove candidates; their indices are not given out again."""
        positions = self._positions(indices)
        keep = np.ones(len(self), dtype=bool)
        keep[positions] = False
        if not keep.any():
            raise UserError("a database must keep at least one candidate, but all were to be removed; keep some.")
        self._replace(self._rows.at(np.flatnonzero(keep)))

    def relabel(self, indices: Sequence[int] | np.ndarray | int, labels: Any) -> None:
        """Give candidates new labels: one for all of them, or one each."""
        positions = torch.from_numpy(self._positions(indices))
        codes = self.classes.encode(np.atleast_1d(np.asarray(labels, dtype=object)))
        if len(codes) not in (1, len(positions)):
            raise UserError(f"labels must be one or {len(positions)}, as many as indices, but got {len(codes)}.")
        labels_now, edited = self._rows.labels.clone(), self._rows.edited.clone()
        labels_now[positions] = codes
        edited[positions] = True
        self._replace(replace(self._rows, labels=labels_now, edited=edited))

    def relocate(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> int:
        """Take candidates kept as files under the folder `old` from `new` instead; return how many there are."""
        before, after = Path(old).absolute(), Path(new).absolute()
        paths = [path if isinstance(path, str) else "" for path in self._rows.source.tolist()]
        moved = [i for i, path in enumerate(paths) if Path(path).is_relative_to(before)]
        if not moved:
            raise UserError(f"candidates must lie under {before}, but none does; check the path of the old folder.")
        source = self._rows.source.copy()
        for i in moved:
            source[i] = str(after / Path(paths[i]).relative_to(before))
            if not Path(source[i]).is_file():
                raise UserError(
                    f"every moved file must lie under {after}, but {source[i]} does not exist; move it too."
                )
        self._rows = replace(self._rows, source=source)
        return len(moved)

    def decide(self, queries: Tensor, *, own: Tensor | None = None) -> Decisions:
        """Return logits, class mass and largest score of queries `(B, d_att)`, by exact attention over all rows."""
        return decide(queries, self._searchable, normalize=self.model.normalize, own=own)

    def prototypes(self, queries: Tensor, *, own: Tensor | None = None) -> list[Prototypes]:
        """Return each query's candidates of non-zero weight, by position in `rows`."""
        return prototypes(queries, self._searchable, normalize=self.model.normalize, own=own)

    @property
    def rows(self) -> Rows:
        """The present rows; they never change, an edit replaces them."""
        return self._rows

    @property
    def class_scores(self) -> Tensor:
        """What every row adds to the logits of a decision that rests on it alone `(D, C)`, heeding edits."""
        return self._searchable.class_scores

    def _positions(self, indices: Sequence[int] | np.ndarray | int) -> np.ndarray:
        wanted = np.atleast_1d(np.asarray(indices))
        if wanted.dtype.kind not in "iu":
            raise UserError(f"indices must be integers, but got {wanted.dtype}: {wanted[:5].tolist()}.")
        positions = np.searchsorted(self._rows.ids, wanted)
        found = self._rows.ids[np.minimum(positions, len(self) - 1)] == wanted
        if not found.all():
            raise UserError(
                f"every index must be in the database, but {wanted[~found][:5].tolist()} are not (removed, or never "
                f"there); it has {len(self)} rows with indices {self._rows.ids[0]} to {self._rows.ids[-1]}."
            )
        return positions

    def _require_same_form(self, source: np.ndarray) -> None:
        own = self._rows.source
        if (source.dtype == object) != (own.dtype == object):
            kept, given = ("files", "an array") if own.dtype == object else ("arrays", "image files")
            fix = "an ImageFiles" if own.dtype == object else "numpy.asarray(X)"
            raise UserError(f"this database keeps its images as {kept}, but X is {given}; pass {fix}.")

    def _replace(self, rows: Rows) -> None:
        self._searchable, self._rows = self._make_searchable(rows), rows

    def _make_searchable(self, rows: Rows) -> Searchable:
        class_scores = rows.values @ self.model.decision.weight.detach().cpu().T
        class_scores = _heeding_edits(class_scores, rows.labels, rows.edited)
        weights = None if bool((rows.weights == 1).all()) else rows.weights  # unweighted search is the faster one
        return Searchable(rows.keys, class_scores, rows.labels, weights)

    def _require_current_model(self) -> None:
        if fingerprint(self.model) != self.fingerprint:
            raise StaleDatabase(
                "the model has changed since this database was built, so new rows would not fit the old ones; rebuild "
                "it with CandidateDatabase.build or fit again."
            )


def fingerprint(model: ProtoAttend) -> str:
    """Return a hash of every parameter and buffer: equal exactly for models that encode alike."""
    digest = hashlib.sha256(model.normalize.encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        flat = value.detach().cpu().contiguous().view(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())  # as bytes, for numpy knows no bfloat16
    return digest.hexdigest()


def _heeding_edits(class_scores: Tensor, labels: Tensor, edited: Tensor) -> Tensor:
    """Let rows that a person added or relabelled argue for the label the person gave.

    Values come from the encoder, which never saw that label. Where a row's largest class score is at another class, the
    two scores change places: it argues for its new label as strongly as it did for the old one.
    """
    rows = edited.nonzero().squeeze(1)
    heeded = class_scores.clone() if len(rows) else class_scores
    argued, given = class_scores[rows].argmax(1), labels[rows]
    heeded[rows, given] = class_scores[rows, argued]
    other = argued != given
    heeded[rows[other], argued[other]] = class_scores[rows[other], given[other]]
    return heeded


def encode(model: ProtoAttend, samples: Samples, on_batch: Callable[[int], None] = lambda done: None) -> Encoded:
    """Return queries, keys and values of all samples, on the CPU, without gradient."""
    parts = list(_encode_batches(model, samples, on_batch))
    return Encoded(*(torch.cat([getattr(part, name) for part in parts]) for name in ("queries", "keys", "values")))


def _encode_batches(model: ProtoAttend, samples: Samples, on_batch: Callable[[int], None]) -> Iterator[Encoded]:
    device = next(model.parameters()).device
    size = rows_at_once(model.encoder, device)
    model.eval()
    done = 0
    with torch.no_grad():
        for x in chunks(samples, size):
            encoded = model.encode(x.to(device))
            yield Encoded(encoded.queries.cpu(), encoded.keys.cpu(), encoded.values.cpu())
            done += len(x)
            on_batch(done)
