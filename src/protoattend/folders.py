"""Writing folders so that a crash or a full disk never leaves half of one behind; reading JSON with clear errors."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protoattend.errors import BadFile, UserError


@contextmanager
def atomic_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `folder` when the block ends well and vanishes if it fails."""
    target = Path(folder)
    require_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield fresh
        for path in fresh.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        fresh.chmod(0o755)  # mkdtemp makes it private
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            os.replace(target, old)
            os.replace(fresh, target)
            shutil.rmtree(old)
        else:
            os.replace(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process, or thread, at a time into the block for a folder; others wait, and a crash lets them in.

    The lock is on the folder itself, so it leaves no file; where the folder has been replaced meanwhile, the new one is
    locked.
    """
    import fcntl  # not there on Windows

    while True:
        try:
            locked = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            raise BadFile(f"{folder} must be there to be written to, but it is not; check the path.") from None
        try:
            fcntl.flock(locked, fcntl.LOCK_EX)
            if folder.exists() and os.path.samestat(os.fstat(locked), folder.stat()):
                yield
                return
        finally:
            os.close(locked)


def require_free(target: Path) -> None:
    """Raise unless a folder can be saved as `target`: new, empty, or one that was saved here before."""
    if target.exists() and not target.is_dir():
        raise UserError(f"a folder is needed to save into, but {target} is a file; choose another name.")
    if target.is_dir() and any(target.iterdir()) and not (target / "meta.json").exists():
        raise UserError(f"{target} holds other files, which saving would replace; choose a new or empty folder.")


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def read_meta(folder: Path, what: str, version: int, *, oldest: int | None = None) -> dict[str, Any]:
    """Return meta.json of a folder that holds `what` in format `version`, or in one since `oldest`."""
    path = folder / "meta.json"
    if not path.is_file():
        raise BadFile(f"{folder} must be a folder with {what}, but it has no meta.json; check the path.")
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadFile(f"{path} must be JSON, but it cannot be read ({error}); restore it from a copy.") from None
    if not isinstance(meta, dict) or meta.get("what") != what:
        raise BadFile(f"{folder} must hold {what}, but its meta.json describes something else; check the path.")
    if meta.get("version") not in range(oldest or version, version + 1):
        raise BadFile(
            f"{folder} has format version {meta.get('version')}, but this protoattend reads version {version}; "
            "save it again with the protoattend that wrote it, or install a matching one."
        )
    return meta
