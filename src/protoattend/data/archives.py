"""Archives of arrays (.npz): which array has the samples, which the labels; nothing is ever unpickled."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from protoattend.errors import ARRAY_ERRORS, BadFile, UserError, choose

ALWAYS, EXPANSION = 1 << 28, 200  # bytes of arrays that are always read, and times the size of their archive
MAGIC = np.lib.format.MAGIC_PREFIX
END, COUNT = 22, slice(10, 12)  # bytes of the record that ends an archive, and where it counts the members


@dataclass(frozen=True)
class Roles:
    """What the arrays of an archive are, by name; None is for one that is not there."""

    samples: str | None = None
    target: str | None = None
    id_column: str | None = None


def read_archive(path: Path, wanted: Roles) -> tuple[dict[str, np.ndarray], Roles]:
    """Return the arrays that have a role, and their roles: those wanted, and what goes without saying."""
    try:
        with path.open("rb") as file:
            arrays = read_members(path, file)
        for what, name in vars(wanted).items():
            if name is not None:
                choose(name, list(arrays), f"{what}, an array of {path},")
    except UserError:
        raise
    except ValueError as error:
        objects = "allow_pickle" in str(error)
        fix = "it holds Python objects, which are never unpickled; save plain arrays" if objects else error
        raise BadFile(f"{path}: not a readable archive of arrays ({fix}).") from None
    except ARRAY_ERRORS as error:
        raise BadFile(f"{path}: not a readable archive of arrays ({error}); save it with numpy.savez.") from None
    roles = guess_roles({name: array.shape for name, array in arrays.items()}, wanted)
    if roles.samples is None:
        shapes = ", ".join(f"{name!r} of shape {array.shape}" for name, array in arrays.items())
        raise UserError(
            f"samples, an array of {path}, must be one of {shapes}, but none was named; pass samples=... (--samples on "
            "the command line)."
        )
    return arrays, roles


def read_members(path: Path, file: BinaryIO) -> dict[str, np.ndarray]:
    """Return all arrays of an archive, each read to its end: before that, no checksum is compared.

    numpy.load stops where an array's header says that it ends, so that a damaged header shifts all numbers in silence.
    """
    with zipfile.ZipFile(file) as entries:
        require_room(path, sum(entry.file_size for entry in entries.infolist()))
        _require_all_listed(file, entries)
        return {entry.filename.removesuffix(".npy"): _read_member(entries, entry) for entry in entries.infolist()}


def _read_member(entries: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with entries.open(entry) as member:
        begins = member.read(len(MAGIC))
    if begins != MAGIC:
        raise ValueError(f"{entry.filename.removesuffix('.npy')!r} is no array")
    with entries.open(entry) as member:
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):
            raise ValueError(f"{entry.filename!r} is longer than its header says")
    return array


def _require_all_listed(file: BinaryIO, entries: zipfile.ZipFile) -> None:
    """Raise where a damaged list of members hides some: zipfile reads as many as it finds and never counts."""
    file.seek(-END - len(entries.comment), io.SEEK_END)
    count = int.from_bytes(file.read(END)[COUNT], "little")
    if len(entries.infolist()) != count:
        raise ValueError(f"it has {count} members, but {len(entries.infolist())} are listed")


def most_room(size: int) -> int:
    """Return how many bytes a file of this size may unpack to."""
    return max(ALWAYS, EXPANSION * size)


def require_room(path: Path, unpacked: int) -> None:
    """Raise where a file unpacks to far more than its size: zeros, packed to fill the memory."""
    if unpacked > most_room(path.stat().st_size):
        raise BadFile(
            f"{path}: what is in it must take at most {EXPANSION} times the size of the file, but takes {unpacked} "
            "bytes; save it uncompressed, or in several files."
        )


def unzipped(path: Path, data: bytes) -> bytes:
    """Return what gzip has packed into the data of a file, within the same bounds."""
    most = most_room(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(most + 1)
    require_room(path, len(content) if len(content) > most else 0)
    return content


def guess_roles(shapes: Mapping[str, tuple[int, ...]], wanted: Roles) -> Roles:
    """Return the roles of arrays by their shapes.

    Samples are "X", or the only array of two axes or more. Labels are "y"; where no name was given, also the only
    array with one number for each of these samples.

    >>> guess_roles({"images": (9, 8, 8), "digits": (9,)}, Roles())
    Roles(samples='images', target='digits', id_column=None)
    >>> guess_roles({"x_train": (9, 8), "y_train": (9,), "x_test": (2, 8)}, Roles()).samples is None
    True
    """
    free = {name: shape for name, shape in shapes.items() if name not in vars(wanted).values()}
    samples = wanted.samples or _called("x", free) or _only([name for name, shape in free.items() if len(shape) > 1])
    target = wanted.target or _called("y", {name: shape for name, shape in free.items() if name != samples})
    if target is None and wanted.samples is None and samples is not None and _called("x", shapes) is None:
        target = _only([name for name, shape in free.items() if shape == shapes[samples][:1] and name != samples])
    return Roles(samples, target, wanted.id_column)


def _called(letter: str, names: Mapping[str, tuple[int, ...]]) -> str | None:
    return next((name for name in names if name.lower() == letter), None)


def _only(names: list[str]) -> str | None:
    return names[0] if len(names) == 1 else None
