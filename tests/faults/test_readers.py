"""Damaged files of data: each is refused by a clear error or read whole, in bounded time and memory."""

from __future__ import annotations

import gzip
import struct
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.faults.reading_files import attack_reader, readers

from protoattend import read_data
from protoattend.datasets import formats
from protoattend.errors import BadFile

MUTATIONS = 230


def test_mutations_of_every_kind_of_file(tmp_path: Path) -> None:
    every = readers(tmp_path / "right")
    verdicts = [attack_reader(every[seed % len(every)], tmp_path / "changed", seed) for seed in range(MUTATIONS)]
    assert [verdict for verdict in verdicts if verdict.outcome in ("silent", "raw")] == []
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    assert outcomes["refused"] > MUTATIONS // 3
    assert outcomes["same"] > MUTATIONS // 9


def test_a_small_parquet_file_of_a_long_text_many_times(tmp_path: Path) -> None:
    long = pa.array(["a" * 100_000])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, dtype=np.int32)), long)
    parquet.write_table(pa.table({"note": column, "kind": pa.array(["b", "c"] * 10_000)}), tmp_path / "table.parquet")
    assert (tmp_path / "table.parquet").stat().st_size < 20_000  # of two gigabytes, if each row had a text of its own
    X = read_data(tmp_path / "table.parquet", target="kind").X
    assert len(X) == 20_000
    assert X["note"][0] is X["note"][19_999]


def test_a_small_parquet_file_of_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protoattend.data.archives.ALWAYS", 100_000)
    parquet.write_table(pa.table({"a": np.zeros(1_000_000, dtype=np.int64)}), tmp_path / "table.parquet")
    with pytest.raises(BadFile, match="at most 200 times the size of the file"):
        read_data(tmp_path / "table.parquet")


def test_texts_of_a_parquet_file_that_are_not_utf8(tmp_path: Path) -> None:
    made = pa.Array.from_buffers(pa.string(), 1, [None, *map(pa.py_buffer, (struct.pack("<ii", 0, 1), b"\xff"))])
    parquet.write_table(pa.table({"a": made, "b": [1]}), tmp_path / "table.parquet")
    with pytest.raises(BadFile, match="not a readable Parquet file"):
        read_data(tmp_path / "table.parquet")


def test_gzip_that_unpacks_to_far_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protoattend.data.archives.ALWAYS", 1000)
    (tmp_path / "images.gz").write_bytes(gzip.compress(struct.pack(">IIII", 0x803, 1000, 28, 28) + bytes(784_000)))
    with pytest.raises(BadFile, match="at most 200 times the size of the file"):
        formats.read_idx(tmp_path / "images.gz", n_dims=3)
    np.savez_compressed(tmp_path / "features.npz", features=np.zeros((100, 2048)), labels=np.zeros(100, dtype=int))
    with pytest.raises(BadFile, match="at most 200 times the size of the file"):
        formats.read_features(tmp_path / "features.npz", n_classes=2)


def test_an_archive_whose_header_declares_more_than_it_holds(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(80)
    with zipfile.ZipFile(tmp_path / "arrays.npz", "w") as archive:
        archive.writestr("X.npy", array)
    with pytest.raises(BadFile, match="not a readable archive"):
        read_data(tmp_path / "arrays.npz")


def test_a_member_of_an_archive_that_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", X=np.ones((3, 2)))
    with zipfile.ZipFile(tmp_path / "arrays.npz", "a") as archive:
        archive.writestr("notes.npy", "not an array")
    with pytest.raises(BadFile, match="'notes' is no array"):
        read_data(tmp_path / "arrays.npz")
