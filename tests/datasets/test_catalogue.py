"""The catalogue: where sets are looked for, what `load` gives, and the real sets where they are at hand."""

from __future__ import annotations

import os
import struct
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from protoattend.app import cli
from protoattend.datasets import catalogue as datasets
from protoattend.datasets import fetch
from protoattend.errors import BadFile, MissingExtra, UserError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def write_idx(folder: Path, labels: list[int], *, part: str = "train", value: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    n = len(labels)
    images = np.full((n, 28, 28), value, np.uint8)
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", n, 28, 28)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", n) + bytes(labels))


def write_classes(folder: Path, counts: dict[str, int], *, size: int) -> None:
    image_module = pytest.importorskip("PIL.Image")
    for label, count in counts.items():
        (folder / label).mkdir(parents=True)
        for number in range(count):
            image_module.new("RGB", (size, size), (number, 0, 0)).save(folder / label / f"{number}.png")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any data set, and no other place to look."""
    monkeypatch.delenv("PROTOATTEND_DATA", raising=False)
    monkeypatch.setattr(datasets, "SYSTEM_FOLDERS", ())
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    return tmp_path / "home"


def real(name: str, split: str, folders: tuple[Path | None, ...] = (None, SHARED)) -> datasets.Dataset:
    for folder in folders:
        try:
            return datasets.load(name, split, folder=folder)
        except BadFile:
            raise
        except UserError:
            continue
    return pytest.skip(f"{name} ({split}) is not here; get it with {datasets.how_to_get(datasets.CATALOGUE[name])}")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'fashion-mnist'"):
        datasets.load("fashion_mnist")
    with pytest.raises(UserError, match="split must be one of 'train', 'test', but got 'validation'"):
        datasets.load("mnist", "validation")


def test_search_path_is_in_order(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, system = (tmp_path / name for name in ("first", "second", "system"))
    monkeypatch.setenv("PROTOATTEND_DATA", f"{first}{os.pathsep}{second}")
    monkeypatch.setattr(datasets, "SYSTEM_FOLDERS", (system,))
    cache = nowhere / ".cache" / "protoattend"
    assert datasets.search_path() == [first, second, cache, system]
    for value, root in enumerate((system, cache, second, first)):
        write_idx(root / "mnist", [value])
        found = datasets.load("mnist")
        assert found.y.tolist() == [value]
        assert found.source == root / "mnist"


def test_a_folder_passed_is_the_only_one_and_may_be_the_sets_own(nowhere: Path, tmp_path: Path) -> None:
    write_idx(nowhere / ".cache" / "protoattend" / "mnist", [1])
    write_idx(tmp_path / "own", [2, 3])
    assert datasets.load("mnist", folder=tmp_path / "own").y.tolist() == [2, 3]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte.*get it with protoattend datasets get"):
        datasets.load("mnist", folder=tmp_path / "empty")


def test_sets_with_the_same_file_names_are_not_confused(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx(tmp_path, [1])
    write_idx(tmp_path / "notmnist", [2], part="t10k")
    monkeypatch.setenv("PROTOATTEND_DATA", str(tmp_path))
    with pytest.raises(UserError, match="'mnist' must lie in a folder"):
        datasets.load("mnist")
    letters = datasets.load("notmnist", "test")
    assert letters.classes[letters.y[0]] == "C"
    with pytest.raises(UserError, match="train split of 'notmnist'"):
        datasets.load("notmnist")


def test_status_tells_what_is_found_and_how_to_get_the_rest(nowhere: Path, tmp_path: Path) -> None:
    write_idx(tmp_path / "fashion-mnist", [0] * 1300)
    lines = {line.name: line for line in datasets.status(folder=tmp_path)}
    assert list(lines) == list(datasets.CATALOGUE)
    assert lines["fashion-mnist"].found == tmp_path / "fashion-mnist"
    assert lines["fashion-mnist"].rows == "60,000 / 10,000"
    assert lines["fashion-mnist"].size == "1.0 MB"
    assert lines["mnist"].found is None
    assert "protoattend datasets get mnist" in lines["mnist"].how_to_get
    assert "https://www.isic-archive.com" in lines["isic"].how_to_get


def test_a_split_alone_is_listed_as_such(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = nowhere / ".cache" / "protoattend"
    write_idx(cache / "notmnist", [1, 2], part="t10k")
    for part in ("train", "t10k"):
        write_idx(cache / "mnist", [1, 2], part=part)
    lines = {line.name: line for line in datasets.status()}
    assert lines["notmnist"].splits == ("test",)
    assert lines["mnist"].splits == ("train", "test")
    assert lines["svhn"].splits == ()
    monkeypatch.setenv("COLUMNS", "400")
    listed = {line.split()[1]: line for line in CliRunner().invoke(cli.app, ["datasets"]).output.splitlines()[3:-1]}
    for part in ("test split only", str(cache / "notmnist"), "get the rest with protoattend datasets get notmnist"):
        assert part in listed["notmnist"]
    assert "found" in listed["mnist"]
    assert "datasets get" not in listed["mnist"]
    assert "missing" in listed["svhn"]


def test_an_empty_split_and_short_counts_are_told(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist", [])
    with pytest.raises(BadFile, match="the train split of 'mnist' holds no rows"):
        datasets.load("mnist", folder=tmp_path)
    write_idx(tmp_path / "mnist", [1, 2])
    assert datasets.load("mnist", folder=tmp_path).note.startswith("subset, not the official split: 2 rows")


def test_the_pickled_cifar_is_not_read(nowhere: Path, tmp_path: Path) -> None:
    for batch in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (tmp_path / batch).write_bytes(b"\x80\x02}q\x01.")
    with pytest.raises(UserError, match=r"data_batch_1\.bin"):
        datasets.load("cifar-10", folder=tmp_path)


def test_dbpedia_and_awa_find_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "dbpedia14"
    folder.mkdir()
    (folder / "test.csv").write_text('2,"T","x"\n14,"","y"\n')
    (folder / "classes.txt").write_text("\n".join(f"Class{i}" for i in range(1, 15)))
    data = datasets.load("dbpedia", "test", folder=tmp_path)
    assert (data.X, data.y.tolist()) == (["x", "y"], ["Class2", "Class14"])
    (folder / "classes.txt").write_text("One\nTwo\n")
    with pytest.raises(BadFile, match=r"classes\.txt: must name 14 classes, one a line, but names 2"):
        datasets.load("dbpedia", "test", folder=tmp_path)
    np.save(tmp_path / "val_feature_awa.npy", np.zeros((2, 2048), np.float32))
    np.save(tmp_path / "val_output_awa.npy", np.eye(50)[[7, 8]])
    features = datasets.load("awa-features", "test", folder=tmp_path)
    assert (features.kind, features.X.shape, features.y.tolist()) == ("features", (2, 2048), [7, 8])


def test_adult_needs_pandas_and_marks_missing_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "39, Private, 77516, Masters, 13, Divorced, ?, Wife, White, Male, 2174, 0, 40, Cuba, <=50K"
    (tmp_path / "adult.data").write_text(line)
    pytest.importorskip("pandas")
    X = datasets.load("adult", folder=tmp_path).X
    assert X["occupation"].isna().tolist() == [True]
    assert X["age"].tolist() == [39]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"protoattend-torch\[table\]"):
        datasets.load("adult", folder=tmp_path)


def test_fruits_are_folders_by_class(tmp_path: Path) -> None:
    write_classes(tmp_path / "Training", {"Pear 7": 2, "Apple 10": 1}, size=10)
    (tmp_path / "Training" / "Pear 7" / "Thumbs.db").write_bytes(b"not an image")
    data = datasets.load("fruits", folder=tmp_path)
    assert data.X.shape == (3, 10, 10, 3)
    assert data.y.tolist() == ["Apple 10", "Pear 7", "Pear 7"]
    assert data.classes == ("Apple 10", "Pear 7")


def test_isic_is_split_anew_by_class_and_resized(tmp_path: Path) -> None:
    write_classes(tmp_path / "Train", {"melanoma": 9, "nevus": 20, "rare": 2, "single": 1}, size=12)
    write_classes(tmp_path / "Test", {"melanoma": 1}, size=12)
    train, test = (datasets.load("isic", split, folder=tmp_path) for split in datasets.SPLITS)
    assert Counter(train.y.tolist()) == {"melanoma": 8, "nevus": 16, "rare": 1, "single": 1}
    assert Counter(test.y.tolist()) == {"melanoma": 2, "nevus": 4, "rare": 1}
    assert train.X.shape[1:] == (128, 128, 3)
    assert train.classes == test.classes == ("melanoma", "nevus", "rare", "single")
    assert "own split" in train.note
    again = datasets.load("isic", "test", folder=tmp_path)
    np.testing.assert_array_equal(again.X, test.X)
    nevi = [set(part.X[part.y == "nevus"][:, 0, 0, 0].tolist()) for part in (train, test)]
    assert nevi[0] | nevi[1] == set(range(20))
    assert not nevi[0] & nevi[1]


def test_melanoma_or_benign() -> None:
    y = np.array(["melanoma", "nevus", "basal cell carcinoma"])
    assert datasets.melanoma_or_benign(y).tolist() == ["melanoma", "benign", "benign"]


@pytest.mark.parametrize(("name", "split"), sorted(fetch.DIGESTS))
def test_real_sets_are_the_published_ones(name: str, split: str) -> None:
    data = real(name, split)
    samples, _ = datasets.read(name, split, folder=data.source)
    assert data.note == ""
    assert fetch.fingerprint(samples.X, samples.y) == fetch.DIGESTS[name, split]
    if name in {"fashion-mnist", "cifar-10"}:
        assert set(np.bincount(data.y)) == {len(data.y) // 10}


def test_real_mnist_counts() -> None:
    data = real("mnist", "test")
    assert np.bincount(data.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_real_adult() -> None:
    data = real("adult", "test")
    assert Counter(data.y.tolist()) == {"<=50K": 12435, ">50K": 3846}
    assert data.X["workclass"].isna().sum() == 963


@pytest.mark.parametrize(("split", "published"), [("train", 560_000), ("test", 70_000)])
def test_real_dbpedia(split: str, published: int) -> None:
    data = real("dbpedia", split)
    counts = Counter(data.y.tolist())
    assert set(counts) == set(data.classes)
    assert len(counts) == 14
    assert max(counts.values()) < 1.2 * min(counts.values())
    assert bool(data.note) == (len(data.X) != published)
    assert all(data.X)


@pytest.mark.parametrize(("split", "rows"), [("train", 24_072), ("test", 7_600)])
def test_real_dbpedia_subset_is_whole(split: str, rows: int) -> None:
    assert len(real("dbpedia", split, (SHARED,)).X) == rows


@pytest.mark.parametrize("split", datasets.SPLITS)
def test_real_fruits(split: str) -> None:
    fruits = real("fruits", split)
    assert fruits.X.shape[1:] == (100, 100, 3)
    assert set(fruits.y.tolist()) == set(fruits.classes)
    assert f"{len(fruits.y):,} {split} rows, {len(fruits.classes)} classes" in fruits.note


@pytest.mark.parametrize(
    ("split", "rows", "fewest", "most"),
    [
        ("train", 3_229, ("Blueberry 1", 116), ("Grape Blue 1", 246)),
        ("test", 1_080, ("Kiwi 1", 39), ("Grape Blue 1", 82)),
    ],
)
def test_real_fruits_subset_is_whole(split: str, rows: int, fewest: tuple[str, int], most: tuple[str, int]) -> None:
    counts = Counter(real("fruits", split, (SHARED,)).y.tolist())
    assert (len(counts), counts.total()) == (20, rows)
    assert min(counts.values()) == counts[fewest[0]] == fewest[1]
    assert max(counts.values()) == counts[most[0]] == most[1]


def test_real_isic() -> None:
    train, test = real("isic", "train"), real("isic", "test")
    assert train.X.shape[1:] == (128, 128, 3)
    for label in train.classes:
        n_train, n_test = (int((part.y == label).sum()) for part in (train, test))
        assert abs(n_test - 0.2 * (n_train + n_test)) <= 0.6
    assert {"melanoma", "nevus"} <= set(train.classes)
