"""The data sets of the paper (Section 4 and Appendix A), each read from its original files wherever they lie.

They are looked for under the folder passed, or else under each folder named by PROTOATTEND_DATA, then under
~/.cache/protoattend, then where systems keep shared data; `protoattend.datasets.fetch.get` brings those missing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.data.delimited import data_frame
from protoattend.datasets.entries import BY_HAND, CATALOGUE, ISIC_TEST_SHARE, SPLITS, Entry, Form, Samples
from protoattend.errors import BadFile, UserError, choose

SYSTEM_FOLDERS = (Path("/usr/share/datasets"), Path("/usr/local/share/datasets"))


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set.

    Attributes
    ----------
    name : str
    kind : {"images", "text", "table", "features"}
    X : object
        uint8 `(n, h, w)` or `(n, h, w, 3)` for "images", a list of str for "text", a pandas DataFrame for "table",
        float32 `(n, 2048)` for "features".
    y : ndarray of shape (n,)
        Ints that index `classes`, or the class names where labels come as names.
    classes : tuple of str
    source : Path
        The folder it was read from.
    note : str, default=""
        How the rows differ from the published split, if they do.

    Examples
    --------
    >>> Dataset("mine", "images", np.zeros((2, 28, 28)), np.array([0, 1]), ("0", "1"), Path("mine")).X.shape
    (2, 28, 28)
    """

    name: str
    kind: str
    X: Any = field(repr=False)
    y: np.ndarray = field(repr=False)
    classes: tuple[str, ...]
    source: Path
    note: str = ""


@dataclass(frozen=True)
class Status:
    """Where a data set was found, and which splits of it; `rows` are as published, `size` is of the files found."""

    name: str
    kind: str
    found: Path | None
    splits: tuple[str, ...]
    rows: str
    size: str
    how_to_get: str


def load(name: str, split: str = "train", *, folder: str | Path | None = None) -> Dataset:
    """Return one split of a data set of the paper, read from its original files.

    Parameters
    ----------
    name : str
        "mnist", "fashion-mnist", "cifar-10", "fruits", "isic", "awa-features", "dbpedia", "adult", "svhn" or
        "notmnist".
    split : {"train", "test"}, default="train"
    folder : str, path or None, default=None
        Where to look, the set's own folder or the one above; None looks under each folder of PROTOATTEND_DATA, then
        under ~/.cache/protoattend, then where systems keep shared data.

    Returns
    -------
    Dataset

    Raises
    ------
    UserError
        Where the set is not there; the message says how to get it.
    BadFile
        Where a file of it is damaged.

    Examples
    --------
    >>> train = load("mnist")  # doctest: +SKIP
    >>> train.X.shape, train.y.shape, train.classes[:3]  # doctest: +SKIP
    ((60000, 28, 28), (60000,), ('0', '1', '2'))
    >>> load("mnits")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    protoattend.errors.UserError: the data set must be one of 'mnist', ...; did you mean 'mnist'?
    """
    entry = catalogue_entry(name)
    choose(split, SPLITS, "split")
    samples, source = read(name, split, folder=folder)
    X = data_frame(samples.X) if entry.kind == "table" else samples.X
    note = _note(entry, split, samples)
    return Dataset(name, entry.kind, X, samples.y, samples.classes, source, note)


def read(name: str, split: str, *, folder: str | Path | None = None) -> tuple[Samples, Path]:
    """Return the samples of a split and the folder they were read from, a table as its bare columns."""
    entry = catalogue_entry(name)
    place = _locate(entry, split, folder)
    if place is None:
        roots = ", ".join(str(root) for root in search_path(folder))
        raise UserError(
            f"the {split} split of {name!r} must lie in a folder {entry.folders[0]!r} under {roots}, but "
            f"none there holds {wanted_files(entry, split)}; get it with {how_to_get(entry)}, "
            f"or set PROTOATTEND_DATA to the folder above it."
        )
    source, form = place
    samples = form.read(form.files(source, split) or [], split)
    if len(samples.y) == 0:
        raise BadFile(f"{source}: the {split} split of {name!r} holds no rows; fetch it again.")
    return samples, source


def status(*, folder: str | Path | None = None) -> list[Status]:
    """Return for every data set where it was found, how large it is, and how to get it.

    Parameters
    ----------
    folder : str, path or None, default=None
        Where to look; None as in `load`.

    Returns
    -------
    list of Status
        With `name`, `kind`, `found` (a folder or None), `splits`, `rows`, `size` and `how_to_get`.

    Examples
    --------
    >>> [entry.name for entry in status()][:3]
    ['mnist', 'fashion-mnist', 'cifar-10']
    """
    return [_status(entry, folder) for entry in CATALOGUE.values()]


def melanoma_or_benign(y: np.ndarray) -> np.ndarray:
    """Return the paper's two-way task for "isic": 'melanoma', or 'benign' for every other lesion.

    "Benign" is the paper's word (Appendix A); the carcinomas among the nine classes fall under it too.

    Parameters
    ----------
    y : array-like of str of shape (n,)

    Returns
    -------
    ndarray of str of shape (n,)

    Examples
    --------
    >>> melanoma_or_benign(["melanoma", "nevus"]).tolist()
    ['melanoma', 'benign']
    """
    return np.where(np.asarray(y) == "melanoma", "melanoma", "benign")


def catalogue_entry(name: str) -> Entry:
    """Return the catalogue's line for `name`, or raise and suggest the nearest name."""
    return CATALOGUE[choose(name, CATALOGUE, "the data set")]


def search_path(folder: str | Path | None = None) -> list[Path]:
    """Return the folders under which data sets are looked for; a folder passed is the only one."""
    if folder is not None:
        return [Path(folder).expanduser()]
    named = os.environ.get("PROTOATTEND_DATA", "").split(os.pathsep)
    return [*(Path(part).expanduser() for part in named if part), cache_folder(), *SYSTEM_FOLDERS]


def cache_folder() -> Path:
    """Return where fetched data sets are kept unless a folder is named."""
    return Path.home() / ".cache" / "protoattend"


def wanted_files(entry: Entry, split: str) -> str:
    """Return the files a split needs, in words: one alternative a form."""
    return " or ".join(", ".join(form.train if split == "train" else form.test) for form in entry.forms)


def how_to_get(entry: Entry) -> str:
    """Return in words how to get a data set that is missing."""
    if entry.name in BY_HAND:
        return f"a download by hand from {BY_HAND[entry.name]} into {cache_folder() / entry.folders[0]}"
    return f"protoattend datasets get {entry.name}"


def _status(entry: Entry, folder: str | Path | None) -> Status:
    places = {split: place for split in SPLITS if (place := _locate(entry, split, folder)) is not None}
    files = {file for split, (source, form) in places.items() for file in form.files(source, split) or ()}
    found = next((source for source, _ in places.values()), None)
    rows = "varies by version" if entry.rows is None else "{:,} / {:,}".format(*entry.rows)
    size = f"{sum(_size(file) for file in files) / 1e6:,.1f} MB" if found else ""
    return Status(entry.name, entry.kind, found, tuple(places), rows, size, how_to_get(entry))


def _locate(entry: Entry, split: str, folder: str | Path | None) -> tuple[Path, Form] | None:
    # A folder passed may be the set's own. Elsewhere it may not: MNIST and its kin share their file names.
    names = entry.folders if folder is None else (*entry.folders, "")
    for root in search_path(folder):
        for name in names:
            for form in entry.forms:
                if form.files(root / name, split) is not None:
                    return (root / name).absolute(), form
    return None


def _size(path: Path) -> int:
    return sum(part.stat().st_size for part in (path.rglob("*") if path.is_dir() else (path,)) if part.is_file())


def _note(entry: Entry, split: str, samples: Samples) -> str:
    if entry.name == "isic":
        return f"own split of Train and Test: stratified, {1 - ISIC_TEST_SHARE:.0%} train, by a fixed seed"
    count = len(samples.y)
    if entry.rows is None:
        return f"versions of this set differ: here are {count:,} {split} rows, {len(samples.classes)} classes"
    published = entry.rows[SPLITS.index(split)]
    if count == published:
        return ""
    return f"subset, not the official split: {count:,} rows where the published {split} split has {published:,}"
