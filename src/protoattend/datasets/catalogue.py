"""The data sets of the paper (Section 4 and Appendix A), each read from its original files wherever they lie.

They are looked for under the folder passed, or else under each folder named by PROTOATTEND_DATA, then under
~/.cache/protoattend, then where systems keep shared data; `protoattend.datasets.fetch.get` brings those missing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.data.delimited import data_frame
from protoattend.datasets import formats
from protoattend.errors import BadFile, UserError, choose

SPLITS = ("train", "test")
SYSTEM_FOLDERS = (Path("/usr/share/datasets"), Path("/usr/local/share/datasets"))
ISIC_SIZE = 128  # Appendix A: "All images are resized to 128 x 128 pixels."
ISIC_SEED = 0
ISIC_TEST_SHARE = 0.2
DIGITS = tuple("0123456789")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set.

    X is uint8 `(n, h, w)` or `(n, h, w, 3)` for "images", a list of str for "text", a pandas DataFrame for
    "table", float32 `(n, 2048)` for "features". y `(n,)` holds ints that index `classes`, or the class names
    where labels come as names. `note` says how the rows differ from the published split, if they do.
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


@dataclass(frozen=True, eq=False)
class Samples:
    """What a reader gives back; X of a table is still a dict of columns, so that reading needs no pandas."""

    X: Any
    y: np.ndarray
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """One way a set lies in a folder: the files a split needs (each may be gzipped, images apart) and their reader."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Callable[[list[Path], str], Samples]

    def files(self, folder: Path, split: str) -> list[Path] | None:
        """Return the files of a split that lie in `folder`, or None unless all do."""
        found = [_present(folder / name) for name in (self.train if split == "train" else self.test)]
        return None if None in found else [path for path in found if path is not None]


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue; `rows` (train, test) is None where versions of the set differ."""

    name: str
    kind: str
    folders: tuple[str, ...]
    forms: tuple[Form, ...]
    rows: tuple[int, int] | None = None


def load(name: str, split: str = "train", *, folder: str | Path | None = None) -> Dataset:
    """Return one split of a data set of the paper, read from its original files.

    >>> train = load("mnist")  # doctest: +SKIP
    >>> train.X.shape, train.y.shape, train.classes[:3]  # doctest: +SKIP
    ((60000, 28, 28), (60000,), ('0', '1', '2'))
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
    """Return for every data set where it was found, how large it is, and how to get it."""
    return [_status(entry, folder) for entry in CATALOGUE.values()]


def melanoma_or_benign(y: np.ndarray) -> np.ndarray:
    """Return the paper's two-way task for "isic": 'melanoma', or 'benign' for every other lesion.

    "Benign" is the paper's word (Appendix A); the carcinomas among the nine classes fall under it too.
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


def _present(path: Path) -> Path | None:
    packed = path.with_name(path.name + ".gz")
    return path if path.exists() else packed if packed.exists() else None


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


def _plain(read_arrays: Callable[..., tuple[Any, np.ndarray]], classes: tuple[str, ...]) -> Any:
    """Return a reader of a split whose files alone determine it and whose classes are known beforehand."""
    return lambda files, split: Samples(*read_arrays(*files), classes)


def _list_images(folder: Path) -> list[tuple[str, Path]]:
    """Return (class, file) of every image in a folder of class folders, ordered by name on every system."""
    files = sorted(file for file in folder.glob("*/*") if file.suffix.lower() in IMAGE_SUFFIXES)
    return [(file.parent.name, file) for file in files]


def _fruits(files: list[Path], split: str) -> Samples:
    listed = _list_images(files[0])
    y = np.array([label for label, _ in listed], dtype=np.str_)
    return Samples(formats.read_images([file for _, file in listed]), y, tuple(sorted(set(y.tolist()))))


def _isic(files: list[Path], split: str) -> Samples:
    listed = [item for part in files for item in _list_images(part)]
    chosen = _stratified(listed)[SPLITS.index(split)]
    y = np.array([label for label, _ in chosen], dtype=np.str_)
    X = formats.read_images([file for _, file in chosen], size=ISIC_SIZE)
    return Samples(X, y, tuple(sorted({label for label, _ in listed})))


def _stratified(listed: list[tuple[str, Path]]) -> tuple[list[tuple[str, Path]], list[tuple[str, Path]]]:
    """Split (class, file) pairs in two, class by class, in the order of a seeded hash of the file names.

    A hash and not a generator: the split is then the same on every system and with every numpy.
    """
    train, test = [], []
    for label in sorted({label for label, _ in listed}):
        files = [file for other, file in listed if other == label]
        files.sort(key=lambda file: hashlib.sha256(f"{ISIC_SEED}/{file.name}".encode()).digest())
        n_test = max(round(ISIC_TEST_SHARE * len(files)), int(len(files) > 1))
        test += [(label, file) for file in files[:n_test]]
        train += [(label, file) for file in files[n_test:]]
    return train, test


def _dbpedia(files: list[Path], split: str) -> Samples:
    table, names = files
    classes = formats.read_lines(names)
    if len(classes) != 14:
        raise BadFile(f"{names}: must name 14 classes, one a line, but names {len(classes)}; fetch it again.")
    texts, labels = formats.read_dbpedia(table, n_classes=len(classes))
    return Samples(texts, np.array(classes, dtype=np.str_)[labels], classes)


def _idx(classes: tuple[str, ...]) -> tuple[Form, ...]:
    train, test = ((f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for part in ("train", "t10k"))
    return (Form(train, test, _plain(partial(formats.read_idx_pair, n_classes=len(classes)), classes)),)


def _cifar() -> tuple[Form, ...]:
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    bins, sprites = (tuple(f"data_batch_{i}.{kind}" for i in range(1, 6)) for kind in ("bin", "png"))
    binary = Form(bins, ("test_batch.bin",), _plain(formats.read_cifar_binary, classes))
    # "lables" is how the package that carries this form spells it.
    train, test = (*sprites, "train_lables.json"), ("test_batch.png", "test_lables.json")
    return binary, Form(train, test, _plain(formats.read_cifar_sprites, classes))


def _awa() -> tuple[Form, ...]:
    classes = tuple(str(number) for number in range(50))
    read_split = _plain(partial(formats.read_features, n_classes=len(classes)), classes)
    train, test = ((f"{part}_feature_awa.npy", f"{part}_output_awa.npy") for part in ("train", "val"))
    return Form(train, test, read_split), Form(("train.npz",), ("test.npz",), read_split)


_FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_CIFAR_FOLDERS = ("cifar-10", "cifar10", "cifar-10-batches-bin", "cifar-10/cifar-10-batches-bin")
_FRUITS = Form(("Training",), ("Test",), _fruits)
_ISIC = Form(("Train", "Test"), ("Train", "Test"), _isic)
_DBPEDIA = Form(("train.csv", "classes.txt"), ("test.csv", "classes.txt"), _dbpedia)
_ADULT = Form(("adult.data",), ("adult.test",), _plain(formats.read_adult, formats.ADULT_LABELS))
_SVHN = Form(("train_32x32.mat",), ("test_32x32.mat",), _plain(formats.read_svhn, DIGITS))

_ENTRIES = (
    Entry("mnist", "images", ("mnist", "MNIST/raw"), _idx(DIGITS), (60_000, 10_000)),
    Entry("fashion-mnist", "images", ("fashion-mnist", "FashionMNIST/raw"), _idx(_FASHION), (60_000, 10_000)),
    Entry("cifar-10", "images", _CIFAR_FOLDERS, _cifar(), (50_000, 10_000)),
    Entry("fruits", "images", ("fruits", "fruits360", "fruits-360"), (_FRUITS,)),
    Entry("isic", "images", ("isic",), (_ISIC,)),
    Entry("awa-features", "features", ("awa-features", "awa"), _awa()),
    Entry("dbpedia", "text", ("dbpedia", "dbpedia14", "dbpedia_csv"), (_DBPEDIA,), (560_000, 70_000)),
    Entry("adult", "table", ("adult",), (_ADULT,), (32_561, 16_281)),
    Entry("svhn", "images", ("svhn",), (_SVHN,), (73_257, 26_032)),
    Entry("notmnist", "images", ("notmnist", "notMNIST"), _idx(tuple("ABCDEFGHIJ")), (60_000, 10_000)),
)
CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}

# Sets whose home gives no plain file to download: the page a person must visit.
BY_HAND = {
    "isic": "https://www.isic-archive.com",
    "awa-features": "https://github.com/chihkuanyeh/Representer_Point_Selection",
}
