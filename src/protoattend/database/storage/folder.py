"""The database as a folder: meta.json, one memory-mapped file a column, and the log of edits beside them.

    meta.json            version, count, next_id, the model's fingerprint, how keys are rounded; of each file dtype,
                         shape, bytes and sha256
    ids.npy ...          the columns (columns.py); weights.npy, how many times each row counts, is not there
                         where that is once; source.npy is the samples, excerpts.npy what is kept of them (previews.py)
    edits/00000001/ ...  edits since, in order (edit_log.py)

Many processes write shards, each of them such a folder; `merge_shards` makes one of them, writing its meta.json last.
Format versions 1 and 2 are still read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import check_count
from protoattend.database.rows import Block, Blocks, Rows
from protoattend.database.storage.checks import Form, require_values
from protoattend.database.storage.columns import ROWS, in_pieces, read_columns, verify_columns, write_columns
from protoattend.database.storage.old_versions import read_old
from protoattend.errors import BadFile, UserError
from protoattend.files.known import DATABASE
from protoattend.files.meta import read_meta, write_meta
from protoattend.folders import atomic_folder

VERSION = 3
SEARCHED = ("labels", "keys", "class_scores", "edited")
READ_RARELY = ("queries", "values")
COUNTS = "weights"  # what the column of sample weights was named when the first folders were written
SHARD = re.compile(r"shard-(\d{5})-of-(\d{5})")


def write_folder(folder: Path, count: int, columns: dict[str, Iterator[np.ndarray]], meta: dict[str, Any]) -> None:
    """Write columns of `count` rows as a folder, wholly or not at all; `meta` has fingerprint, next_id and rounding."""
    with atomic_folder(folder, DATABASE) as fresh:
        files = write_columns(fresh, count, columns)
        own = {"what": DATABASE, "version": VERSION, "count": count}
        write_meta(fresh, own | meta | {"files": files})


def read_folder_meta(folder: Path) -> dict[str, Any]:
    """Return the meta.json of a database."""
    if not (folder / "meta.json").exists() and folder.is_dir() and any(map(_shard_number, folder.iterdir())):
        raise BadFile(
            f"{folder} must hold a database, but it holds shards of one; make one of them with "
            "CandidateDatabase.merge(shards, folder)."
        )
    return read_meta(folder, DATABASE, VERSION, oldest=1)


def read_folder(folder: Path, meta: dict[str, Any], decision: Tensor) -> Rows:
    """Return the rows of a database as saved, before the edits in its log, mapped rather than read."""
    return rows_of(_checked_columns(folder, meta, decision))


def verify_folder(folder: Path, decision: Tensor) -> None:
    """Raise unless every file of the database, its log aside, matches its checksum."""
    meta = read_folder_meta(folder)
    if meta["version"] == VERSION:
        verify_columns(folder, meta["files"])
    _checked_columns(folder, meta, decision, all_values=True)


def _checked_columns(
    folder: Path, meta: dict[str, Any], decision: Tensor, *, all_values: bool = False
) -> dict[str, Any]:
    old = meta["version"] < VERSION
    columns = read_old(folder, meta, decision) if old else read_columns(folder, meta["files"])
    require_columns(folder, columns, meta["count"])
    require_values(folder, columns, Form.of(decision), all_of_them=all_values)
    if meta["next_id"] <= columns["ids"][-1]:
        raise BadFile(f"{folder} must number new rows after its last one, but next_id is too low; restore it.")
    return columns


def columns_of(rows: Rows) -> dict[str, Iterator[np.ndarray]]:
    """Return the columns to write, in pieces."""
    return _merged([rows], np.zeros(1, dtype=np.int64))


def rows_of(columns: dict[str, Any]) -> Rows:
    """Return rows over these columns, uncopied."""
    tensors = {name: torch.from_numpy(columns[name]) for name in (*SEARCHED, "queries", "values")}
    counts = torch.from_numpy(columns[COUNTS]) if COUNTS in columns else torch.ones(1).expand(len(columns["ids"]))
    block = Block(tensors.pop("queries"), tensors.pop("values"), columns.get("source"), columns.get("excerpts"))
    return Rows(ids=columns["ids"], sample_weight=counts, blocks=Blocks((block,)), **tensors)


def require_columns(folder: Path, columns: dict[str, Any], count: int) -> None:
    """Raise unless every column is there, with so many rows."""
    of_samples = {"excerpts" if "excerpts" in columns else "source"}
    missing = {"ids", *SEARCHED, *READ_RARELY, *of_samples} - set(columns)
    lengths = {name: len(column) for name, column in columns.items() if len(column) != count}
    if missing or lengths:
        what = f"{sorted(missing)} are missing" if missing else f"they have {lengths}"
        raise BadFile(f"{folder} must hold {count} rows in every column, but {what}; restore it from a copy.")


def shard_name(number: int, of: int) -> str:
    """Return the name of a shard's folder.

    >>> shard_name(2, 8)
    'shard-00002-of-00008'
    """
    if not 0 <= check_count(number, "number", low=0) < check_count(of, "of") <= 99_999:
        raise UserError(f"shards must be numbered from 0 to of - 1, but number={number} and of={of}.")
    return f"shard-{number:05d}-of-{of:05d}"


def merge_shards(shards: Path, folder: Path) -> None:
    """Make one database of all shards in a folder, checked; indices go on from shard to shard."""
    metas = {path: read_folder_meta(path) for path in _complete(shards)}
    for path, meta in metas.items():
        if meta["version"] != VERSION or (path / "edits").exists():
            raise BadFile(f"{path} must be a shard as written, of version {VERSION} and without edits; write it again.")
        verify_columns(path, meta["files"])
    if any(meta["rounding"] is not None for meta in metas.values()):
        raise BadFile(f"shards in {shards} must have unrounded keys, but some are rounded; round the merged database.")
    if len({meta["fingerprint"] for meta in metas.values()}) > 1:
        raise BadFile(
            f"all shards in {shards} must be made by one model, but their fingerprints differ; write them again."
        )
    columns = [read_columns(path, meta["files"]) for path, meta in metas.items()]
    for (path, meta), own in zip(metas.items(), columns, strict=True):
        require_columns(path, own, meta["count"])
    counts = [meta["count"] for meta in metas.values()]
    starts = np.cumsum([0, *(meta["next_id"] for meta in metas.values())])
    parts = [rows_of(own) for own in columns]
    if len({part.blocks.of_samples for part in parts}) > 1:
        raise BadFile(f"all shards in {shards} must keep samples alike, but some keep excerpts; write them again.")
    with atomic_folder(folder, DATABASE) as fresh:
        files = write_columns(fresh, sum(counts), _merged(parts, starts[:-1]))
        first = next(iter(metas.values()))
        own_meta = {"what": DATABASE, "version": VERSION, "count": sum(counts), "fingerprint": first["fingerprint"]}
        write_meta(fresh, own_meta | {"next_id": int(starts[-1]), "rounding": None, "files": files})


def _merged(parts: list[Rows], starts: np.ndarray) -> dict[str, Iterator[np.ndarray]]:
    merged = {
        "ids": (piece + start for part, start in zip(parts, starts, strict=True) for piece in in_pieces(part.ids))
    } | {name: _pieces(parts, name) for name in SEARCHED}
    if not all(part.count_once for part in parts):
        merged[COUNTS] = _pieces(parts, "sample_weight")
    return merged | {name: _rare_pieces(parts, name) for name in (*READ_RARELY, *parts[0].blocks.of_samples)}


def _pieces(parts: list[Rows], name: str) -> Iterator[np.ndarray]:
    for part in parts:
        yield from in_pieces(getattr(part, name))


def _rare_pieces(parts: list[Rows], name: str) -> Iterator[np.ndarray]:
    for part in parts:
        for start in range(0, len(part), ROWS):
            yield np.asarray(part.blocks.take(name, np.arange(start, min(start + ROWS, len(part)))))


def _shard_number(path: Path) -> re.Match[str] | None:
    return SHARD.fullmatch(path.name)


def _complete(shards: Path) -> list[Path]:
    """Return the shards in order; raise where some are missing or of another set."""
    found = sorted(path for path in shards.iterdir() if _shard_number(path)) if shards.is_dir() else []
    if not found:
        raise BadFile(f"{shards} must hold shards, written by database.save_shard, but it has none; check the path.")
    of = int(found[0].name[-5:])
    missing = sorted({shard_name(number, of) for number in range(of)} - {path.name for path in found})
    if missing:
        raise BadFile(f"{shards} must hold all {of} shards, but {missing[:5]} are missing; write them.")
    if len(found) > of:
        raise BadFile(f"{shards} must hold one set of shards, but it has {len(found)} and not {of}; remove the others.")
    return found
