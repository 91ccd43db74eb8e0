"""One entry for the files people have: CSV, Parquet, .npz, and image folders by class; labelled or not."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.data.archives import Roles, read_archive
from protoattend.data.delimited import (
    MISSING,
    Delimited,
    data_frame,
    first_record,
    read_delimited,
    warn_of_odd_cells,
)
from protoattend.data.image_folders import IMAGE_SUFFIXES
from protoattend.data.images import ImageFiles
from protoattend.data.labels import Classes
from protoattend.data.parquet import read_parquet
from protoattend.errors import BadFile, UserError, choose

IMAGE_OPTIONS = ("size", "channels", "corrupt")
TEXTS, LONG = 20, 40  # so many cells of so many characters each are texts rather than categories


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Samples read from disk: X as fit takes it, y or None where there are no labels, and what was read, in words."""

    X: Any
    y: np.ndarray | None
    description: str
    place: str  # where the labels stand, or would stand
    ids: np.ndarray | None = None  # what each row is called, where a column of identifiers was named
    header: bool = True  # whether the columns of a table have names of their own

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
    """What the caller asked for: the names of labels, texts, samples and identifiers, and how the file is laid out."""

    target: str | None
    text: str | None
    samples: str | None
    id_column: str | None
    header: bool | None
    images: Mapping[str, Any]


def read_data(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    text: str | None = None,
    samples: str | None = None,
    id_column: str | None = None,
    header: bool | None = None,
    **images: Any,
) -> LabelledData:
    """Read samples, and labels where there are any, going by what `path` is.

    Parameters
    ----------
    path : path
        A folder of images, labelled by its class folders; an image; a table (.csv, .tsv, .txt, .parquet, .pq); or
        arrays (.npz).
    target : str, default=None
        The column, or the array ("y" unless named), of the labels. In a CSV file without a header, its number.
    text : str, default=None
        The column of texts to learn from; None takes all columns but the target as a table.
    samples : str, default=None
        The array of samples in an .npz file; None takes "X", or the only one that can be samples.
    id_column : str, default=None
        The column, or the array, that says what each row is called; it is kept as `ids`, and nothing is learned of it.
    header : bool, default=None
        Whether the first line of a CSV file names the columns; None goes by what is in it.
    **images
        How images are read: size, channels and corrupt as in `ImageFiles.from_folder`.

    Returns
    -------
    data : LabelledData
        `X` as `fit` takes it, `y` and `ids` of shape (n,) or None, and a `description`; `for_fit()` returns X and y,
        checked. Rows are numbered from 0, a header not counted.

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
    for name in images:
        if name not in IMAGE_OPTIONS:
            raise TypeError(f"read_data() got an unexpected keyword argument {name!r}")
    wanted = Wanted(target, text, samples, id_column, header, images)
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


def first_line(path: Path) -> list[str]:
    """Return the cells of the first line of a CSV file, and none of what is no such file."""
    return first_record(path) if path.is_file() and READERS.get(path.suffix.lower()) is _read_csv else []


def _read_images(path: Path, wanted: Wanted) -> LabelledData:
    for name in ("target", "text", "id_column"):
        if getattr(wanted, name) is not None:
            raise UserError(
                f"{name} names a column of a table, but {path} holds images, whose folders are their labels; "
                f"leave {name} out."
            )
    how = wanted.images
    images = ImageFiles.from_folder(path, **how) if path.is_dir() else ImageFiles.from_paths([path], **how)
    classes = "" if images.y is None else f" of {len(np.unique(images.y))} classes"
    colours = "grey" if images.channels == 1 else "colour"
    description = f"{len(images):,} images{classes}, read as {images.height}x{images.width} {colours}"
    return LabelledData(images, images.y, description, str(path))


def _read_csv(path: Path, wanted: Wanted) -> LabelledData:
    table = read_delimited(path, header=wanted.header)
    names = list(table.columns)
    wanted = _named(path, names, wanted, header=table.header)
    y = None if wanted.target is None else _labels(table, wanted.target)
    ids = None if wanted.id_column is None else np.array(table.stripped(wanted.id_column), dtype=object)
    if wanted.text is not None:
        if table.numbers(wanted.text) is not None and not MISSING.issuperset(table.stripped(wanted.text)):
            raise _not_text(path, wanted.text, "numbers")
        return replace(_texts(path, table.columns[wanted.text], y, ids, wanted), header=table.header)
    apart = (wanted.target, wanted.id_column)
    X = data_frame({name: table.typed(name) for name in names if name not in apart})
    warn_of_odd_cells(table, [name for name in X.columns if X[name].dtype.kind == "O"])
    note = "; its first column, row names without a heading, is left out" if table.unnamed_first else ""
    note += "" if table.header else "; it has no header, so columns go by number"
    return replace(_table(path, X, y, ids, wanted, note), header=table.header)


def _named(path: Path, names: list[str], wanted: Wanted, *, header: bool = True) -> Wanted:
    """Return what is wanted with names of columns there are; without a header, a number is the name of a column."""

    def name_of(what: str) -> str | None:
        name = getattr(wanted, what)
        if name is None:
            return None
        with suppress(ValueError, IndexError):
            if not header:
                return names[int(name)]
        return choose(name, names, f"{what}, a column of {path},")

    found = {what: name_of(what) for what in ("target", "text", "id_column")}
    given = [name for name in found.values() if name is not None]
    for name in given:
        if given.count(name) > 1:
            raise UserError(f"a column has one role, but {name!r} was named twice as {', '.join(found)}; name another.")
    return replace(wanted, target=found["target"], text=found["text"], id_column=found["id_column"])


def _labels(table: Delimited, target: str) -> np.ndarray:
    cells = table.stripped(target)
    missing = [row for row, cell in enumerate(cells) if cell in MISSING]
    if missing:
        where = f"row {missing[0]} (line {table.lines[missing[0]]} of the file)"
        raise _missing_labels(table.path, target, len(missing), len(cells), where)
    numbers = table.numbers(target)
    return numbers if numbers is not None else np.array(cells, dtype=np.str_)


def _read_parquet(path: Path, wanted: Wanted) -> LabelledData:
    frame = read_parquet(path)
    names = list(frame.columns)
    if len(frame) == 0:
        raise BadFile(f"{path}: a table needs at least one row, but it has only its columns {names[:20]}.")
    wanted = _named(path, names, wanted)
    y = None if wanted.target is None else _frame_labels(path, frame[wanted.target])
    ids = None if wanted.id_column is None else np.array(frame[wanted.id_column].tolist(), dtype=object)
    if wanted.text is not None:
        cells = frame[wanted.text].astype(object).fillna("").tolist()  # of its own type, a category takes no ""
        other = next((cell for cell in cells if not isinstance(cell, str)), None)
        if other is not None:
            raise _not_text(path, wanted.text, f"{type(other).__name__}s such as {other!r}")
        return _texts(path, cells, y, ids, wanted)
    apart = [name for name in (wanted.target, wanted.id_column) if name is not None]
    return _table(path, frame.drop(columns=apart), y, ids, wanted, "")


def _frame_labels(path: Path, column: Any) -> np.ndarray:
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise _missing_labels(path, column.name, len(missing), len(column), f"row {missing[0]}")
    values = np.asarray(column.astype(object) if column.dtype.name == "category" else column)
    return np.array(values.tolist()) if values.dtype == object else values


def _read_npz(path: Path, wanted: Wanted) -> LabelledData:
    if wanted.text is not None:
        raise UserError(f"text names a column of a table, but {path} holds arrays; name its texts with samples.")
    arrays, roles = read_archive(path, Roles(wanted.samples, wanted.target, wanted.id_column))
    X, y, ids = (None if name is None else arrays[name] for name in (roles.samples, roles.target, roles.id_column))
    assert X is not None, "read_archive found it"
    for name, other in ((roles.target, y), (roles.id_column, ids)):
        if other is not None and (X.ndim == 0 or other.ndim == 0 or len(X) != len(other)):
            raise BadFile(
                f"{path}: {roles.samples!r} and {name!r} must be of one length, but they have shapes {X.shape} and "
                f"{other.shape}."
            )
    labels = "" if y is None else f", {len(np.unique(y))} classes"
    guessed = {name for name in (roles.samples, roles.target) if name is not None} - {
        "X",
        "y",
        wanted.samples,
        wanted.target,
    }
    note = f", arrays {' and '.join(map(repr, sorted(guessed)))}" if guessed else ""
    shape = " x ".join(map(str, X.shape[1:])) or "one"
    description = f"{len(X):,} samples of {shape} values{labels}{note}"
    return LabelledData(X, y, description, f"{path}, array {(roles.target or 'y')!r}", ids)


READERS: dict[str, Callable[[Path, Wanted], LabelledData]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_csv,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".npz": _read_npz,
}


def _table(path: Path, X: Any, y: np.ndarray | None, ids: np.ndarray | None, wanted: Wanted, note: str) -> LabelledData:
    if X.shape[1] == 0:
        raise UserError(f"{path}: a table needs columns besides its target {wanted.target!r}, but it has none.")
    _warn_of_texts(X, wanted)
    description = f"{len(X):,} rows of {X.shape[1]} columns{_target(y, wanted)}{note}"
    return LabelledData(X, y, description, _place(path, wanted), ids)


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


def _texts(
    path: Path, texts: Sequence[str], y: np.ndarray | None, ids: np.ndarray | None, wanted: Wanted
) -> LabelledData:
    description = f"{len(texts):,} texts in {wanted.text!r}{_target(y, wanted)}"
    return LabelledData(list(texts), y, description, _place(path, wanted), ids)


def _target(y: np.ndarray | None, wanted: Wanted) -> str:
    return "" if y is None else f", target {wanted.target!r} of {len(np.unique(y))} classes"


def _place(path: Path, wanted: Wanted) -> str:
    return str(path) if wanted.target is None else f"{path}, column {wanted.target!r}"


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
