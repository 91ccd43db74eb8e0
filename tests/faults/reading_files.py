"""Mutations of the files people hand in: tables, texts, arrays and images; each is refused or read, in bounded memory.

Only formats with checksums of their own can tell a changed value from a right one: these must be refused or read as
they were. Of the others a reading must be whole, with a label for every row.
"""

from __future__ import annotations

import gzip
import json
import resource
import signal
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from tests.faults.mutating import Verdict, judge

from protoattend import ImageFiles, read_data
from protoattend.datasets import formats

SECONDS, MEGABYTES = 20, 700  # that the reading of a file of some kilobytes may take
IMAGES = ("png", "jpg", "bmp", "gif", "webp", "tif", "ppm")
ODD_NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
ODD_TEXTS = (
    *(b'"', b",", b";", b"\t", b"\r", b"\n", b"\n\n", b"\0", b"\xef\xbb\xbf", b"\xed\xb2\x80", b"=1+1", b"inf", b"-"),
    *(b"9" * 400, b"9" * 5000, b"1e999", b"nan", b"2020-02-30", b"-9999999999-01-01", b"\xff\xfe", b"[" * 3000),
)


@dataclass(frozen=True)
class Reader:
    """A file that is right, how it is read, and whether its own checksums tell every changed value."""

    path: Path
    read: Callable[[Path], Any]
    checked: bool = False


def _whole(path: Path, **how: Any) -> Any:
    """Read by `read_data`, all of it: as fit would, in a form that can be compared."""
    data = read_data(path, **how)
    X = np.asarray(data.X[:]) if isinstance(data.X, ImageFiles) else data.X
    if data.y is not None and len(X) != len(data.y):
        raise AssertionError(f"{len(X)} rows have {len(data.y)} labels")
    shown = X.to_dict() if isinstance(X, pd.DataFrame) else X if isinstance(X, list) else np.asarray(X).tobytes()
    return repr(shown), None if data.y is None else data.y.tolist()


def _pair(read: Callable[..., Any], path: Path, **how: Any) -> Any:
    """Read by one of the data sets' readers, which return samples and labels."""
    X, y = read(path, **how)
    if len(X) != len(y) and not isinstance(X, dict):
        raise AssertionError(f"{len(X)} rows have {len(y)} labels")
    return repr(X), repr(y)


def _matlab(x: np.ndarray, y: np.ndarray) -> bytes:
    """Return arrays as a MATLAB 5 file, compressed, as SVHN is."""

    def element(kind: int, content: bytes) -> bytes:
        return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)

    def matrix(name: str, array: np.ndarray) -> bytes:
        shape = np.array(array.shape, dtype="<i4").tobytes()
        parts = (6, bytes(8)), (5, shape), (1, name.encode()), (2, array.tobytes(order="F"))
        return element(14, b"".join(element(*part) for part in parts))

    packed = [zlib.compress(matrix(name, array)) for name, array in (("X", x), ("y", y))]
    return bytes(124) + b"\x00\x01IM" + b"".join(struct.pack("<II", 15, len(each)) + each for each in packed)


def readers(folder: Path) -> list[Reader]:
    """Write a small file of every kind, and return how each is read."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    rows = 24
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=rows).round(3),
            "count": rng.integers(9, size=rows),
            "when": pd.date_range("2020-01-01", periods=rows).strftime("%Y-%m-%d"),
            "colour": rng.choice(["red", "blue, or so", 'a "quoted" one'], size=rows),
            "note": [f"a longer text of row {row}\nin two lines" for row in range(rows)],
            "kind": rng.choice(["oak", "elm"], size=rows),
        }
    )
    frame.to_csv(folder / "table.csv", index=False)
    frame.to_csv(folder / "semicolons.csv", index=False, sep=";", decimal=",")
    frame.to_csv(folder / "tabs.tsv", index=False, sep="\t")
    frame.to_csv(folder / "plain.txt", index=False, header=False)
    frame.to_parquet(folder / "table.parquet")
    frame.astype({"kind": "category"}).to_parquet(folder / "plain.pq", compression=None)
    X, y = rng.integers(256, size=(rows, 8, 8), dtype=np.uint8), rng.integers(2, size=rows)
    np.savez(folder / "arrays.npz", X=X, y=y)
    np.savez_compressed(folder / "packed.npz", X=X.astype(float), y=y)
    (folder / "train-images.gz").write_bytes(gzip.compress(struct.pack(">IIII", 0x803, *X.shape) + X.tobytes()))
    (folder / "batch.bin").write_bytes(b"".join(bytes([i % 10]) + bytes([i]) * 3072 for i in range(4)))
    pixels = rng.integers(256, size=(32, 32, 3, 4), dtype=np.uint8)
    (folder / "svhn.mat").write_bytes(_matlab(pixels, np.array([[1], [10], [3], [4]], dtype=np.uint8)))
    line = "39, State-gov, 77516, Bachelors, 13, Never-married, Clerk, Child, White, Male, 2174, 0, 40, Cuba, <=50K\n"
    (folder / "adult.data").write_text(line * 9)
    (folder / "dbpedia.csv").write_text('1,"a title","a text, with commas"\n2,"another","text"\n' * 9)
    (folder / "labels.json").write_text(json.dumps([0, 1, 2] * 9))
    np.savez(folder / "features.npz", features=np.ones((2, 2048), dtype=np.float32), labels=np.array([0, 1]))
    for suffix in IMAGES:
        Image.fromarray(np.tile(X[0], (3, 3))).convert("RGB").save(folder / f"image.{suffix}")
    return [
        *(
            Reader(folder / name, partial(_whole, target="kind"))
            for name in ("table.csv", "semicolons.csv", "tabs.tsv")
        ),
        Reader(folder / "table.csv", partial(_whole, target="kind", text="note", id_column="count")),
        Reader(folder / "plain.txt", partial(_whole, target="5", header=False)),
        *(Reader(folder / name, partial(_whole, target="kind")) for name in ("table.parquet", "plain.pq")),
        *(Reader(folder / name, _whole, checked=True) for name in ("arrays.npz", "packed.npz")),
        Reader(folder / "train-images.gz", partial(formats.read_idx, n_dims=3), checked=True),
        Reader(folder / "batch.bin", partial(_pair, formats.read_cifar_binary)),
        Reader(folder / "svhn.mat", partial(_pair, formats.read_svhn)),
        Reader(folder / "adult.data", partial(_pair, formats.read_adult)),
        Reader(folder / "dbpedia.csv", partial(_pair, formats.read_dbpedia, n_classes=14)),
        Reader(folder / "labels.json", partial(formats._json_labels, n_classes=10)),
        Reader(folder / "features.npz", partial(_pair, formats.read_features, n_classes=2), checked=True),
        *(Reader(folder / f"image.{suffix}", _whole) for suffix in IMAGES),
    ]


def mutated(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Return a file's content with something changed, and what."""
    kind = str(rng.choice(["flip", "flips", "cut", "grow", "zero", "fill", "repeat", "number", "text", "digits"]))
    # Two thirds of all changes are in the first or last bytes, where headers are and the lists of archives.
    near = int(rng.integers(min(200, len(content))))
    place = int(rng.choice([int(rng.integers(len(content))), near, len(content) - 1 - near]))
    head, tail, length = content[:place], content[place:], int(rng.integers(1, 40))
    changed = bytearray(content)
    if kind in ("flip", "flips"):
        for _ in range(1 if kind == "flip" else 4):
            changed[place] ^= 1 << int(rng.integers(8))
            place = (place + int(rng.integers(9))) % len(content)
        return bytes(changed), f"{kind} near {place}"
    if kind == "number":
        order = "<" if rng.random() < 0.5 else ">"
        odd = struct.pack(f"{order}I", int(rng.choice(ODD_NUMBERS)))
        return head + odd + tail[4:], f"{odd.hex()} at {place}"
    if kind == "digits":
        places = [i for i, byte in enumerate(content) if 48 <= byte <= 57] or [place]
        place = int(rng.choice(places))
        return content[:place] + b"9" * length + content[place + 1 :], f"{length} nines at {place}"
    if kind == "text":
        odd = ODD_TEXTS[int(rng.integers(len(ODD_TEXTS)))]
        return head + odd + tail, f"{odd[:20]!r} at {place}"
    parts = {
        "cut": head,
        "grow": content + rng.bytes(length),
        "zero": head + bytes(length) + tail[length:],
        "fill": head + b"\xff" * length + tail[length:],
        "repeat": head + content[max(0, place - length) : place] * 3 + tail,
    }
    return parts[kind], f"{kind} at {place}"


def attack_reader(reader: Reader, work: Path, seed: int) -> Verdict:
    """Mutate a copy of a file once, read it, and judge."""
    rng = np.random.default_rng(seed)
    content, what = mutated(reader.path.read_bytes(), rng)
    work.mkdir(parents=True, exist_ok=True)
    path = work / reader.path.name
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expected = repr(reader.read(reader.path)) if reader.checked else ""

    def use() -> str:
        with at_most(SECONDS):
            said = repr(reader.read(path))
        return said if reader.checked else ""

    verdict = judge(use, expected, f"seed {seed}: {path.name} {what}", judged=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    return verdict if grown < MEGABYTES else Verdict("raw", verdict.mutation, f"took {grown} MB")


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise where the block takes longer; in the main thread alone."""

    def late(*given: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
