"""What tests of databases on disk share: opening one again, comparing two, and damaging files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from protoattend import CandidateDatabase


def open_again(database: CandidateDatabase, folder: Path) -> CandidateDatabase:
    return CandidateDatabase.open(folder, database.model, inputs=database.inputs, classes=database.classes)


def assert_same(one: CandidateDatabase, other: CandidateDatabase) -> None:
    for name in ("ids", "source"):
        np.testing.assert_array_equal(getattr(one.rows, name), getattr(other.rows, name))
    for name in ("labels", "keys", "class_scores", "edited", "sample_weight", "queries", "values"):
        assert torch.equal(getattr(one.rows, name), getattr(other.rows, name)), name
    assert torch.equal(one.decide(one.rows.queries).logits, other.decide(one.rows.queries).logits)
    assert one._next_id == other._next_id


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
