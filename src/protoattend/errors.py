"""The errors protoattend raises; each message gives the rule, the value that broke it, and the fix."""

from __future__ import annotations

import errno
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from difflib import get_close_matches

LISTED = 40  # choices named in a message; a table may have thousands of columns

# What numpy raises for a damaged array file: a bad zip entry, an unknown compression or broken Python syntax.
ARRAY_ERRORS = (
    *(ValueError, OSError, EOFError, RuntimeError, SyntaxError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)


class ProtoAttendError(Exception):
    """Base of every error raised on purpose by protoattend.

    Examples
    --------
    >>> issubclass(UserError, ProtoAttendError) and issubclass(MissingExtra, ProtoAttendError)
    True
    """


class UserError(ProtoAttendError, ValueError):
    """Something the caller can put right; also a `ValueError`. The message is safe to show to anybody.

    Examples
    --------
    >>> choose("sgdd", ["adam", "sgd"], "optimizer")
    Traceback (most recent call last):
    protoattend.errors.UserError: optimizer must be one of 'adam', 'sgd', but got 'sgdd'; did you mean 'sgd'?
    """


class BadCell(UserError, TypeError):
    """A table holds something that is neither text, number nor date; also a `TypeError`."""


class StaleDatabase(UserError):
    """The candidate database was made by another model than the one it is used with.

    Build it again by `CandidateDatabase.build`, or use it with the model whose fingerprint it has.
    """


class MissingSamples(UserError):
    """Whole samples are needed, but the database keeps excerpts of them alone.

    It was saved with `excerpts=True`; what shows explanations works, what encodes or judges the samples again does not.
    """


class BadFile(UserError):
    """A file or folder is truncated, foreign or of another format version; the message names it."""


_ADVICE = dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "allow it") | dict.fromkeys(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"
)


class CannotWrite(ProtoAttendError, OSError):
    """A file or folder cannot be written: the disk is full, or it may not be; also an `OSError`, with its `errno`.

    What was there before is kept, and nothing half-written stays.

    Parameters
    ----------
    path : str
        What was to be written.
    error : OSError
        Why it could not be.

    Examples
    --------
    >>> print(CannotWrite("model", OSError(28, "No space left on device")))
    model could not be written (No space left on device): what was there before is kept; make room, or save elsewhere.
    """

    def __init__(self, path: str, error: OSError) -> None:
        self.reason: str = getattr(error, "reason", None) or error.strerror or str(error)
        advice = _ADVICE.get(error.errno or 0, "check the path and the disk")
        super().__init__(
            f"{path} could not be written ({self.reason}): what was there before is kept; {advice}, or save elsewhere."
        )
        self.errno = error.errno


class MissingExtra(ProtoAttendError, ImportError):
    """An optional package is missing; also an `ImportError`. The message names the install command.

    Parameters
    ----------
    package : str
        What is missing.
    extra : str
        The extra of protoattend-torch that brings it.
    purpose : str
        What needs it.

    Examples
    --------
    >>> print(MissingExtra("pandas", "table", "to_frame"))
    to_frame needs pandas, which is not installed; install it with: pip install 'protoattend-torch[table]'
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed; "
            f"install it with: pip install 'protoattend-torch[{extra}]'"
        )


def choose(name: object, choices: Iterable[str], what: str) -> str:
    """Return `name` if it is one of `choices`, else raise and suggest the nearest one."""
    options = list(choices)
    if isinstance(name, str) and name in options:
        return name
    listing = ", ".join(repr(option) for option in options[:LISTED])
    listing += f" and {len(options) - LISTED} more" if len(options) > LISTED else ""
    by_small = {option.lower(): option for option in options}
    near = get_close_matches(str(name).lower(), by_small, n=1, cutoff=0.6)
    hint = f"; did you mean {by_small[near[0]]!r}?" if near else "."
    raise UserError(f"{what} must be one of {listing}, but got {name!r}{hint}")
