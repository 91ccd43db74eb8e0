"""Folders: what is not ours stays; a crash leaves the old state or the new one, a full disk what was there."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.faults.killing import hidden, killed_at, kills, without_exchange

from protoattend import CandidateDatabase, ProtoAttendClassifier, folders
from protoattend.database.storage import folder as on_disk
from protoattend.errors import BadFile, CannotWrite, UserError
from protoattend.folders import atomic_folder, read_whole, recover

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="audits a forked process")


def open_again(clf: ProtoAttendClassifier, folder: Path) -> CandidateDatabase:
    return CandidateDatabase.open(folder, clf.model_, inputs=clf.inputs_, classes=clf.database_.classes)


@pytest.fixture
def saved(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> tuple[ProtoAttendClassifier, Path]:
    wine_classifier.database_.save(tmp_path / "database")
    return wine_classifier, tmp_path / "database"


# -- what is not ours --------------------------------------------------------------------------------------------------


def test_a_project_with_some_meta_json_is_left_alone(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"what": "my thesis"}')
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds other files, such as meta\.json"):
        wine_classifier.save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    "name", ["thesis.tex", "database/notes.npy", "database/edits/00000001/x.txt", ".hidden", "a/b"]
)
def test_a_file_beside_ours_is_named_and_stays(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, name: str
) -> None:
    wine_classifier.save(tmp_path / "model")
    theirs = tmp_path / "model" / name
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_text("mine")
    with pytest.raises(UserError, match=f"also holds {name}"):
        wine_classifier.save(tmp_path / "model")
    assert theirs.read_text() == "mine"
    theirs.unlink()
    wine_classifier.save(tmp_path / "model")


def test_links_are_never_followed_nor_removed(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model" / "database" / "edits").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="also holds database/edits"):
        wine_classifier.save(tmp_path / "model")
    (tmp_path / "model" / "database" / "edits").unlink()
    (tmp_path / "name").symlink_to(tmp_path / "model")
    wine_classifier.save(tmp_path / "name")  # into what the link names
    assert (tmp_path / "name").is_symlink()


def test_a_database_does_not_take_the_place_of_a_classifier(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path
) -> None:
    wine_classifier.save(tmp_path / "model")
    with pytest.raises(UserError, match="holds protoattend classifier; choose"):
        wine_classifier.database_.save(tmp_path / "model")
    ProtoAttendClassifier.load(tmp_path / "model")


def test_what_comes_in_at_the_last_moment_is_kept(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last look and the change of places somebody may still put a file there."""
    clf, folder = saved
    real = folders._change_places

    def late(fresh: Path, target: Path) -> Path:
        (target / "thesis.tex").write_text("mine")
        return real(fresh, target)

    monkeypatch.setattr(folders, "_change_places", late)
    with pytest.warns(UserWarning, match=r"thesis\.tex came into a folder while it was replaced; it is kept in"):
        clf.database_.save(folder)
    assert next(folder.parent.rglob("thesis.tex")).read_text() == "mine"
    open_again(clf, folder)


# -- crashes -----------------------------------------------------------------------------------------------------------


@LINUX
@pytest.mark.parametrize("steps", [nullcontext, without_exchange], ids=["one step", "two steps"])
def test_a_kill_in_compact_leaves_the_old_state_or_the_new(saved: Any, steps: Callable[[], Any]) -> None:
    clf, folder = saved
    before, edited = len(clf.database_), open_again(clf, folder)
    edited.remove([0, 1])
    with steps():
        count = 0
        for operation in range(0, 500, 9):
            at_work = open_again(clf, folder)
            if len(at_work) == before - 2:
                clf.database_.save(folder)
                at_work = open_again(clf, folder)
            at_work.remove([0, 1])
            if not killed_at(operation, at_work.compact):
                break
            count += 1
            assert len(open_again(clf, folder)) in (before, before - 2)
            assert len(hidden(folder.parent)) <= 30  # of one writer: the files of a single folder
        open_again(clf, folder).compact()
    assert count > 5
    assert hidden(folder.parent) == []


@LINUX
def test_a_kill_in_save_edits_leaves_the_edit_or_not(saved: Any) -> None:
    clf, folder = saved

    def edit_once() -> None:
        database = open_again(clf, folder)
        database.remove([int(database.indices[0])])
        database.save_edits()

    for _ in kills(edit_once, range(0, 400, 7)):
        open_again(clf, folder).verify()
    database = open_again(clf, folder)
    database.remove([int(database.indices[0])])
    database.save_edits()
    assert hidden(folder) == []


@LINUX
def test_a_kill_in_save_leaves_a_whole_classifier(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    for _ in kills(lambda: wine_classifier.save(tmp_path / "model"), range(0, 400, 11)):
        ProtoAttendClassifier.load(tmp_path / "model").database_.verify()
    wine_classifier.save(tmp_path / "model")
    assert hidden(tmp_path) == []


def test_what_two_steps_left_apart_is_put_back(saved: Any) -> None:
    clf, folder = saved
    os.rename(folder, folder.with_name(".database.protoattend-0123abcd.old"))
    assert len(open_again(clf, folder)) == len(clf.database_)
    os.rename(folder, folder.with_name(".database.protoattend-0123abcd.old"))
    clf.database_.save(folder)
    assert hidden(folder.parent) == []


def test_the_new_folder_of_a_living_writer_is_no_leftover(saved: Any) -> None:
    clf, folder = saved
    with atomic_folder(folder, "protoattend candidate database") as fresh:
        shutil.copytree(folder, fresh, dirs_exist_ok=True)
        clf.database_.save(folder)
        assert (fresh / "meta.json").exists()
    assert hidden(folder.parent) == []


def test_a_reader_beside_a_writer_sees_one_state(saved: Any) -> None:
    clf, folder = saved
    writer = open_again(clf, folder)
    done = threading.Event()
    states: list[int] = [len(writer)]

    def write() -> None:
        for index in range(25):
            writer.remove([index])
            states.append(len(writer))
            writer.compact() if index % 2 else writer.save_edits()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while not done.is_set():
        seen.append(len(open_again(clf, folder)))
    thread.join()
    assert seen == sorted(seen, reverse=True), "removed rows came back"
    assert set(seen) <= set(states)


def test_who_verifies_beside_a_writer_is_not_told_of_damage(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, folder = saved
    reader, writer = open_again(clf, folder), open_again(clf, folder)
    real, calls = on_disk.verify_folder, []

    def disturbed(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 1:  # another process replaces the folder, and then what was begun does not fit
            writer.remove([0])
            writer.compact()
            raise BadFile("ids.npy does not match its checksum")
        real(*given)

    monkeypatch.setattr(on_disk, "verify_folder", disturbed)
    reader.verify()
    assert len(calls) == 2


def test_a_row_that_was_relabelled_may_have_been_trained_with(
    wine_classifier: ProtoAttendClassifier, wine: Any
) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    database.relabel([0], wine[1][-1])
    added = int(database.add(wine[0][:1], wine[1][:1])[0])
    report = database.forget([0, 1, added])
    assert report.trained_with == (1,)
    assert report.perhaps_trained_with == (0, added)
    assert "learned with 1 of them, and with those of 2 more that were relabelled" in str(report)


def test_errors_of_a_reading_that_nobody_disturbed_are_told(tmp_path: Path) -> None:
    calls = []

    def read() -> None:
        calls.append(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        read_whole(tmp_path, read)
    assert len(calls) == 1
    recover(tmp_path / "nothing")


# -- full disks and permissions ----------------------------------------------------------------------------------------


def full(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk be full after so many syncs."""
    left, real = [after], os.fsync

    def fsync(file: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(file)

    monkeypatch.setattr(folders.os, "fsync", fsync)


def test_a_full_disk_is_one_clear_error(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wine_classifier.save(tmp_path / "model")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    full(monkeypatch, after=3)
    with pytest.raises(CannotWrite, match=r"model could not be written \(No space left on device\): what was there"):
        wine_classifier.save(tmp_path / "model")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_full_disk_of_safetensors_is_an_oserror(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors import SafetensorError

    def fail(*given: Any, **named: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("protoattend.io.save_file", fail)
    with pytest.raises(OSError, match="make room") as raised:
        wine_classifier.save(tmp_path / "model")
    assert raised.value.errno == 28
    assert list(tmp_path.iterdir()) == []


def test_no_half_page_is_left(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanations = wine_classifier.explain(wine[0][:2])
    page = tmp_path / "page.html"
    explanations.to_html(page)
    before = page.read_text()
    full(monkeypatch, after=0)
    with pytest.raises(CannotWrite, match=r"page\.html could not be written"):
        explanations.to_html(page, title="another")
    assert page.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_have_the_modes_of_the_umask(wine_classifier: ProtoAttendClassifier, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        wine_classifier.save(tmp_path / "model")
    finally:
        os.umask(before)
    for path in (tmp_path / "model").rglob("*"):
        wanted = (0o777 if path.is_dir() else 0o666) & ~umask
        assert path.stat().st_mode & 0o777 == wanted, path.name


def test_a_private_folder_stays_private(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    (tmp_path / "model").chmod(0o700)
    wine_classifier.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_small_tmpfs(tmp_path: Path) -> None:
    """A real full disk, where the machine lets us mount one."""
    script = Path(__file__).with_name("full_disk.py")
    command = ["unshare", "--mount", "--map-root-user", sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot mount" in done.stderr or done.returncode == 127 or "unshare" in done.stderr:
        pytest.skip("no mounts here")
    assert json.loads(done.stdout.splitlines()[-1]) == {"raised": "CannotWrite", "loads": True, "hidden": []}, (
        done.stderr
    )


def test_a_copy_and_a_pickle_of_a_database_have_locks_of_their_own(wine_classifier: ProtoAttendClassifier) -> None:
    import pickle

    for other in (copy.deepcopy(wine_classifier.database_), pickle.loads(pickle.dumps(wine_classifier.database_))):
        assert other._writing is not wine_classifier.database_._writing
        other.remove([0])
