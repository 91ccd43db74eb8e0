"""`protoattend reproduce`: the list of runs, one run, and all that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from protoattend.reproduce import runs
from protoattend.reproduce.experiments import Run, listed

from .running import as_json, failed, run


def test_the_list_says_what_is_missing(tmp_path: Path) -> None:
    rows = as_json("reproduce", "--out", tmp_path)
    assert len(rows) == len(listed())
    assert {row["state"] for row in rows} == {"missing"}
    assert rows[0]["command"] == "protoattend reproduce table2 --data adult --recipe ours --seed 0"


def test_one_run_within_a_time(tmp_path: Path) -> None:
    folders = ("--out", tmp_path / "results", "--work", tmp_path / "work")
    report = as_json("reproduce", "cost", "--data", "digits", "--minutes", "20", *folders)
    assert (report["experiment"], report["recipe"], report["seed"]) == ("cost", "ours", 0)
    assert report["config"]["minutes"] == 20  # with other settings it is not the run of the list
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["cost-digits-ours-0.json"]


def test_a_run_without_data_does_not_hold_up_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOATTEND_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("protoattend.datasets.catalogue.SYSTEM_FOLDERS", ())
    wanted = (Run("table2", "adult", "ours"), Run("cost", "digits", "ours"))
    monkeypatch.setattr(runs, "listed", lambda: wanted)
    result = run("reproduce", "--all", "--out", tmp_path / "results", "--work", tmp_path / "work")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "reproduce done=1 missing=1"
    assert "protoattend datasets get adult" in result.stderr


def test_a_mistake_is_named(tmp_path: Path) -> None:
    assert "did you mean 'table2'" in failed("reproduce", "table22", "--out", tmp_path)
    assert "the recipe of 'cost'" in failed("reproduce", "cost", "--recipe", "paper", "--out", tmp_path)
