"""Folders that are replaced as a whole: a crash, a full disk or a reader meets the old state or the new one.

A folder is written beside its place, under a hidden name, and then changes places with what is there in one step. Where
the system has no such step there are two, and what a crash between them leaves is put back by the next to look. Only
what was saved here before is ever replaced or removed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from protoattend.arguments import check_path
from protoattend.errors import BadFile, CannotWrite, UserError
from protoattend.files.known import PART, kind_of, strangers

try:
    import fcntl
except ImportError:  # on Windows, where folders are not locked
    fcntl = None  # type: ignore[assignment]

OLD = ".old"  # ends the name of what was moved away where two folders cannot change places in one step
TRIES = 20  # readings of a folder that is being replaced, before writers are made to wait
AT, EXCHANGE = -100, 2  # of renameat2: paths as they are, and change places
NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV)  # how a file system says it cannot do that

Result = TypeVar("Result")
_held = threading.local()  # the folders this thread has locked


@contextmanager
def atomic_folder(folder: str | os.PathLike[str], what: str) -> Iterator[Path]:
    """Yield a new folder that takes the place of `folder` when the block ends well and vanishes if it fails.

    What is there may be nothing, an empty folder or one that holds `what`, as its meta.json says, and nothing else.
    """
    target = Path(os.path.realpath(check_path(folder, "folder")))
    require_free(target, what)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target)
        with _fresh(target) as fresh:
            yield fresh
            for path in (*fresh.rglob("*"), fresh):
                _sync(path)
            _put(fresh, target, what)
            _sync(target.parent)
    except OSError as error:
        raise CannotWrite(str(folder), error) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process, or thread, at a time into the block for a folder; others wait, and a crash lets them in.

    The lock is on the folder itself, so it leaves no file; where the folder has been replaced meanwhile, the new one is
    locked. A thread that has the lock can take it again.
    """
    name, held = os.path.realpath(folder), _held.__dict__.setdefault("names", set())
    if name in held:
        yield
        return
    while True:
        try:
            locked = _lock(Path(name))
        except FileNotFoundError:
            raise BadFile(f"{folder} must be there to be written to, but it is not; check the path.") from None
        try:
            if _same(locked, name):
                held.add(name)
                yield
                return
        finally:
            held.discard(name)
            _unlock(locked)


def read_whole(folder: Path, read: Callable[[], Result]) -> Result:
    """Return what `read` returns of a folder as it was at one moment: it reads again where a writer came between."""
    for turn in range(TRIES):
        recover(folder)
        before = _identity(folder)
        try:
            result = read()
        except Exception:
            if _identity(folder) == before:
                raise
        else:
            if _identity(folder) == before:
                return result
        time.sleep(0.001 * turn)
    with alone(folder):
        return read()


def try_to_write(out: Path, folder: Path) -> None:
    """Raise where nothing can be put into a folder, or where it is not there yet, into the nearest one above.

    `out` is what is to be written there.
    """
    while not folder.exists():
        folder = folder.parent
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".protoattend-", dir=folder))
    except OSError as error:
        raise CannotWrite(str(out), error) from error


def require_free(target: Path, what: str) -> None:
    """Raise unless a folder of `what` can be saved as `target`: new, empty, or one that was saved here before."""
    if target.exists() and not target.is_dir():
        raise UserError(f"a folder is needed to save into, but {target} is a file; choose another name.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if kind_of(target) != what:
        there = kind_of(target) or f"other files, such as {min(os.listdir(target))}"
        raise UserError(
            f"saving replaces a folder that holds a {what}, but {target} holds {there}; choose a new or empty folder."
        )
    unknown = strangers(target)
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise UserError(
            f"{target} was saved by protoattend, but it also holds {', '.join(unknown[:3])}{more}, which saving would "
            "remove; move them elsewhere, or choose a new folder."
        )


def recover(target: Path) -> None:
    """Put back what a crash has left beside its place, where it is in neither of its places now."""
    if target.exists():
        return
    for old in sorted(target.parent.glob(f".{glob_escaped(target.name)}{PART}*{OLD}")):
        try:
            locked = _lock(old)  # its writer may be at work: it holds this lock
        except OSError:
            continue
        try:
            if not target.exists():
                os.rename(old, target)
        except OSError:  # a folder that may only be read; what is missing is told next
            pass
        finally:
            _unlock(locked)


def remove_leftovers(target: Path) -> None:
    """Remove what writers of this folder that were killed have left beside it."""
    recover(target)
    for path in target.parent.glob(f".{glob_escaped(target.name)}{PART}*"):
        try:
            locked = _lock(path, wait=False)
        except OSError:  # of a writer at work, or gone
            continue
        try:
            _discard(path)
        finally:
            _unlock(locked)


def glob_escaped(name: str) -> str:
    """Return a name as a pattern that matches itself alone.

    >>> glob_escaped("a[1]*")
    'a[[]1][*]'
    """
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


@contextmanager
def _fresh(target: Path) -> Iterator[Path]:
    """Yield a new hidden folder beside the target, locked so that all can see that its writer lives."""
    while True:
        path = target.with_name(f".{target.name}{PART}{secrets.token_hex(4)}")
        path.mkdir()  # with the permissions that the umask gives
        try:
            locked = _lock(path, wait=False)
        except OSError:  # taken for a leftover before it was locked
            continue
        if _same(locked, path):
            break
        _unlock(locked)
    try:
        yield path
    except BaseException:
        if _same(locked, path):  # else it is in its place, and this is what was there before
            shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        _unlock(locked)


def _put(fresh: Path, target: Path, what: str) -> None:
    while True:
        if not target.exists():
            try:
                os.rename(fresh, target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                continue  # somebody was quicker
            return
        try:
            with alone(target):
                require_free(target, what)
                shutil.copymode(target, fresh)
                old = _change_places(fresh, target)
                _discard(old)
                return
        except BadFile:
            if target.exists():
                raise


def _change_places(fresh: Path, target: Path) -> Path:
    """Put the new folder in its place, and return where the old one is now."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # another system than Linux
        renameat2 = None
    if renameat2 is not None:
        if renameat2(AT, os.fsencode(fresh), AT, os.fsencode(target), EXCHANGE) == 0:
            return fresh
        if (number := ctypes.get_errno()) not in NOT_HERE:
            raise OSError(number, os.strerror(number), str(target))
    old = fresh.with_name(fresh.name + OLD)
    os.rename(target, old)
    os.rename(fresh, target)
    return old


def _discard(folder: Path) -> None:
    """Remove a folder that was ours under a hidden name, unless somebody has put something else into it."""
    unknown = strangers(folder) if kind_of(folder) else []
    if unknown:
        warnings.warn(f"{unknown[0]} came into a folder while it was replaced; it is kept in {folder}.", stacklevel=2)
    else:
        shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed now is removed by the next to save


def _identity(folder: Path) -> tuple[int, ...] | None:
    """Return what tells a folder from the one that takes its place."""
    try:
        own, meta = folder.stat(), (folder / "meta.json").stat()
    except OSError:
        return None
    return own.st_dev, own.st_ino, meta.st_ino, meta.st_ctime_ns, meta.st_size


def _lock(folder: Path, *, wait: bool = True) -> int | None:
    if fcntl is None:
        return None
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _unlock(locked: int | None) -> None:
    if locked is not None:
        os.close(locked)


def _same(locked: int | None, path: str | Path) -> bool:
    """Return whether what was locked is still what lies under a name."""
    try:
        return locked is None or os.path.samestat(os.fstat(locked), os.stat(path))
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    if fcntl is None and path.is_dir():
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
