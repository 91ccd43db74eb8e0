"""The database's folder: mapped from disk, written in shards; damage is told."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.database.storage import columns as files
from protoattend.errors import BadFile, StaleDatabase, UserError

from .folders import assert_same, content, flip_a_byte, open_again, truncate


def mapped_file(address: int) -> str:
    """Return the file that is mapped at an address of this process, or nothing."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
        if start <= address < end:
            return line.split()[-1]
    return ""


def test_round_trip_of_every_kind(any_kind: Any, tmp_path: Path) -> None:
    database = any_kind[0].database_
    database.save(tmp_path / "database")
    again = open_again(database, tmp_path / "database")
    assert_same(again, database)
    again.verify()
    for index in (0, 17):
        np.testing.assert_array_equal(again.preview(index), database.preview(index))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_columns_are_mapped_and_private(opened: CandidateDatabase, tmp_path: Path) -> None:
    before = content(tmp_path)
    for name in ("ids", "labels", "keys", "class_scores", "queries", "values", "source"):
        column = getattr(opened.rows, name)
        address = column.data_ptr() if isinstance(column, torch.Tensor) else column.ctypes.data
        assert mapped_file(address) == str(tmp_path / "database" / f"{name}.npy")
    opened.rows.keys.zero_()  # of this process alone
    assert content(tmp_path) == before


def test_meta_describes_every_file(opened: CandidateDatabase, tmp_path: Path) -> None:
    meta = json.loads((tmp_path / "database" / "meta.json").read_text())
    assert (meta["version"], meta["count"], meta["fingerprint"]) == (3, len(opened), opened.fingerprint)
    assert {f"{name}.npy" for name in meta["files"]} == set(content(tmp_path / "database")) - {"meta.json"}
    assert meta["files"]["keys"]["shape"] == list(opened.rows.keys.shape)
    assert "weights" not in meta["files"]  # all are one


def test_the_fingerprint_is_computed_once(opened: CandidateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("protoattend.database.store.fingerprint", lambda model: calls.append(1) or opened.fingerprint)
    again = open_again(opened, opened._home.folder)  # type: ignore[union-attr]
    again.without([0]).condense(10)
    assert len(calls) == 1


def test_texts_of_all_lengths(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    database = copy.deepcopy(text_classifier.database_)
    texts = ["", "ünï¢ødé 漢字", "a\0b\n", ""]
    added = database.add(texts, ["fruit"] * 4)
    database.save(tmp_path / "database")
    again = open_again(database, tmp_path / "database")
    assert [again.preview(index) for index in added] == texts
    assert again.rows.source.tolist() == database.rows.source.tolist()
    only_empty = database.without(np.setdiff1d(database.indices, added[[0, 3]]))
    only_empty.save(tmp_path / "empty")
    assert open_again(database, tmp_path / "empty").rows.source.tolist() == ["", ""]


def test_columns_longer_than_a_piece(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROWS", 7)
    monkeypatch.setattr("protoattend.database.storage.folder.ROWS", 7)
    database = copy.deepcopy(wine_classifier.database_)
    database.remove([2])
    database.save(tmp_path / "database")
    again = open_again(database, tmp_path / "database")
    assert_same(again, database)
    again.verify()


# -- shards ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shards(any_kind: Any, tmp_path: Path) -> tuple[CandidateDatabase, Path]:
    """A database, and three shards of the same rows as different processes would write them."""
    classifier, X, y = any_kind
    whole = classifier.database_
    bounds = [0, 31, 64, len(X)]
    for number in (2, 0, 1):
        here = slice(bounds[number], bounds[number + 1])
        part = CandidateDatabase.build(
            whole.model,
            X[here],
            y[here],
            inputs=whole.inputs,
            classes=whole.classes,
            sample_weight=np.arange(len(X))[here] % 5,
        )
        part.save_shard(tmp_path / "shards", number, 3)
    build = CandidateDatabase.build(
        whole.model, X, y, inputs=whole.inputs, classes=whole.classes, sample_weight=np.arange(len(X)) % 5
    )
    return build, tmp_path / "shards"


def test_merged_shards_are_the_database(shards: Any, tmp_path: Path) -> None:
    whole, folder = shards
    with pytest.raises(BadFile, match=r"shards of one; make one of them with CandidateDatabase\.merge"):
        open_again(whole, folder)
    CandidateDatabase.merge(folder, tmp_path / "database")
    merged = open_again(whole, tmp_path / "database")
    merged.verify()
    np.testing.assert_array_equal(merged.indices, whole.indices)
    np.testing.assert_array_equal(merged.labels, whole.labels)
    np.testing.assert_array_equal(merged.sample_weight, whole.sample_weight)
    np.testing.assert_array_equal(merged.rows.source, whole.rows.source)
    assert torch.allclose(merged.rows.class_scores, whole.rows.class_scores, atol=1e-5)  # encoded in other batches
    assert torch.allclose(merged.rows.queries, whole.rows.queries, atol=1e-5)
    assert merged._next_id == whole._next_id


def other_fingerprint(shard: Path) -> None:
    set_meta(shard, lambda meta: meta.update(fingerprint="0" * 64))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda shard: shutil.rmtree(shard), r"all 3 shards, but \['shard-00001-of-00003'\] are missing"),
        (lambda shard: (shard / "meta.json").unlink(), "shard-00001-of-00003 must be a folder .* no meta.json"),
        (lambda shard: truncate(shard / "keys.npy"), "keys.npy must have .* truncated"),
        (lambda shard: flip_a_byte(shard / "values.npy"), "values.npy does not match its checksum"),
        (lambda shard: (shard / "labels.npy").unlink(), "labels.npy, but it is missing"),
        (other_fingerprint, "fingerprints differ"),
        (lambda shard: (shard / "edits").mkdir(), "without edits"),
        (lambda shard: shutil.copytree(shard, shard.with_name("shard-00003-of-00003")), "one set of shards"),
    ],
)
def test_damaged_shards(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, damage: Callable[[Path], Any], message: str
) -> None:
    for number in range(3):
        wine_classifier.database_.save_shard(tmp_path / "shards", number, 3)
    damage(tmp_path / "shards" / "shard-00001-of-00003")
    with pytest.raises(BadFile, match=message):
        CandidateDatabase.merge(tmp_path / "shards", tmp_path / "database")
    assert not (tmp_path / "database").exists()


def test_shards_must_be_there_and_numbered(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(BadFile, match="but it has none"):
            CandidateDatabase.merge(folder, tmp_path / "database")
    for number, of in ((3, 3), (-1, 3), (0, 0)):
        with pytest.raises(UserError, match=r"number|of must be"):
            wine_classifier.database_.save_shard(tmp_path, number, of)


# -- damage ------------------------------------------------------------------------------------------------------------


def set_meta(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a meta.json as somebody who also knows how to leave its checksum out."""
    meta = json.loads((folder / "meta.json").read_text())
    change(meta)
    meta.pop("checksum", None)
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: flip_a_byte(folder / "labels.npy"), "labels.npy does not match its checksum"),
        (lambda folder: truncate(folder / "source.npy"), "source.npy must have .* bytes, but it has"),
        (lambda folder: set_meta(folder, lambda meta: meta["files"].pop("keys")), r"\['keys'\] are missing"),
        (lambda folder: set_meta(folder, lambda meta: meta.update(count=7)), "must hold 7 rows in every column"),
        (
            lambda folder: set_meta(folder, lambda meta: meta["files"]["keys"].update(dtype="<f8")),
            "must hold <f8 .* but it holds <f4",
        ),
        (lambda folder: (folder / "ids.npy").write_bytes(b"x" * (folder / "ids.npy").stat().st_size), "cannot be read"),
        (lambda folder: shutil.rmtree(folder / "edits" / "00000001"), "edits 1 to 1 and nothing else.*00000001"),
        (lambda folder: (folder / "edits" / "00000002" / "meta.json").unlink(), r"no meta\.json"),
        (lambda folder: truncate(folder / "edits" / "00000001" / "ids.npy"), "truncated"),
        (lambda folder: flip_a_byte(folder / "edits" / "00000002" / "keys.npy"), "checksum"),
        (
            lambda folder: set_meta(folder / "edits" / "00000001", lambda meta: meta.update(version=99)),
            "version 99",
        ),
    ],
)
def test_damage_is_told(opened: CandidateDatabase, wine: Any, tmp_path: Path, damage: Any, message: str) -> None:
    opened.remove([1])
    opened.add(wine[0][:2], wine[1][:2])
    opened.save_edits()
    damage(tmp_path / "database")
    with pytest.raises(BadFile, match=message):
        open_again(opened, tmp_path / "database")


def test_large_files_are_verified_on_demand(
    opened: CandidateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SMALL", 0)
    opened.verify()
    flip_a_byte(tmp_path / "database" / "values.npy")
    again = open_again(opened, tmp_path / "database")
    with pytest.raises(BadFile, match="does not match its checksum"):
        again.verify()


def test_the_log_is_always_checked(opened: CandidateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.relabel([1], 0)
    opened.save_edits()
    monkeypatch.setattr(files, "SMALL", 0)
    flip_a_byte(tmp_path / "database" / "edits" / "00000001" / "labels.npy")
    for read in (opened.verify, lambda: open_again(opened, tmp_path / "database")):
        with pytest.raises(BadFile, match="does not match its checksum"):
            read()


def test_what_was_never_finished_is_ignored(opened: CandidateDatabase, tmp_path: Path) -> None:
    """A crash leaves a folder whose name begins with a dot."""
    (tmp_path / "database" / "edits" / ".00000001-abc").mkdir(parents=True)
    assert len(open_again(opened, tmp_path / "database")) == len(opened)


def test_another_model_is_refused_before_anything_is_read(opened: CandidateDatabase, tmp_path: Path) -> None:
    other = copy.deepcopy(opened.model)
    with torch.no_grad():
        other.decision.weight += 1
    with pytest.raises(StaleDatabase):
        CandidateDatabase.open(tmp_path / "database", other, inputs=opened.inputs, classes=opened.classes)
