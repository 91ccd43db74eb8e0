"""Edits of a database as data, applied to its rows, and the log of them beside its files.

Each edit in the log is a small folder, edits/00000001 and so on, written wholly or not at all. Opening applies them in
order; compacting writes the rows again and so ends the log.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import check_path
from protoattend.database.rows import Blocks, Rows
from protoattend.database.storage.checks import Form, require_known, require_values
from protoattend.database.storage.columns import in_pieces, read_columns, verify_columns, write_columns
from protoattend.database.storage.folder import (
    VERSION,
    columns_of,
    read_folder,
    read_folder_meta,
    require_columns,
    rows_of,
)
from protoattend.errors import BadFile, UserError
from protoattend.files.known import EDIT
from protoattend.files.meta import read_meta, write_meta
from protoattend.folders import atomic_folder


@dataclass(frozen=True)
class Added:
    rows: Rows

    def apply(self, rows: Rows, decision: Tensor) -> Rows:
        return rows.followed_by(self.rows)


@dataclass(frozen=True)
class Removed:
    ids: np.ndarray

    def apply(self, rows: Rows, decision: Tensor) -> Rows:
        return rows.without(np.searchsorted(rows.ids, self.ids))


@dataclass(frozen=True)
class Relabelled:
    """Class numbers `(n,)` that a person gave to the rows `ids` `(n,)`."""

    ids: np.ndarray
    labels: np.ndarray

    def apply(self, rows: Rows, decision: Tensor) -> Rows:
        return rows.relabelled(np.searchsorted(rows.ids, self.ids), torch.from_numpy(self.labels), decision)


@dataclass(frozen=True)
class Relocated:
    """Files moved from under one folder to another."""

    old: str
    new: str

    @classmethod
    def checked(cls, rows: Rows, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> Relocated:
        """Raise unless files of some rows lay under `old` and are there under `new`."""
        edit = cls(os.path.abspath(check_path(old, "old")), os.path.abspath(check_path(new, "new")))
        targets = [edit.target(rows.source[i]) for i in edit.moved(rows)]
        if not targets:
            raise UserError(f"candidates must lie under {edit.old}, but none does; check the path of the old folder.")
        for path in targets:
            if not os.path.isfile(path):
                raise UserError(f"every moved file must lie under {edit.new}, but {path} does not exist; move it too.")
        return edit

    def apply(self, rows: Rows, decision: Tensor) -> Rows:
        source = rows.source.copy()
        for i in self.moved(rows):
            source[i] = self.target(source[i])
        return replace(rows, blocks=Blocks((replace(rows.blocks.as_one(), source=source),)))

    def moved(self, rows: Rows) -> list[int]:
        """Return the positions of the rows concerned."""
        paths = enumerate(rows.source.tolist())
        return [i for i, path in paths if isinstance(path, str) and Path(path).is_relative_to(self.old)]

    def target(self, path: str) -> str:
        return str(Path(self.new) / Path(path).relative_to(self.old))


Edit = Added | Removed | Relabelled | Relocated


@dataclass(frozen=True)
class Home:
    """Where a database lies: `stamp` tells whether it is still the same, `edits` how many of its log are known."""

    folder: Path
    stamp: str
    edits: int = 0

    @classmethod
    def of(cls, folder: Path) -> Home:
        return cls(folder, _stamp(folder))


def append(home: Home, edit: Edit) -> Home:
    """Write an edit to the end of the log, wholly or not at all; edits of no rows need none. The folder is locked."""
    version = read_folder_meta(home.folder)["version"]
    if version != VERSION:
        raise UserError(f"{home.folder} has format version {version}, which has no log of edits; call compact() once.")
    if isinstance(edit, Removed | Relabelled) and len(edit.ids) == 0:
        return home
    with atomic_folder(_edit_folder(home.folder, home.edits + 1), EDIT) as fresh:
        write_meta(fresh, {"what": EDIT, "version": VERSION} | _write_edit(fresh, edit))
        require_unchanged(home)  # last: a folder that is saved again from here on takes `fresh` away with it
    return replace(home, edits=home.edits + 1)


def require_unchanged(home: Home) -> None:
    """Raise where the folder was edited or saved again since it was opened."""
    if _stamp(home.folder) != home.stamp or _edit_folder(home.folder, home.edits + 1).exists():
        raise UserError(
            f"{home.folder} must be as it was when it was opened, but it was edited or saved again since; open it "
            "again and repeat these edits, or save into another folder."
        )


def read_log(folder: Path) -> Iterator[Edit]:
    """Yield the edits in the log of a database, in order."""
    for path in _edit_folders(folder):
        meta = read_meta(path, EDIT, VERSION)
        verify_columns(path, meta["files"])  # a log is small
        columns = read_columns(path, meta["files"])
        if meta["kind"] == "added":
            require_columns(path, columns, meta["count"])
            yield Added(rows_of(columns))
        elif meta["kind"] == "relocated":
            yield Relocated(meta["old"], meta["new"])
        else:
            names = {"ids"} if meta["kind"] == "removed" else {"ids", "labels"}
            if set(columns) != names or any(column.shape != (meta["count"],) for column in columns.values()):
                raise BadFile(f"{path} must hold {sorted(names)} of {meta['count']} rows; restore it from a copy.")
            yield Removed(columns["ids"]) if names == {"ids"} else Relabelled(columns["ids"], columns["labels"])


def replay(folder: Path, rows: Rows, next_id: int, decision: Tensor) -> tuple[Rows, int, int]:
    """Return rows with the log applied, the next index, and how many edits there are; each is checked before."""
    form, count = Form.of(decision), 0
    for count, edit in enumerate(read_log(folder), start=1):
        path = _edit_folder(folder, count)
        if isinstance(edit, Added):
            _require_alike(path, rows, edit.rows, form, next_id)
            next_id = int(edit.rows.ids[-1]) + 1
        elif isinstance(edit, Removed | Relabelled):
            require_known(path, edit.ids, rows.ids)
            if isinstance(edit, Relabelled):
                require_values(path, {"labels": edit.labels}, form)
            elif len(edit.ids) >= len(rows):
                raise BadFile(f"{path} must leave at least one row, but removes all; restore it from a copy.")
        elif "source" not in rows.blocks.of_samples or not rows.of_texts:
            raise BadFile(f"{path} moves image files, but there are none; restore the folder from a copy.")
        rows = edit.apply(rows, decision)
    return rows, next_id, count


def verify_log(folder: Path, decision: Tensor) -> None:
    """Raise unless every file of the log matches its checksum, and its edits fit the rows."""
    meta = read_folder_meta(folder)
    replay(folder, read_folder(folder, meta, decision), meta["next_id"], decision)


def _require_alike(path: Path, rows: Rows, new: Rows, form: Form, next_id: int) -> None:
    """Raise unless added rows are of the form of those that are there, with indices that go on."""
    columns = {name: getattr(new, name).numpy() for name in ("labels", "keys", "class_scores", "edited", "queries")}
    columns |= {"ids": new.ids, "values": new.values.numpy(), "weights": new.sample_weight.numpy()}
    require_values(path, columns, form, all_of_them=True)
    alike = rows.blocks.of_samples == new.blocks.of_samples and rows.keys.dtype == new.keys.dtype
    block, other = rows.blocks.blocks[0], new.blocks.blocks[0]
    samples = [(getattr(block, name), getattr(other, name)) for name in new.blocks.of_samples]
    alike = alike and all(mine.shape[1:] == theirs.shape[1:] for mine, theirs in samples)
    alike = alike and all((mine.dtype == object) == (theirs.dtype == object) for mine, theirs in samples)
    if not alike or rows.keys.shape[1] != new.keys.shape[1] or new.ids[0] < next_id:
        raise BadFile(f"{path} must add rows like those that are there, but they differ; restore it from a copy.")


def _write_edit(folder: Path, edit: Edit) -> dict[str, Any]:
    if isinstance(edit, Relocated):
        return {"kind": "relocated", "old": edit.old, "new": edit.new, "files": {}}
    if isinstance(edit, Added):
        count = len(edit.rows)
        return {"kind": "added", "count": count, "files": write_columns(folder, count, columns_of(edit.rows))}
    columns = {"ids": in_pieces(edit.ids)}
    if isinstance(edit, Relabelled):
        columns["labels"] = in_pieces(edit.labels)
    kind = "relabelled" if isinstance(edit, Relabelled) else "removed"
    return {"kind": kind, "count": len(edit.ids), "files": write_columns(folder, len(edit.ids), columns)}


def _edit_folder(folder: Path, number: int) -> Path:
    return folder / "edits" / f"{number:08d}"


def _edit_folders(folder: Path) -> list[Path]:
    """Return the log's folders in order; raise where one is missing. Names with a dot were never finished."""
    log = folder / "edits"
    names = sorted(name for name in os.listdir(log) if not name.startswith(".")) if log.is_dir() else []
    expected = [f"{number:08d}" for number in range(1, len(names) + 1)]
    if names != expected:
        absent = sorted(set(expected) - set(names))[:1] or sorted(set(names) - set(expected))[:1]
        raise BadFile(f"{log} must hold edits 1 to {len(names)} and nothing else, but look at {absent[0]}; restore it.")
    return [log / name for name in names]


def _stamp(folder: Path) -> str:
    path = folder / "meta.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
