"""The lines of the catalogue: how each data set of the paper lies in a folder, and what reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.datasets import formats
from protoattend.errors import BadFile

SPLITS = ("train", "test")
ISIC_SIZE = 128  # Appendix A: "All images are resized to 128 x 128 pixels."
ISIC_SEED = 0
ISIC_TEST_SHARE = 0.2
DIGITS = tuple("0123456789")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


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


def _present(path: Path) -> Path | None:
    packed = path.with_name(path.name + ".gz")
    return path if path.exists() else packed if packed.exists() else None


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
