"""Archives of arrays (.npz): which array has the samples, which the labels; nothing is ever unpickled."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from protoattend.errors import ARRAY_ERRORS, BadFile, UserError, choose

ALWAYS, EXPANSION = 1 << 28, 200  # bytes of arrays that are always read, and times the size of their archive


@dataclass(frozen=True)
class Roles:
    """What the arrays of an archive are, by name; None is for one that is not there."""

    samples: str | None = None
    target: str | None = None
    id_column: str | None = None


def read_archive(path: Path, wanted: Roles) -> tuple[dict[str, np.ndarray], Roles]:
    """Return the arrays that have a role, and their roles: those wanted, and what goes without saying."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = list(archive.files)
            for what, name in vars(wanted).items():
                if name is not None:
                    choose(name, held, f"{what}, an array of {path},")
            with zipfile.ZipFile(path) as entries:
                require_room(path, sum(entry.file_size for entry in entries.infolist()))
            arrays = {name: archive[name] for name in held}
            other = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
            if other is not None:  # a member that does not begin as an array comes as bytes
                raise ValueError(f"{other!r} is no array")
    except UserError:
        raise
    except ValueError as error:
        objects = "allow_pickle" in str(error)
        fix = "it holds Python objects, which are never unpickled; save plain arrays" if objects else error
        raise BadFile(f"{path}: not a readable archive of arrays ({fix}).") from None
    except (*ARRAY_ERRORS, TypeError, KeyError) as error:  # TypeError: a bare .npy under the name .npz
        raise BadFile(f"{path}: not a readable archive of arrays ({error}); save it with numpy.savez.") from None
    roles = guess_roles({name: array.shape for name, array in arrays.items()}, wanted)
    if roles.samples is None:
        shapes = ", ".join(f"{name!r} of shape {array.shape}" for name, array in arrays.items())
        raise UserError(
            f"samples, an array of {path}, must be one of {shapes}, but none was named; pass samples=... (--samples on "
            "the command line)."
        )
    return arrays, roles


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
