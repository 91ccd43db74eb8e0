"""One entry for the files people have: CSV, Parquet, .npz, and image folders by class; labelled or not."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.data.delimited import MISSING, Delimited, data_frame, read_delimited
from protoattend.data.image_folders import IMAGE_SUFFIXES
from protoattend.data.images import ImageFiles
from protoattend.data.labels import Classes
from protoattend.errors import ARRAY_ERRORS, BadFile, MissingExtra, UserError, choose

ALWAYS, EXPANSION = 1 << 28, 200  # bytes of arrays that are always read, and times the size of their archive
TEXTS, LONG = 20, 40  # so many cells of so many characters each are texts rather than categories


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Samples read from disk: X as fit takes it, y or None where there are no labels, and what was read, in words."""

    X: Any
    y: np.ndarray | None
    description: str
    place: str  # where the labels stand, or would stand

    def labels(self) -> np.ndarray:
        """Return y, or raise where there are no labels."""
        if self.y is None:
            raise UserError(f"{self.place}: labels are needed, but none were read; {self._how_to_label()}")
        return self.y

    def for_fit(self) -> tuple[Any, np.ndarray]:
        """Return X and y, or raise where a classifier cannot be trained on these labels, naming their place."""
        y = self.labels()
        try:
            Classes.fit(y)
        except UserError as error:
            raise UserError(f"{self.place}: {error}") from None
        return self.X, y

    def _how_to_label(self) -> str:
        if isinstance(self.X, ImageFiles):
            return "put the images into a folder for each class."
        return "pass target=... (--target on the command line) with the name of the labels."


@dataclass(frozen=True)
class Wanted:
    """What the caller asked for: the name of the labels, of the texts or samples, and how images are to be read."""

    target: str | None
    text: str | None
    samples: str
    size: int | tuple[int, int] | None
    channels: int | None
    corrupt: str


def read_data(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    text: str | None = None,
    samples: str = "X",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    corrupt: str = "raise",
) -> LabelledData:
    """Read samples, and labels where there are any, going by what `path` is.

    Parameters
    ----------
    path : path
        A folder of images, labelled by its class folders; an image; a table (.csv, .tsv, .txt, .parquet, .pq); or
        arrays (.npz).
    target : str, default=None
        The column, or the array ("y" unless named), of the labels.
    text : str, default=None
        The column of texts to learn from; None takes all columns but the target as a table.
    samples : str, default="X"
        The array of samples in an .npz file.
    size, channels, corrupt
        How images are read: those of `ImageFiles.from_folder`.

    Returns
    -------
    data : LabelledData
        `X` as `fit` takes it, `y` of shape (n,) or None, and a `description`; `for_fit()` returns X and y, checked.

    Raises
    ------
    UserError
        If there is no such file, column or array, or a label is missing.
    BadFile
        If a file cannot be read.
    MissingExtra
        If pandas, pyarrow or Pillow is needed and not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("age,job,income\\n39,clerk,low\\n50,manager,high\\n")
    ...     data = read_data(path, target="income")
    >>> data.X.shape, data.y.tolist()
    ((2, 2), ['low', 'high'])
    """
    wanted = Wanted(target, text, samples, size, channels, corrupt)
    place = Path(path)
    if not place.exists():
        raise UserError(f"there must be a file or folder to read, but {place} does not exist; check the path.")
    if place.is_dir() or place.suffix.lower() in IMAGE_SUFFIXES:
        return _read_images(place, wanted)
    reader = READERS.get(place.suffix.lower())
    if reader is None:
        raise UserError(
            f"data must be a folder of images, or a file that ends in {', '.join(READERS)} or like an image, but got "
            f"{place}; convert it first."
        )
    if place.stat().st_size == 0:
        raise BadFile(f"{place}: there must be something to read, but the file is empty.")
    return reader(place, wanted)


def _read_images(path: Path, wanted: Wanted) -> LabelledData:
    for name, value in (("target", wanted.target), ("text", wanted.text)):
        if value is not None:
            raise UserError(
                f"{name} names a column of a table, but {path} holds images, whose folders are their labels; "
                f"leave {name} out."
            )
    how: dict[str, Any] = {"size": wanted.size, "channels": wanted.channels, "corrupt": wanted.corrupt}
    images = ImageFiles.from_folder(path, **how) if path.is_dir() else ImageFiles.from_paths([path], **how)
    classes = "" if images.y is None else f" of {len(np.unique(images.y))} classes"
    colours = "grey" if images.channels == 1 else "colour"
    description = f"{len(images):,} images{classes}, read as {images.height}x{images.width} {colours}"
    return LabelledData(images, images.y, description, str(path))


def _read_csv(path: Path, wanted: Wanted) -> LabelledData:
    table = read_delimited(path)
    names = list(table.columns)
    y = None
    if wanted.target is not None:
        _require_column(path, names, wanted.target, "target")
        y = _labels(table, wanted.target)
    if wanted.text is not None:
        _require_column(path, names, wanted.text, "text")
        if table.numbers(wanted.text) is not None and not MISSING.issuperset(table.stripped(wanted.text)):
            raise _not_text(path, wanted.text, "numbers")
        return _texts(path, table.columns[wanted.text], y, wanted)
    X = data_frame({name: table.typed(name) for name in names if name != wanted.target})
    note = "; its first column, row names without a heading, is left out" if table.unnamed_first else ""
    return _table(path, X, y, wanted, note)


def _labels(table: Delimited, target: str) -> np.ndarray:
    cells = table.stripped(target)
    missing = [row for row, cell in enumerate(cells) if cell in MISSING]
    if missing:
        where = f"line {table.lines[missing[0]]}"
        raise _missing_labels(table.path, target, len(missing), len(cells), where)
    numbers = table.numbers(target)
    return numbers if numbers is not None else np.array(cells, dtype=np.str_)


def _read_parquet(path: Path, wanted: Wanted) -> LabelledData:
    try:
        import pandas
        import pyarrow  # noqa: F401 pandas needs it, and names no install command of ours
    except ImportError as error:
        raise MissingExtra("pandas and pyarrow", "parquet", "reading Parquet files") from error
    try:
        frame = pandas.read_parquet(path, engine="pyarrow").reset_index(drop=True)
    except (ValueError, OSError, NotImplementedError, KeyError) as error:  # pyarrow's own errors are among these
        reason = str(error).splitlines()[0]
        raise BadFile(f"{path}: not a readable Parquet file ({reason}); it is cut short or of another kind.") from None
    frame.columns = [str(name) for name in frame.columns]
    names = list(frame.columns)
    if len(frame) == 0:
        raise BadFile(f"{path}: a table needs at least one row, but it has only its columns {names[:20]}.")
    y = None
    if wanted.target is not None:
        _require_column(path, names, wanted.target, "target")
        y = _frame_labels(path, frame[wanted.target])
    if wanted.text is not None:
        _require_column(path, names, wanted.text, "text")
        cells = frame[wanted.text].astype(object).fillna("").tolist()  # of its own type, a category takes no ""
        other = next((cell for cell in cells if not isinstance(cell, str)), None)
        if other is not None:
            raise _not_text(path, wanted.text, f"{type(other).__name__}s such as {other!r}")
        return _texts(path, cells, y, wanted)
    return _table(path, frame.drop(columns=[] if y is None else [wanted.target]), y, wanted, "")


def _frame_labels(path: Path, column: Any) -> np.ndarray:
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise _missing_labels(path, column.name, len(missing), len(column), f"row {missing[0]}")
    values = np.asarray(column.astype(object) if column.dtype.name == "category" else column)
    return np.array(values.tolist()) if values.dtype == object else values


def _read_npz(path: Path, wanted: Wanted) -> LabelledData:
    if wanted.text is not None:
        raise UserError(f"text names a column of a table, but {path} holds arrays; name its texts with samples.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = list(archive.files)
            choose(wanted.samples, held, f"samples, an array of {path},")
            if wanted.target is not None:
                choose(wanted.target, held, f"target, an array of {path},")
            target = wanted.target or "y"
            _require_room(path)
            X, y = archive[wanted.samples], archive[target] if target in held else None
    except UserError:
        raise
    except ValueError as error:
        objects = "allow_pickle" in str(error)
        fix = "it holds Python objects, which are never unpickled; save plain arrays" if objects else error
        raise BadFile(f"{path}: not a readable archive of arrays ({fix}).") from None
    except (*ARRAY_ERRORS, TypeError, KeyError) as error:  # TypeError: a bare .npy under the name .npz
        raise BadFile(f"{path}: not a readable archive of arrays ({error}); save it with numpy.savez.") from None
    if y is not None and (X.ndim == 0 or y.ndim == 0 or len(X) != len(y)):
        raise BadFile(f"{path}: X and y must be of one length, but they have shapes {X.shape} and {y.shape}.")
    labels = "" if y is None else f", {len(np.unique(y))} classes"
    shape = " x ".join(map(str, X.shape[1:])) or "one"
    return LabelledData(X, y, f"{len(X):,} samples of {shape} values{labels}", f"{path}, array {target!r}")


def _require_room(path: Path) -> None:
    """Raise where the arrays of an archive are far larger than the file: zeros, packed to fill the memory."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(ALWAYS, EXPANSION * path.stat().st_size):
        raise BadFile(
            f"{path}: arrays must take at most {EXPANSION} times the size of their file, but these take {unpacked} "
            "bytes; save them with numpy.savez, uncompressed."
        )


READERS: dict[str, Callable[[Path, Wanted], LabelledData]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_csv,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".npz": _read_npz,
}


def _table(path: Path, X: Any, y: np.ndarray | None, wanted: Wanted, note: str) -> LabelledData:
    if X.shape[1] == 0:
        raise UserError(f"{path}: a table needs columns besides its target {wanted.target!r}, but it has none.")
    _warn_of_texts(X, wanted)
    description = f"{len(X):,} rows of {X.shape[1]} columns{_target(y, wanted)}{note}"
    return LabelledData(X, y, description, _place(path, wanted))


def _warn_of_texts(X: Any, wanted: Wanted) -> None:
    """Warn before training if a column holds texts: as categories, hardly two alike, they tell nothing."""
    if wanted.target is None:
        return
    for name in X.columns:
        words = [cell for cell in X[name] if isinstance(cell, str)] if X[name].dtype.kind == "O" else []
        if len(words) >= TEXTS and len(set(words)) > 0.9 * len(words) and sum(map(len, words)) > LONG * len(words):
            warnings.warn(
                f"column {name!r} holds texts, which a table takes as categories, and hardly two are alike; pass "
                f"text={name!r} (--text on the command line) to learn from them instead.",
                stacklevel=5,
            )


def _texts(path: Path, texts: Sequence[str], y: np.ndarray | None, wanted: Wanted) -> LabelledData:
    return LabelledData(
        list(texts), y, f"{len(texts):,} texts in {wanted.text!r}{_target(y, wanted)}", _place(path, wanted)
    )


def _target(y: np.ndarray | None, wanted: Wanted) -> str:
    return "" if y is None else f", target {wanted.target!r} of {len(np.unique(y))} classes"


def _place(path: Path, wanted: Wanted) -> str:
    return str(path) if wanted.target is None else f"{path}, column {wanted.target!r}"


def _require_column(path: Path, names: list[str], name: str, what: str) -> None:
    choose(name, names, f"{what}, a column named in the first line of {path},")


def _not_text(path: Path, name: str, found: str) -> UserError:
    return UserError(
        f"{path}: text must name a column of texts, but {name!r} holds {found}; leave text out to read a "
        "table, or name another column."
    )


def _missing_labels(path: Path, target: str, count: int, total: int, where: str) -> UserError:
    return UserError(
        f"{path}: every row needs a label, but {count} of {total} cells of {target!r} are empty, the first at {where}; "
        "fill them in or remove these rows."
    )
