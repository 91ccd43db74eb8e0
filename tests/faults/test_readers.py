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


def test_an_archive_whose_list_of_members_hides_one(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez(path, X=np.ones((3, 2)), y=np.arange(3))
    content = bytearray(path.read_bytes())
    comment = content.index(b"PK\x01\x02") + 33  # the high byte of its length: the next entry becomes a remark
    content[comment] = 2
    path.write_bytes(content)
    with pytest.raises(BadFile, match="it has 2 members, but 1 are listed"):
        read_data(path)


def test_an_array_whose_header_is_damaged_is_not_read_shifted(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    np.savez(path, features=np.ones((2, 2048), dtype=np.float32), labels=np.array([0, 1]))
    content = bytearray(path.read_bytes())
    length = content.index(b"\x93NUMPY") + 8
    content[length] -= 16  # of the header, so that its last spaces become numbers
    path.write_bytes(content)
    with pytest.raises(BadFile, match=r"longer than its header says|Bad CRC"):
        formats.read_features(path, n_classes=2)
    with pytest.raises(BadFile, match=r"longer than its header says|Bad CRC"):
        read_data(path, samples="features", target="labels")


def test_a_class_number_of_thousands_of_digits(tmp_path: Path) -> None:
    (tmp_path / "dbpedia.csv").write_text("9" * 5000 + ',"a title","a text"\n')
    with pytest.raises(BadFile, match="1 to 14"):
        formats.read_dbpedia(tmp_path / "dbpedia.csv", n_classes=14)
