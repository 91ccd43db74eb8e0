"""Columns as files: one .npy each, memory-mapped when read, beside a meta.json with dtypes, sizes and checksums.

Texts take two: their UTF-8 end to end, and where each one ends. Checksums are made while writing. Reading checks that
every file is there in its full size, and the checksums of small ones alone: a hash of gigabytes takes far longer than
to open them, so that is done when asked.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from protoattend.database.storage.texts import Texts, encode_texts
from protoattend.errors import ARRAY_ERRORS, BadFile

SMALL = 1 << 20  # bytes: files whose checksum every reading checks
ROWS = 1 << 16  # written at a time


def in_pieces(column: Any) -> Iterator[np.ndarray]:
    """Yield the rows of a column some at a time: a piece of what is mapped is all that is in memory."""
    for start in range(0, len(column), ROWS):
        yield np.asarray(column[start : start + ROWS])


def write_columns(folder: Path, count: int, columns: Mapping[str, Iterable[np.ndarray]]) -> dict[str, Any]:
    """Write columns of `count` rows, given in pieces, into `folder`; return what meta.json says of its files."""
    files: dict[str, Any] = {}
    for name, pieces in columns.items():
        parts = iter(pieces)
        first = next(parts)
        if first.dtype == object:
            files |= _write_texts(folder, name, count, _chain(first, parts))
        else:
            shape = (count, *first.shape[1:])
            with _Npy(folder / f"{name}.npy", first.dtype, shape) as file:
                for piece in _chain(first, parts):
                    file.append(piece.astype(first.dtype, copy=False))
            files[name] = file.described()
    return files


def read_columns(folder: Path, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that meta.json describes, memory-mapped: what is changed in memory stays there."""
    for name in files:
        _check_size(folder, name, files[name])
        if files[name]["bytes"] <= SMALL:
            _check_sum(folder, name, files[name])
    arrays: dict[str, Any] = {name: _map(folder / f"{name}.npy", entry) for name, entry in files.items()}
    texts = [name.removesuffix("_ends") for name in arrays if name.endswith("_ends")]
    for name in texts:
        if f"{name}_text" not in arrays or arrays[f"{name}_text"].dtype != np.uint8:
            raise BadFile(f"{folder} must hold {name}_text.npy beside {name}_ends.npy; restore it from a copy.")
        arrays[name] = Texts(arrays.pop(f"{name}_text"), arrays.pop(f"{name}_ends"))
    return arrays


def verify_columns(folder: Path, files: Mapping[str, Any]) -> None:
    """Read every file and raise unless all match their checksums."""
    for name, entry in files.items():
        _check_size(folder, name, entry)
        _check_sum(folder, name, entry)


def _write_texts(folder: Path, name: str, count: int, pieces: Iterator[np.ndarray]) -> dict[str, Any]:
    """Write the texts, whose length in bytes is known only at the end; so it is written into the header last."""
    text = _Npy(folder / f"{name}_text.npy", np.dtype(np.uint8), (0,))
    ends = _Npy(folder / f"{name}_ends.npy", np.dtype(np.int64), (count,))
    with text, ends:
        for piece in pieces:
            content, lengths = encode_texts(piece.tolist())
            ends.append(lengths + text.rows)
            text.append(np.frombuffer(content, dtype=np.uint8))
    return {f"{name}_text": text.described(), f"{name}_ends": ends.described()}


class _Npy:
    """A .npy file written piece by piece; the digest is of its rows, so the header can come last."""

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._path, self._dtype, self._shape = path, dtype, shape
        self._digest = hashlib.sha256()
        self.rows = 0

    def __enter__(self) -> _Npy:
        self._file: BinaryIO = self._path.open("wb")
        self._write_header()
        return self

    def append(self, rows: np.ndarray) -> None:
        content = np.ascontiguousarray(rows).data
        self._file.write(content)
        self._digest.update(content)
        self.rows += len(rows)

    def __exit__(self, *failure: object) -> None:
        self._shape = (self.rows, *self._shape[1:])
        self._file.seek(0)
        self._write_header()  # of fixed length: numpy leaves room for the number of rows
        self._file.close()

    def described(self) -> dict[str, Any]:
        size = self._path.stat().st_size
        shape = list(self._shape)
        return {"dtype": self._dtype.str, "shape": shape, "bytes": size, "sha256": self._digest.hexdigest()}

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._file, header)


def _map(path: Path, entry: Mapping[str, Any]) -> np.ndarray:
    """Map a file copy-on-write: torch wants writable memory, and the file must not change."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"its format is {version}")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
            start = file.tell()
    except ARRAY_ERRORS as error:
        raise BadFile(f"{path} must be an array, but it cannot be read ({error}); restore it from a copy.") from None
    if dtype.str != entry["dtype"] or list(shape) != entry["shape"] or by_columns:
        raise BadFile(
            f"{path} must hold {entry['dtype']} {entry['shape']} as meta.json says, but it holds {dtype.str} "
            f"{list(shape)}; restore it from a copy."
        )
    if start + dtype.itemsize * math.prod(shape) != entry["bytes"]:  # before anything of that size is made
        raise BadFile(f"{path} must be as long as its shape says, but it has {entry['bytes']} bytes; restore it.")
    if 0 in shape:  # nothing to map
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "c", start, shape))


def _check_size(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise BadFile(f"{folder} must hold {path.name}, but it is missing; restore the folder from a copy.")
    if path.stat().st_size != entry["bytes"]:
        raise BadFile(
            f"{path} must have {entry['bytes']} bytes, but it has {path.stat().st_size}: it is truncated or was "
            "changed; restore it from a copy."
        )


def _check_sum(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    digest = hashlib.sha256()
    for piece in in_pieces(_map(folder / f"{name}.npy", entry)):
        digest.update(np.ascontiguousarray(piece).data)
    if digest.hexdigest() != entry["sha256"]:
        raise BadFile(
            f"{folder / name}.npy does not match its checksum in meta.json: it was changed or the disk is failing; "
            "restore it from a copy."
        )


def _chain(first: np.ndarray, others: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    yield from others
