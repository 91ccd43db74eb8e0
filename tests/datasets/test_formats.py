"""Every original format: a tiny file written by hand is read back, and every way to spoil it is named."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend.datasets import formats
from protoattend.errors import BadFile, MissingExtra

RNG = np.random.default_rng(0)


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def put(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def images() -> np.ndarray:
    return RNG.integers(0, 256, (4, 5, 3), dtype=np.uint8)


@pytest.fixture
def colours() -> np.ndarray:
    return RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_round_trip(tmp_path: Path, images: np.ndarray, pack: Callable[[bytes], bytes]) -> None:
    x_path = put(tmp_path / "x", pack(idx_bytes(images)))
    y_path = put(tmp_path / "y", pack(idx_bytes(np.array([0, 9, 3, 3], np.uint8))))
    x, y = formats.read_idx_pair(x_path, y_path, n_classes=10)
    np.testing.assert_array_equal(x, images)
    assert x.dtype == np.uint8
    assert x.flags.writeable
    assert y.tolist() == [0, 9, 3, 3]
    assert y.dtype == np.int64


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (lambda data: data[:-1], "byte 75"),
        (lambda data: data + b"x", "byte 76"),
        (lambda data: b"\x00\x00\x0d\x03" + data[4:], "byte 0: .* starts with 00 00 0d 03"),
        (lambda data: data[:10], "byte 10: the header must be 16 bytes"),
        (lambda data: b"", "byte 0: .* starts with nothing"),
        (lambda data: data[:4] + b"\xff" * 12 + data[16:], "byte 76: .* 4294967295"),
        (lambda data: gzip.compress(data)[:-9], "damaged gzip"),
        (lambda data: gzip.compress(data)[:20] + b"\x00" * 30, "damaged gzip"),
    ],
)
def test_bad_idx_names_file_and_byte(
    tmp_path: Path, images: np.ndarray, spoil: Callable[[bytes], bytes], place: str
) -> None:
    path = put(tmp_path / "images", spoil(idx_bytes(images)))
    with pytest.raises(BadFile, match=f"images, .*{place}"):
        formats.read_idx(path, n_dims=3)


def test_idx_labels_must_fit_the_images_and_the_classes(tmp_path: Path, images: np.ndarray) -> None:
    x_path = put(tmp_path / "x", idx_bytes(images))
    with pytest.raises(BadFile, match="3 labels for the 4 images"):
        formats.read_idx_pair(x_path, put(tmp_path / "few", idx_bytes(np.zeros(3, np.uint8))), n_classes=10)
    wrong = put(tmp_path / "wrong", idx_bytes(np.array([0, 1, 10, 2], np.uint8)))
    with pytest.raises(BadFile, match="wrong, byte 10: the label must be 0 to 9, but it is 10"):
        formats.read_idx_pair(x_path, wrong, n_classes=10)


def cifar_bytes(colours: np.ndarray, labels: list[int]) -> bytes:
    planes = colours.transpose(0, 3, 1, 2)
    return b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, planes, strict=True))


def test_cifar_binary_and_sprites_give_the_same(tmp_path: Path, colours: np.ndarray) -> None:
    image_module = pytest.importorskip("PIL.Image")
    labels = [0, 9, 1, 2, 3, 4]
    bins, sprites = [], []
    for number, rows in enumerate((slice(0, 4), slice(4, 6))):
        bins.append(put(tmp_path / f"{number}.bin", cifar_bytes(colours[rows], labels[rows])))
        sprites.append(tmp_path / f"{number}.png")
        image_module.fromarray(colours[rows].reshape(-1, 1024, 3)).save(sprites[-1])
    x, y = formats.read_cifar_binary(*bins)
    np.testing.assert_array_equal(x, colours)
    assert y.tolist() == labels
    sprite_x, sprite_y = formats.read_cifar_sprites(*sprites, put(tmp_path / "y.json", json.dumps(labels)))
    np.testing.assert_array_equal(sprite_x, x)
    np.testing.assert_array_equal(sprite_y, y)


def test_bad_cifar_binary_names_the_byte(tmp_path: Path, colours: np.ndarray) -> None:
    data = cifar_bytes(colours, [0, 1, 2, 3, 4, 5])
    with pytest.raises(BadFile, match=r"short\.bin, byte 15365: .* the last has 3072"):
        formats.read_cifar_binary(put(tmp_path / "short.bin", data[:-1]))
    whole, empty = put(tmp_path / "data_batch_2.bin", data), put(tmp_path / "data_batch_3.bin", b"")
    with pytest.raises(BadFile, match=r"data_batch_3\.bin: must hold records of 3073 bytes, but it is empty"):
        formats.read_cifar_binary(whole, empty)
    with pytest.raises(BadFile, match=r"label\.bin, byte 3073: the label must be 0 to 9, but it is 77"):
        formats.read_cifar_binary(put(tmp_path / "label.bin", data[:3073] + b"M" + data[3074:]))


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ("[0, 1, 2, 3, 4", "line 1 column 15"),
        ("[0, 1, 2, 3, 4]", "the images are 6, but it holds 5 labels"),
        ("[0, 1, 2, 3, 4, 10]", "entry 5: the label must be 0 to 9, but it is 10"),
        ("[0, 1, true, 3, 4, 5]", "entry 2: the label must be 0 to 9, but it is True"),
        ('{"0": 1}', "must be a JSON list"),
    ],
)
def test_bad_sprite_labels_are_named(tmp_path: Path, colours: np.ndarray, labels: str, place: str) -> None:
    image_module = pytest.importorskip("PIL.Image")
    image_module.fromarray(colours.reshape(-1, 1024, 3)).save(tmp_path / "x.png")
    with pytest.raises(BadFile, match=f"y.json.*{place}"):
        formats.read_cifar_sprites(tmp_path / "x.png", put(tmp_path / "y.json", labels))


def test_bad_sprites_are_named(tmp_path: Path, colours: np.ndarray) -> None:
    image_module = pytest.importorskip("PIL.Image")
    labels = put(tmp_path / "y.json", "[0]")
    image_module.fromarray(colours[0]).save(tmp_path / "narrow.png")
    with pytest.raises(BadFile, match=r"narrow\.png: must be 1024 pixels wide, but it is 32"):
        formats.read_cifar_sprites(tmp_path / "narrow.png", labels)
    image_module.fromarray(colours.reshape(-1, 1024, 3)).save(tmp_path / "whole.png")
    cut = put(tmp_path / "cut.png", (tmp_path / "whole.png").read_bytes()[:2000])
    with pytest.raises(BadFile, match=r"cut\.png: not a readable image"):
        formats.read_cifar_sprites(cut, labels)


def save_mat(path: Path, **arrays: Any) -> Path:
    from scipy.io import savemat

    savemat(path, arrays)
    return path


def test_svhn_round_trip_calls_ten_zero(tmp_path: Path, colours: np.ndarray) -> None:
    labels = np.array([[1], [10], [9], [2], [10], [5]], np.uint8)
    path = save_mat(tmp_path / "train.mat", X=colours.transpose(1, 2, 3, 0), y=labels)
    x, y = formats.read_svhn(path)
    np.testing.assert_array_equal(x, colours)
    assert y.tolist() == [1, 0, 9, 2, 0, 5]


def test_bad_svhn_is_named(tmp_path: Path, colours: np.ndarray) -> None:
    stacked = colours.transpose(1, 2, 3, 0)
    labels = np.arange(1, 7)[:, None]
    with pytest.raises(BadFile, match=r"y\[2\]: the label must be 1 to 10, but it is 0"):
        formats.read_svhn(save_mat(tmp_path / "zero.mat", X=stacked, y=labels * (labels != 3)))
    for wrong in ({"X": stacked, "y": labels[1:]}, {"X": colours, "y": labels}, {"Z": labels}):
        with pytest.raises(BadFile, match=r"wrong\.mat: must hold X \(32, 32, 3, n\)"):
            formats.read_svhn(save_mat(tmp_path / "wrong.mat", **wrong))
    with pytest.raises(BadFile, match=r"text\.mat: .*bytes 124 to 127"):
        formats.read_svhn(put(tmp_path / "text.mat", "<html>not found</html>" * 40))


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_svhn_is_an_error_and_never_a_crash(tmp_path: Path, colours: np.ndarray, compressed: bool) -> None:
    from scipy.io import savemat

    path = tmp_path / "whole.mat"
    arrays = {"X": colours.transpose(1, 2, 3, 0), "y": np.arange(1, 7, dtype=np.uint8)[:, None]}
    savemat(path, arrays, do_compression=compressed)
    whole = path.read_bytes()
    for length in (0, 60, 130, len(whole) // 2, len(whole) - 1):
        with pytest.raises(BadFile, match=r"cut\.mat: "):
            formats.read_svhn(put(tmp_path / "cut.mat", whole[:length]))
    rng = np.random.default_rng(0)
    for _ in range(200):
        spoilt = bytearray(whole)
        spoilt[rng.integers(124, 220)] ^= int(rng.integers(1, 256))
        with contextlib.suppress(BadFile):
            formats.read_svhn(put(tmp_path / "spoilt.mat", bytes(spoilt)))


def test_dbpedia_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerows([(1, "Abbott, Ltd", ' A "coach" builder 2×.'), (14, "", "No title.")])
    texts, y = formats.read_dbpedia(path, n_classes=14)
    assert texts == ['A "coach" builder 2×.', "No title."]
    assert y.tolist() == [0, 13]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('1,"a","b"\n2,"c"\n', "line 2: must have 3 columns .* not 2"),
        ('1,"a","b"\n15,"c","d"\n', "line 2: the label must be 1 to 14, but it is 15"),
        ('0,"a","b"\n', "line 1: the label must be 1 to 14, but it is 0"),
        ('class,"title","text"\n', "line 1: the label must be 1 to 14, but it is class"),
        ('1,"a","b"\n2,"c","cut sho', "line 2: .*cut short"),
        (b'1,"a","\xff"\n', "byte 7: text must be UTF-8"),
    ],
)
def test_bad_dbpedia_names_the_line(tmp_path: Path, text: bytes | str, place: str) -> None:
    with pytest.raises(BadFile, match=rf"train\.csv, {place}"):
        formats.read_dbpedia(put(tmp_path / "train.csv", text), n_classes=14)


ADULT = "39, Private, 77516, Masters, 13, Divorced, ?, Wife, White, Male, 2174, 0, 40, Cuba, <=50K"


def test_adult_round_trip(tmp_path: Path) -> None:
    plain = put(tmp_path / "adult.data", f"{ADULT}\n\n")
    dotted = put(tmp_path / "adult.test", f"|1x3 Cross validator\n{ADULT}.\n{ADULT.replace('<=', '>')}.\n\n")
    columns, y = formats.read_adult(plain)
    assert list(columns) == list(formats.ADULT_COLUMNS)
    assert columns["age"].tolist() == [39]
    assert columns["age"].dtype == np.int64
    assert columns["workclass"].tolist() == ["Private"]
    assert columns["occupation"].tolist() == [None]
    assert y.tolist() == ["<=50K"]
    assert formats.read_adult(dotted)[1].tolist() == ["<=50K", ">50K"]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (ADULT[:50], "line 2: must have 15 columns, but has 8"),
        (ADULT.replace("<=50K", "<=5"), "line 2: the label must be <=50K or >50K, but it is <=5"),
        (ADULT.replace("39", "old"), "line 2: a numeric column must hold a whole number .*'old'"),
        (ADULT.replace("39", "?"), "line 2: a numeric column"),
    ],
)
def test_bad_adult_names_the_line(tmp_path: Path, line: str, place: str) -> None:
    with pytest.raises(BadFile, match=rf"adult\.data, {place}"):
        formats.read_adult(put(tmp_path / "adult.data", f"{ADULT}\n{line}\n"))


def test_features_from_npz_and_from_npy_with_scores(tmp_path: Path) -> None:
    x = RNG.normal(size=(3, formats.N_FEATURES, 1, 1))
    np.savez(tmp_path / "train.npz", features=x[:, :, 0, 0].astype(np.float32), labels=np.array([4, 49, 0]))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.eye(50)[[4, 49, 0]])
    one = formats.read_features(tmp_path / "train.npz", n_classes=50)
    two = formats.read_features(tmp_path / "x.npy", tmp_path / "y.npy", n_classes=50)
    for features, y in (one, two):
        np.testing.assert_array_equal(features, x[:, :, 0, 0].astype(np.float32))
        assert features.dtype == np.float32
        assert y.tolist() == [4, 49, 0]


def test_bad_features_are_named_and_pickles_refused(tmp_path: Path) -> None:
    x = np.zeros((2, formats.N_FEATURES), np.float32)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"features": x}, "must hold the array 'labels', but it holds"),
        ({"features": x[:, :7], "labels": [0, 1]}, r"must hold floats \(n, 2048\)"),
        ({"features": np.float32(1), "labels": [0, 1]}, r"must hold floats \(n, 2048\)"),
        ({"features": x, "labels": [0, 1, 2]}, "must hold 2 whole numbers"),
        ({"features": x, "labels": [0.0, 1.0]}, "must hold 2 whole numbers"),
        ({"features": x, "labels": [0, 50]}, "row 1: the label must be 0 to 49, but it is 50"),
        ({"features": x + np.array([[0], [np.nan]]), "labels": [0, 1]}, "row 1: features must be finite"),
        ({"features": np.array([{}, {}], dtype=object), "labels": [0, 1]}, "not a plain array file"),
    ]
    for number, (arrays, place) in enumerate(cases):
        np.savez(tmp_path / f"{number}.npz", **arrays)
        with pytest.raises(BadFile, match=rf"{number}\.npz.*{place}"):
            formats.read_features(tmp_path / f"{number}.npz", n_classes=50)
    cut = put(tmp_path / "cut.npz", (tmp_path / "0.npz").read_bytes()[:200])
    with pytest.raises(BadFile, match="not a plain array file"):
        formats.read_features(cut, n_classes=50)


def write_each_format(folder: Path, colours: np.ndarray) -> dict[str, Callable[[Path], Any]]:
    """Write a small file of each format but images; return its reader by name."""
    put(folder / "x.bin", cifar_bytes(colours, [0, 9, 1, 2, 3, 4]))
    save_mat(folder / "x.mat", X=colours.transpose(1, 2, 3, 0), y=np.arange(1, 7, dtype=np.uint8)[:, None])
    put(folder / "x.csv", '2,"T","x"\n14,"","y"\n')
    put(folder / "x.data", f"{ADULT}\n")
    put(folder / "x.txt", "One\nTwo\n")
    put(folder / "x.json", "[0, 9, 3]")
    np.savez(folder / "x.npz", features=np.ones((2, formats.N_FEATURES), np.float32), labels=np.array([4, 49]))
    return {
        "x.bin": formats.read_cifar_binary,
        "x.mat": formats.read_svhn,
        "x.csv": lambda path: formats.read_dbpedia(path, n_classes=14),
        "x.data": formats.read_adult,
        "x.txt": formats.read_lines,
        "x.json": lambda path: formats._json_labels(path, n_classes=10),
        "x.npz": lambda path: formats.read_features(path, n_classes=50),
    }


def test_each_format_may_be_gzipped(tmp_path: Path, colours: np.ndarray) -> None:
    for name, read in write_each_format(tmp_path, colours).items():
        whole = (tmp_path / name).read_bytes()
        packed = put(tmp_path / f"{name}.gz", gzip.compress(whole))
        np.testing.assert_equal(read(packed), read(tmp_path / name))
        cut = put(tmp_path / f"cut.{name}.gz", gzip.compress(whole)[:-9])
        with pytest.raises(BadFile, match=rf"cut\.{name}\.gz, within its \d+ bytes: damaged gzip data"):
            read(cut)


def test_images_are_decoded_and_resized(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for file, value in zip(files, (10, 200), strict=True):
        image_module.new("RGB", (6, 4), (value, 0, 0)).save(file)
    plain = formats.read_images(files)
    assert plain.shape == (2, 4, 6, 3)
    assert plain[:, 0, 0, 0].tolist() == [10, 200]
    assert formats.read_images(files, size=8).shape == (2, 8, 8, 3)
    image_module.new("L", (5, 4)).save(tmp_path / "grey.png")
    with pytest.raises(BadFile, match=r"grey\.png: images must be of one size, but this is \(4, 5\)"):
        formats.read_images([*files, tmp_path / "grey.png"])


def test_missing_pillow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"needs Pillow.*protoattend-torch\[images\]"):
        formats.read_images([tmp_path / "any.jpg"])
