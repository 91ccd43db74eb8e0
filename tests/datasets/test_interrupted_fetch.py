"""What is interrupted or damaged on its way is fetched on or anew, and never taken for whole."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend.datasets import catalogue as datasets
from protoattend.datasets import fetch
from protoattend.errors import BadFile, UserError

from .stand_ins import Response, Web, gzipped_names, idx_files, nothing_installed, tar_bytes


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
