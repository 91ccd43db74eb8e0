"""Which image files a saved folder may make us read: those under roots that a person names, and those they hand in.

A folder holds the paths of its training images. One that comes from elsewhere could name any image of this machine, and
an explanation would show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from protoattend.arguments import check_path
from protoattend.errors import BadFile

Roots = tuple[str, ...] | None  # None: the paths are a person's own, not those of a folder


class GivenPath(str):
    """The path of an image that a person has handed in."""

    __slots__ = ()


def as_roots(named: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the folders named as absolute paths.

    >>> as_roots("/data"), as_roots(["/a/../b"])
    (('/data',), ('/b',))
    """
    try:
        several = [named] if isinstance(named, (str, os.PathLike)) else list(named)
    except TypeError:  # nothing that can be gone through, such as a number
        several = [named]  # type: ignore[list-item]
    return tuple(os.path.abspath(check_path(root, "image_roots")) for root in several)


def given(paths: np.ndarray) -> np.ndarray:
    """Return paths marked as handed in."""
    marked = np.empty(len(paths), dtype=object)
    marked[:] = [GivenPath(path) for path in paths]
    return marked


def require_within(paths: Iterable[str], roots: Roots) -> None:
    """Raise unless every path was handed in or lies under one of the roots."""
    if roots is None:
        return

    def outside(path: str) -> bool:
        return not isinstance(path, GivenPath) and not any(Path(os.path.abspath(path)).is_relative_to(r) for r in roots)

    elsewhere = [path for path in paths if outside(path)]
    if elsewhere:
        named = ", ".join(roots) or "none is named"
        more = f" and {len(elsewhere) - 1:,} more" if len(elsewhere) > 1 else ""
        raise BadFile(
            f"images that a saved folder points to are read under roots that you name ({named}), but it points "
            f"to {elsewhere[0]}{more}; if these are its training images, load it with "
            f"image_roots={_common_folder(elsewhere)!r} (--image-root on the command line)."
        )


def _common_folder(paths: Sequence[str]) -> str:
    """Return the folder that all files are in, at whatever depth; where they have none but the root, that of the first.

    >>> _common_folder(["/data/oak/1.png", "/data/elm/2.png"]), _common_folder(["/data/1.png", "/home/2.png"])
    ('/data', '/data')
    """
    first = str(Path(paths[0]).parent)
    try:
        common = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    except ValueError:  # on several drives
        return first
    return first if common == os.path.dirname(common) else common
