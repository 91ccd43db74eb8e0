"""Edits of a database on disk: logged, compacted, never lost to another editor or to a failure."""

from __future__ import annotations

import copy
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

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.database.storage import columns as files
from protoattend.database.storage import edit_log as edits
from protoattend.errors import BadFile, UserError

from .folders import assert_same, content, open_again


def some_edits(database: CandidateDatabase, X: Any, y: Any) -> None:
    database.remove([3, 5])
    added = database.add(X[:3], y[:3])
    database.relabel([7, added[1]], database.classes.values[[-1, 0]])
    database.remove([added[2], 8])
    database.relabel([7], database.classes.values[1])
    database.remove([])


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
        with pytest.raises(UserError, match="edited or saved again since"):
            write()
    assert set(opened.indices) - set(open_again(opened, tmp_path / "database").indices) == set()
    third = open_again(opened, tmp_path / "database")
    third.remove([4])
    opened.compact()
    with pytest.raises(UserError, match="edited or saved again since"):
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
            return "edited or saved again since" not in str(error)
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


def test_what_is_replaced_while_it_is_read_is_read_again(
    opened: CandidateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.remove([1])
    real, todo = edits.read_log, [opened.save_edits, opened.compact]

    def read_late(folder: Path) -> Any:
        if todo:
            todo.pop()()
        return real(folder)

    monkeypatch.setattr(edits, "read_log", read_late)
    late = open_again(opened, tmp_path / "database")
    assert 1 not in late.indices
    late.remove([2])
    assert late.save_edits() == 1


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
