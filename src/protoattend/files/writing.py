"""Single files that are written wholly or not at all, with the permissions that the umask gives."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from protoattend.errors import BadFile, CannotWrite


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the name of a new, empty file that takes the place of `path` when the block ends well, else vanishes."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
        yield target
        return
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        fresh.touch(exist_ok=False)
        yield fresh
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, fresh)
        os.replace(fresh, target)
    except OSError as error:
        raise CannotWrite(str(path), error) from error
    finally:
        fresh.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Write a text as UTF-8, wholly or not at all; what UTF-8 cannot hold becomes a question mark."""
    with atomic_file(path) as fresh:
        fresh.write_text(content, encoding="utf-8", errors="replace")


def write_tensors(path: Path, save: Callable[[Path], Any]) -> None:
    """Let safetensors write a file with the permissions that the umask gives; a full disk is an OSError."""
    path.touch()
    mode = path.stat().st_mode
    try:
        save(path)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else errno.EIO, str(error)) from None
    path.chmod(mode & 0o777)


def described(path: Path) -> dict[str, Any]:
    """Return what meta.json says of a file: its size and checksum."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def require_as_described(folder: Path, files: dict[str, Any]) -> None:
    """Raise unless every file is there with the size and checksum that meta.json says."""
    for name, entry in files.items():
        path = folder / name
        if not path.is_file():
            raise BadFile(f"{folder} must hold {name}, but it is missing; restore the folder from a copy.")
        if described(path) != entry:
            raise BadFile(
                f"{path} does not match its checksum in meta.json: it is truncated, was changed or the disk is "
                "failing; restore it from a copy."
            )
