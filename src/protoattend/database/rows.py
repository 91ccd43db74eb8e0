"""The rows of a database: columns of one length that never change; an edit makes new ones.

Search reads labels, keys, class scores and sample weights. Queries, values and samples are read now and then only, so
they stay in the blocks they came in, which may lie on disk, and an edit copies none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import as_array
from protoattend.core.model import Encoded
from protoattend.database.storage.texts import Texts
from protoattend.errors import MissingSamples, UserError

Indices = Sequence[int] | np.ndarray | int
RUNS = 1000  # with more rows removed than this, rows are copied one by one


@dataclass(frozen=True)
class Block:
    """Rows as they came: queries `(n, d_att)`, values `(n, d_out)` and the samples in their canonical form.

    `excerpts` are what is shown of the samples where these are not at hand: `source` is None then, or paths of files.
    """

    queries: Tensor
    values: Tensor
    source: np.ndarray | Texts | None
    excerpts: np.ndarray | Texts | None = None

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True)
class Blocks:
    """Several blocks laid end to end, of which the rows at `chosen` are meant; None means all of them."""

    blocks: tuple[Block, ...]
    chosen: np.ndarray | None = None

    @property
    def of_samples(self) -> tuple[str, ...]:
        """The columns there are of the samples: "source", "excerpts", or both."""
        names = ("source", "excerpts")
        return tuple(name for name in names if all(getattr(block, name) is not None for block in self.blocks))

    def as_one(self) -> Block:
        """Return the rows meant as a single block."""
        return Block(**{"source": None} | {name: self.take(name) for name in ("queries", "values", *self.of_samples)})

    def at(self, positions: np.ndarray) -> Blocks:
        return Blocks(self.blocks, positions if self.chosen is None else self.chosen[positions])

    def followed_by(self, other: Blocks) -> Blocks:
        if self.chosen is None and other.chosen is None:
            return Blocks(self.blocks + other.blocks)
        return Blocks(self.blocks + other.blocks, np.concatenate([self._places(), other._places() + self._laid()]))

    def take(self, column: str, positions: np.ndarray | None = None) -> Any:
        """Return a column at some positions, or whole: uncopied where it lies in one block as it is."""
        columns = [getattr(block, column) for block in self.blocks]
        if positions is None and self.chosen is None and len(columns) == 1:
            return columns[0]
        places = self._places(positions)
        starts = np.cumsum([0, *map(len, self.blocks)])
        number = np.searchsorted(starts, places, side="right") - 1
        kinds = [np.asarray(part[:0]).dtype for part in columns]
        gathered = np.empty((len(places), *columns[0].shape[1:]), dtype=np.result_type(*kinds))
        for i in np.unique(number):
            mine = number == i
            gathered[mine] = np.asarray(columns[i][places[mine] - starts[i]])
        return torch.from_numpy(gathered) if isinstance(columns[0], Tensor) else gathered

    def _laid(self) -> int:
        return sum(map(len, self.blocks))

    def _places(self, positions: np.ndarray | None = None) -> np.ndarray:
        if self.chosen is None:
            return np.arange(self._laid()) if positions is None else positions
        return self.chosen if positions is None else self.chosen[positions]


@dataclass(frozen=True)
class Rows:
    """The columns of a database.

    `ids` are stable and ascending: the row of the training X, then numbers of their own for added rows. `class_scores`
    `(D, C)` are the decision on each row's value alone. `edited` marks rows whose label was given by a person after
    training; `sample_weight` is how many times a row counts.
    """

    ids: np.ndarray
    labels: Tensor
    keys: Tensor
    class_scores: Tensor
    edited: Tensor
    sample_weight: Tensor
    blocks: Blocks

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def queries(self) -> Tensor:
        return self.blocks.take("queries")

    @cached_property
    def values(self) -> Tensor:
        return self.blocks.take("values")

    @cached_property
    def source(self) -> np.ndarray:
        if "source" not in self.blocks.of_samples:
            raise MissingSamples(
                "whole samples are needed here, but this database was saved with excerpts=True and has none; use the "
                "classifier as it was fitted, or one saved without excerpts."
            )
        return self.blocks.take("source")[:]  # texts on disk become an array

    @property
    def of_texts(self) -> bool:
        """Whether samples are kept as texts, or as paths of files, rather than as numbers."""
        return getattr(self.blocks.blocks[0], self.blocks.of_samples[0]).dtype == object

    def positions(self, indices: Indices) -> np.ndarray:
        """Return where the rows of these indices are; one that does not exist is an error."""
        wanted = np.atleast_1d(as_array(indices, "indices"))
        if wanted.ndim > 1:
            raise UserError(f"indices must be one number or a list of them, but have shape {wanted.shape}.")
        if len(wanted) == 0:
            wanted = np.empty(0, dtype=int)
        if wanted.dtype.kind not in "iu":
            raise UserError(f"indices must be integers, but got {wanted.dtype}: {wanted[:5].tolist()}.")
        positions = np.searchsorted(self.ids, wanted)
        found = self.ids[np.minimum(positions, len(self) - 1)] == wanted
        if not found.all():
            raise UserError(
                f"every index must be in the database, but {wanted[~found][:5].tolist()} are not (removed, or never "
                f"there); it has {len(self)} rows with indices {self.ids[0]} to {self.ids[-1]}."
            )
        return positions

    def at(self, keep: np.ndarray) -> Rows:
        chosen = torch.from_numpy(keep)
        return _made(self.ids[keep], [column[chosen] for column in self._columns()], self.blocks.at(keep))

    def followed_by(self, other: Rows) -> Rows:
        pairs = zip(self._columns(), other._columns(), strict=True)
        ids = np.concatenate([self.ids, other.ids])
        return _made(ids, [torch.cat(pair) for pair in pairs], self.blocks.followed_by(other.blocks))

    def without(self, positions: np.ndarray) -> Rows:
        gone = np.unique(positions)
        keep = np.delete(np.arange(len(self)), gone)
        if len(gone) > RUNS:
            return self.at(keep)
        starts, ends = [0, *(gone + 1).tolist()], [*gone.tolist(), len(self)]
        runs = [slice(start, end) for start, end in zip(starts, ends, strict=True)]  # far quicker to copy than rows
        columns = [_cut(column, runs) for column in self._columns()]
        return _made(np.concatenate([self.ids[run] for run in runs]), columns, self.blocks.at(keep))

    @property
    def count_once(self) -> bool:
        """Whether every row counts once; one number that stands for all of them is looked at once."""
        return bool((self.sample_weight[:1] if self.sample_weight.stride(0) == 0 else self.sample_weight).eq(1).all())

    def relabelled(self, positions: np.ndarray, labels: Tensor, decision: Tensor) -> Rows:
        """Return rows whose labels at `positions` a person gave; `decision` `(C, d_out)` scores values."""
        rows = torch.from_numpy(positions)
        now, edited, class_scores = self.labels.clone(), self.edited.clone(), self.class_scores.clone()
        again = self.edited[rows]  # their class scores heed an earlier edit
        class_scores[rows[again]] = self.blocks.take("values", positions[again.numpy()]) @ decision.T
        now[rows], edited[rows] = labels, True
        class_scores[rows] = heeding_labels(class_scores[rows], now[rows])
        return replace(self, labels=now, edited=edited, class_scores=class_scores)

    def _columns(self) -> tuple[Tensor, ...]:
        return self.labels, self.keys, self.class_scores, self.edited, self.sample_weight


def _cut(column: Tensor, runs: list[slice]) -> Tensor:
    """Return these runs of a column, laid out as it is."""
    if column.ndim == 2 and not column.is_contiguous():
        return torch.cat([column.T[:, run] for run in runs], 1).T
    return torch.cat([column[run] for run in runs])


def _made(ids: np.ndarray, columns: list[Tensor], blocks: Blocks) -> Rows:
    labels, keys, class_scores, edited, sample_weight = columns
    return Rows(ids, labels, keys, class_scores, edited, sample_weight, blocks)


def unedited_rows(
    counts: np.ndarray, labels: Tensor, encoded: Encoded, decision: Tensor, *, source: np.ndarray
) -> Rows:
    """Return the rows of a new database: those of X that `counts` `(n,)` does not leave out.

    Labels, what the model has encoded, and `source` are of these rows alone; `decision` `(C, d_out)` scores values.
    """
    ids = np.flatnonzero(counts)
    return Rows(
        ids,
        labels,
        encoded.keys,
        encoded.values @ decision.T,
        edited=torch.zeros(len(ids), dtype=torch.bool),
        sample_weight=torch.from_numpy(counts[ids]),
        blocks=Blocks((Block(encoded.queries, encoded.values, source),)),
    )


def heeding_labels(class_scores: Tensor, labels: Tensor) -> Tensor:
    """Let rows that a person added or relabelled argue for the label the person gave.

    Values come from the encoder, which never saw that label. Where a row's largest class score is at another class, the
    two scores change places: it argues for its new label as strongly as it did for the old one.

    >>> heeding_labels(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([1]))
    tensor([[1., 3., 2.]])
    """
    rows = torch.arange(len(labels))
    argued = class_scores.argmax(1)
    heeded = class_scores.clone()
    heeded[rows, argued] = class_scores[rows, labels]
    heeded[rows, labels] = class_scores[rows, argued]
    return heeded
