"""Images that stay on disk: a folder by class as X, decoded batch by batch by several threads."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from protoattend.data.decode import Header, decode_image, read_header
from protoattend.data.image_folders import list_folder
from protoattend.data.image_roots import Roots, require_within
from protoattend.data.samples import Rows
from protoattend.errors import BadFile, UserError, choose

WORKERS = min(8, os.cpu_count() or 1)  # Pillow lets go of Python's lock while it decodes
# Pixels of a side where the size is chosen here. Twice the side takes four times as long: on one core 64 x 64 is what
# a person can wait for (an epoch of 3,000 images: a minute and a half).
LARGEST, SMALLEST = 64, 8
AT_ONCE = 2**28  # bytes: images that take no more together are decoded once, into memory
NAMED = 20  # unreadable files named in a warning
GROUP = 64  # files of one task: a future for each of a million files would take a gigabyte

Read = TypeVar("Read")


@dataclass(frozen=True)
class ImageFile:
    """One image on disk, in the size and colours the model sees; `np.asarray` decodes it.

    Where a `thumbnail` of it is kept, that is shown instead: the file may be elsewhere, or gone.
    """

    path: str
    channels: int
    height: int
    width: int
    thumbnail: np.ndarray | None = field(default=None, compare=False, repr=False)
    roots: Roots = field(default=None, compare=False, repr=False)  # folders under which it may be read

    @property
    def shape(self) -> tuple[int, ...]:
        if self.thumbnail is not None:
            return self.thumbnail.shape
        return (self.height, self.width) if self.channels == 1 else (self.height, self.width, self.channels)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the image as uint8 `(h, w)` or `(h, w, 3)`."""
        if self.thumbnail is not None:
            return self.thumbnail.astype(dtype or self.thumbnail.dtype, copy=bool(copy))
        require_within([self.path], self.roots)
        image = decode_image(self.path, channels=self.channels, size=(self.height, self.width))
        return image.reshape(self.shape).astype(dtype or image.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Images that stay on disk, with their labels where known: X for `fit`.

    Made by `from_folder` or `from_paths`; decoded when needed, batch by batch. It is indexed like an array of rows.

    Parameters
    ----------
    paths : ndarray of str of shape (n,)
        Absolute paths.
    channels : {1, 3}
        Grey or colour.
    height, width : int
        What images are resized to.
    y : ndarray of shape (n,), default=None
        Labels.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         Path(folder, name).mkdir()
    ...         Image.new("RGB", (32, 24)).save(Path(folder, name, "1.png"))
    ...     images = ImageFiles.from_folder(folder, size=16)
    >>> images, images.shape, images.y.tolist()
    (ImageFiles(2 colour images, 16x16), (2, 3, 16, 16), ['cat', 'dog'])
    """

    paths: np.ndarray
    channels: int
    height: int
    width: int
    y: np.ndarray | None = None

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        corrupt: str = "raise",
    ) -> ImageFiles:
        """Return the images of folder/CLASS/*, labelled by their folders, or those of a plain folder, unlabelled.

        Parameters
        ----------
        folder : path
            A folder of class folders, or of images.
        size, channels, corrupt
            How images are read: those of `from_paths`.

        Returns
        -------
        images : ImageFiles

        Raises
        ------
        UserError
            If there are no images, or all of a class are corrupt.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     for name in ("cat", "dog"):
        ...         Path(folder, name).mkdir()
        ...         Image.new("RGB", (32, 24)).save(Path(folder, name, "1.png"))
        ...     ImageFiles.from_folder(folder)
        ImageFiles(2 colour images, 24x32)
        """
        paths, labels = list_folder(folder)
        images = cls.from_paths(paths, labels, size=size, channels=channels, corrupt=corrupt)
        if labels is not None and images.y is not None:
            gone = sorted(set(labels.tolist()) - set(images.y.tolist()))
            if gone:
                raise UserError(
                    f"every class folder must hold readable images, but all of {gone[0]!r} in {folder} are corrupt; "
                    "restore them or remove the folder."
                )
        return images

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[str | os.PathLike[str]],
        y: Any = None,
        *,
        size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        corrupt: str = "raise",
    ) -> ImageFiles:
        """Return the images of these files.

        Parameters
        ----------
        paths : iterable of path
            n image files.
        y : array-like of shape (n,), default=None
            Their labels.
        size : int or (height, width), default=None
            What images are resized to; None is the median of the files, reduced to 64 pixels at the most.
        channels : {1, 3}, default=None
            Grey or colour; None is 1 where all files are grey.
        corrupt : {"raise", "skip"}, default="raise"
            With "skip" every file is decoded once, and a warning names those left out; with "raise" the first that
            cannot be read is an error when it is met.

        Returns
        -------
        images : ImageFiles

        Raises
        ------
        UserError
            If there are no images, or `paths` and `y` differ in length.
        BadFile
            If a file is no image.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     Image.new("L", (8, 8)).save(Path(folder, "1.png"))
        ...     ImageFiles.from_paths([Path(folder, "1.png")], ["a label"])
        ImageFiles(1 grey images, 8x8)
        """
        choose(corrupt, ("raise", "skip"), "corrupt")
        if channels not in (None, 1, 3):
            raise UserError(f"channels must be 1 (grey), 3 (colour) or None, but got {channels!r}.")
        listed = np.array([os.path.abspath(path) for path in paths], dtype=object)
        labels = None if y is None else np.asarray(y)
        if labels is not None and len(labels) != len(listed):
            raise UserError(f"paths and y must be of one length, but they have {len(listed)} and {len(labels)}.")
        if corrupt == "skip":
            kept = _readable(listed)
            listed, labels = listed[kept], None if labels is None else labels[kept]
        if len(listed) == 0:
            raise UserError("at least one image is needed, but there is none; check the paths.")
        headers = in_parallel(read_header, listed)
        height, width = _checked_size(size) or _median_size(headers)
        grey = all(header.grey for header in headers)
        return cls(listed, channels or (1 if grey else 3), height, width, labels)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(n, channels, height, width)."""
        return len(self.paths), self.channels, self.height, self.width

    def __getitem__(self, rows: Any) -> Any:
        """Return one ImageFile, or ImageFiles at a slice, positions or a mask."""
        rows = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn's splitters ask for [rows, ...]
        if isinstance(rows, (int, np.integer)):
            return ImageFile(self.paths[rows], self.channels, self.height, self.width)
        rows = rows if isinstance(rows, slice) else np.asarray(rows)
        return replace(self, paths=self.paths[rows], y=None if self.y is None else self.y[rows])

    def __repr__(self) -> str:
        colours = "grey" if self.channels == 1 else "colour"
        return f"ImageFiles({len(self):,} {colours} images, {self.height}x{self.width})"


@dataclass(frozen=True, eq=False)
class ImageSamples:
    """Image files as samples `(n, c, h, w)` of uint8, decoded when asked for."""

    paths: np.ndarray
    channels: int
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.paths), self.channels, self.height, self.width

    def __getitem__(self, rows: Rows) -> Tensor:
        (images,) = self.read([rows])
        return images

    def at(self, rows: Rows) -> ImageSamples:
        return replace(self, paths=self.paths[rows if isinstance(rows, slice) else rows.numpy()])

    def identity(self) -> object:
        """Return the form of the images, and each file's path and size."""
        return self.shape, [(path, os.path.getsize(path)) for path in self.paths.tolist()]

    def read(self, row_batches: Sequence[Rows]) -> Iterator[Tensor]:
        """Yield the images of each batch `(B, c, h, w)`; while one is used, the next is being decoded."""
        pool = ThreadPoolExecutor(WORKERS)
        started: deque[tuple[np.ndarray, list[Future[None]]]] = deque()
        try:
            for rows in row_batches:
                started.append(self._start(pool, rows))
                if len(started) == 2:
                    yield _finish(*started.popleft())
            while started:
                yield _finish(*started.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _start(self, pool: ThreadPoolExecutor, rows: Rows) -> tuple[np.ndarray, list[Future[None]]]:
        some = self.at(rows)
        images = np.empty(some.shape, dtype=np.uint8)
        return images, [pool.submit(some._decode_into, images, i) for i in range(len(some))]

    def _decode_into(self, images: np.ndarray, i: int) -> None:
        image = decode_image(self.paths[i], channels=self.channels, size=(self.height, self.width))
        images[i] = np.moveaxis(image, -1, 0)


def image_samples(paths: np.ndarray, channels: int, height: int, width: int) -> Tensor | ImageSamples:
    """Return the images of these files: in memory where they take at most `AT_ONCE` bytes, else left on disk."""
    samples = ImageSamples(paths, channels, height, width)
    return samples[:] if len(paths) * channels * height * width <= AT_ONCE else samples


def in_parallel(function: Callable[[str], Read], paths: Iterable[str]) -> list[Read]:
    """Return function(path) of every path, in order, computed by several threads."""
    todo = list(paths)
    groups = [todo[start : start + GROUP] for start in range(0, len(todo), GROUP)]
    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            return [
                result for results in pool.map(lambda group: list(map(function, group)), groups) for result in results
            ]
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, the rest need not be looked at


def _finish(images: np.ndarray, futures: list[Future[None]]) -> Tensor:
    for future in futures:
        future.result()
    return torch.from_numpy(images)


def _readable(paths: np.ndarray) -> np.ndarray:
    """Return a mask of the files that can be decoded, having warned of the others by name."""

    def problem(path: str) -> str | None:
        try:
            decode_image(path)
        except BadFile as error:
            return str(error).split("; ")[0]
        return None

    problems = in_parallel(problem, paths)
    bad = [text for text in problems if text is not None]
    if bad:
        more = f"\n  and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
        listing = "".join(f"\n  {text}" for text in bad[:NAMED])
        warnings.warn(
            f"{len(bad)} of {len(paths)} image files cannot be read and are skipped:{listing}{more}", stacklevel=4
        )
    return np.array([text is None for text in problems], dtype=bool)


def _checked_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side >= 1 for side in sides):
        raise UserError(f"size must be a side in pixels, (height, width) or None, but got {size!r}; pass size=128.")
    return sides[0], sides[1]


def _median_size(headers: Sequence[Header]) -> tuple[int, int]:
    """Return the median height and width, both reduced alike until neither is above `LARGEST`."""
    height = float(np.median([header.height for header in headers]))
    width = float(np.median([header.width for header in headers]))
    scale = min(1.0, LARGEST / max(height, width))
    return max(SMALLEST, round(height * scale)), max(SMALLEST, round(width * scale))
