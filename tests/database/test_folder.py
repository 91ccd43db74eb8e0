"""The database's folder: mapped, edited by a log, written in shards; damage is told, and failures lose nothing."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Barrier
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.database import edits, files
from protoattend.errors import BadFile, StaleDatabase, UserError


def open_again(database: CandidateDatabase, folder: Path) -> CandidateDatabase:
    return CandidateDatabase.open(folder, database.model, inputs=database.inputs, classes=database.classes)


@pytest.fixture
def opened(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> CandidateDatabase:
    wine_classifier.database_.save(tmp_path / "database")
    return open_again(wine_classifier.database_, tmp_path / "database")


def assert_same(one: CandidateDatabase, other: CandidateDatabase) -> None:
    for name in ("ids", "source"):
        np.testing.assert_array_equal(getattr(one.rows, name), getattr(other.rows, name))
    for name in ("labels", "keys", "class_scores", "edited", "weights", "queries", "values"):
        assert torch.equal(getattr(one.rows, name), getattr(other.rows, name)), name
    assert torch.equal(one.decide(one.rows.queries).logits, other.decide(one.rows.queries).logits)
    assert one._next_id == other._next_id


def mapped_file(address: int) -> str:
    """Return the file that is mapped at an address of this process, or nothing."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
        if start <= address < end:
            return line.split()[-1]
    return ""


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def some_edits(database: CandidateDatabase, X: Any, y: Any) -> None:
    database.remove([3, 5])
    added = database.add(X[:3], y[:3])
    database.relabel([7, added[1]], database.classes.values[[-1, 0]])
    database.remove([added[2], 8])
    database.relabel([7], database.classes.values[1])
    database.remove([])


def test_round_trip_of_every_kind(any_kind: Any, tmp_path: Path) -> None:
    database = any_kind[0].database_
    database.save(tmp_path / "database")
    again = open_again(database, tmp_path / "database")
    assert_same(again, database)
    again.verify()
    for index in (0, 17):
        np.testing.assert_array_equal(again.exhibit(index), database.exhibit(index))


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


def test_edits_are_logged_applied_and_compacted(any_kind: Any, tmp_path: Path) -> None:
    classifier, X, y = any_kind
    in_memory = copy.deepcopy(classifier.database_)
    in_memory.save(tmp_path / "database")
    on_disk = open_again(in_memory, tmp_path / "database")
    base = content(tmp_path)
    for database in (in_memory, on_disk):
        some_edits(database, X, y)
    assert content(tmp_path) == base  # nothing is written unasked
    assert on_disk.save_edits() == 6
    assert on_disk.save_edits() == 0
    assert content(tmp_path).items() >= base.items()  # the log alone grew
    again = open_again(in_memory, tmp_path / "database")
    assert_same(on_disk, in_memory)
    assert_same(again, in_memory)
    again.remove([11])
    in_memory.remove([11])
    again.compact()
    assert not (tmp_path / "database" / "edits").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["database"]
    assert_same(again, in_memory)
    again.verify()
    again.remove([12])
    assert again.save_edits() == 1
    assert 12 not in open_again(in_memory, tmp_path / "database").indices


def test_an_index_is_never_given_twice(opened: CandidateDatabase, wine: Any) -> None:
    X, y = wine
    gone = opened.add(X[:2], y[:2])
    opened.remove(gone)
    opened.save_edits()
    again = open_again(opened, opened._home.folder)  # type: ignore[union-attr]
    assert again.add(X[:1], y[:1]).tolist() == [len(X) + 2]


def test_two_editors_do_not_overwrite_each_other(opened: CandidateDatabase, tmp_path: Path) -> None:
    other = open_again(opened, tmp_path / "database")
    opened.remove([1])
    other.remove([2])
    opened.save_edits()
    for write in (other.save_edits, other.compact):
        with pytest.raises(UserError, match="edited or saved anew since"):
            write()
    assert set(opened.indices) - set(open_again(opened, tmp_path / "database").indices) == set()
    third = open_again(opened, tmp_path / "database")
    third.remove([4])
    opened.compact()
    with pytest.raises(UserError, match="edited or saved anew since"):
        third.save_edits()


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass between the last look at a folder and what is written then."""
    monkeypatch.setattr("protoattend.folders.os.fsync", lambda file: sleep(0.02))


def at_once(*calls: Callable[[], Any]) -> list[bool]:
    """Call all of them at the same time, and return which were not told that the folder has changed."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> bool:
        start.wait()
        try:
            call()
        except UserError as error:
            return "edited or saved anew since" not in str(error)
        return True

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.usefixtures("slowly")
def test_of_many_editors_at_once_one_writes_and_all_others_are_told(opened: CandidateDatabase, tmp_path: Path) -> None:
    editors = [open_again(opened, tmp_path / "database") for _ in range(6)]
    for index, editor in enumerate(editors):
        editor.remove([index])
        editor.relabel([100 + index], 0)
    wrote = at_once(*(editor.save_edits for editor in editors))
    (winner,) = np.flatnonzero(wrote)
    assert_same(open_again(opened, tmp_path / "database"), editors[winner])
    editors[winner].remove([50])
    assert editors[winner].save_edits() == 1
    assert all(len(editor._unsaved) == 2 for editor in editors if editor is not editors[winner])


@pytest.mark.usefixtures("slowly")
def test_compacting_loses_no_edit_of_another(opened: CandidateDatabase, tmp_path: Path) -> None:
    for turn in range(4):
        one, other = (open_again(opened, tmp_path / "database") for _ in range(2))
        one.remove([2 * turn])
        other.remove([2 * turn + 1])
        wrote = at_once(one.save_edits, other.compact)
        assert sum(wrote) == 1
        assert_same(open_again(opened, tmp_path / "database"), one if wrote[0] else other)


def test_what_changes_while_it_is_read_is_found_out(
    opened: CandidateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.remove([1])
    real = edits.read_log
    monkeypatch.setattr(edits, "read_log", lambda folder: opened.compact() or real(folder))
    late = open_again(opened, tmp_path / "database")
    assert 1 in late.indices
    late.remove([2])
    with pytest.raises(UserError, match="edited or saved anew since"):
        late.save_edits()


def test_a_process_that_ends_lets_others_in(opened: CandidateDatabase, tmp_path: Path) -> None:
    script = "from protoattend.folders import alone; from pathlib import Path; import sys, time\n"
    script += "with alone(Path(sys.argv[1])): print('in', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", script, str(tmp_path / "database")]
    with Popen(command, stdout=PIPE) as process, ThreadPoolExecutor(1) as pool:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
            opened.remove([1])
            saved = pool.submit(opened.save_edits)
            with pytest.raises(TimeoutError):
                saved.result(0.3)
        finally:
            process.kill()
        assert saved.result(30) == 1


def test_a_folder_that_is_gone(opened: CandidateDatabase, tmp_path: Path) -> None:
    opened.remove([1])
    shutil.rmtree(tmp_path / "database")
    for write in (opened.save_edits, opened.compact):
        with pytest.raises(BadFile, match="must be there to be written to, but it is not"):
            write()


def test_a_failed_write_leaves_everything(
    opened: CandidateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.remove([1])
    opened.save_edits()
    opened.relabel([2], 0)
    before = content(tmp_path)

    def full_disk(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.hashlib, "sha256", full_disk)
        for write in (
            opened.save_edits,
            lambda: opened.save(tmp_path / "database"),
            lambda: opened.save(tmp_path / "b"),
        ):
            with pytest.raises(OSError, match="No space left"):
                write()
            assert content(tmp_path) == before
            assert not (tmp_path / "b").exists()
    assert opened.save_edits() == 1  # still there to be written


def test_only_an_opened_database_has_a_log(wine_classifier: ProtoAttendClassifier, opened: CandidateDatabase) -> None:
    in_memory = copy.deepcopy(wine_classifier.database_)
    in_memory.remove([1])
    for database in (in_memory, opened.without([1])):
        for verb in ("compact", "verify", "save_edits"):
            with pytest.raises(UserError, match="in memory alone"):
                getattr(database, verb)()


def test_texts_of_all_lengths(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    database = copy.deepcopy(text_classifier.database_)
    texts = ["", "ünï¢ødé 漢字", "a\0b\n", ""]
    added = database.add(texts, ["fruit"] * 4)
    database.save(tmp_path / "database")
    again = open_again(database, tmp_path / "database")
    assert [again.exhibit(index) for index in added] == texts
    assert again.rows.source.tolist() == database.rows.source.tolist()
    only_empty = database.without(np.setdiff1d(database.indices, added[[0, 3]]))
    only_empty.save(tmp_path / "empty")
    assert open_again(database, tmp_path / "empty").rows.source.tolist() == ["", ""]


def test_columns_longer_than_a_piece(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROWS", 7)
    monkeypatch.setattr("protoattend.database.folder.ROWS", 7)
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
            weights=np.arange(len(X))[here] % 5,
        )
        part.save_shard(tmp_path / "shards", number, 3)
    build = CandidateDatabase.build(
        whole.model, X, y, inputs=whole.inputs, classes=whole.classes, weights=np.arange(len(X)) % 5
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
    np.testing.assert_array_equal(merged.weights, whole.weights)
    np.testing.assert_array_equal(merged.rows.source, whole.rows.source)
    assert torch.allclose(merged.rows.class_scores, whole.rows.class_scores, atol=1e-5)  # encoded in other batches
    assert torch.allclose(merged.rows.queries, whole.rows.queries, atol=1e-5)
    assert merged._next_id == whole._next_id


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def other_fingerprint(shard: Path) -> None:
    meta = json.loads((shard / "meta.json").read_text())
    (shard / "meta.json").write_text(json.dumps(meta | {"fingerprint": "0" * 64}))


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
        with pytest.raises(UserError, match=f"number={number} and of={of}"):
            wine_classifier.database_.save_shard(tmp_path, number, of)


# -- damage ------------------------------------------------------------------------------------------------------------


def set_meta(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    change(meta)
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
