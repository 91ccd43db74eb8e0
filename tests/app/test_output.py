"""Tables that commands write: formats by ending, nothing replaced by accident, nothing a spreadsheet would run."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.app.neutral import for_csv, for_terminal
from protoattend.app.output import as_csv, new_file, require_new, require_writable, write_table
from protoattend.app.talk import Talk, make_table
from protoattend.errors import CannotWrite, UserError

from .running import failed

TABLE = {"row": [0, 1], "label": ["=cmd()", "-1"], "share": [0.5, float("nan")], "set": [["a", "b"], []]}


def test_the_ending_is_the_format(tmp_path: Path) -> None:
    for ending in (".csv", ".json", ".jsonl", ".parquet"):
        write_table(TABLE, tmp_path / f"x{ending}")
    assert (tmp_path / "x.csv").read_text() == ('row,label,share,set\n0,\'=cmd(),0.5,"[""a"", ""b""]"\n1,-1,nan,[]\n')
    records = json.loads((tmp_path / "x.json").read_text())
    assert records == [
        {"row": 0, "label": "=cmd()", "share": 0.5, "set": ["a", "b"]},
        {"row": 1, "label": "-1", "share": None, "set": []},
    ]
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == records
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["label"].tolist() == ["=cmd()", "-1"]
    assert [list(labels) for labels in frame["set"]] == [["a", "b"], []]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_is_a_formula(start: str) -> None:
    assert for_csv(f"{start}A1").startswith("'")
    assert as_csv({f"{start}A1": [f"{start}A1"]}).count("'") == 2


@pytest.mark.parametrize("cell", ["-1", "+1.5", "-1e-3", "-,5", "a=b", "", "'=x", -1, 2.5, None, True])
def test_other_cells_stay(cell: object) -> None:
    assert for_csv(cell) == cell


def test_control_characters_reach_neither_file_nor_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bad = "a\x1b[2J\x07\x9b31m\u202eb"
    for neutral in (for_csv, for_terminal):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(neutral(bad))
    Talk().lines([bad], None)
    Talk().say(bad)
    Talk().table(make_table(bad, [{bad: bad}]), machine=None)
    Talk(json=True).lines([], {bad: bad})
    out, err = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err)
    assert json.loads(out.splitlines()[-1]) == {bad: bad}


def test_json_has_the_values_of_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    Talk(json=True).lines([], {"a": np.arange(2), "b": np.float64("nan"), "c": Path("x"), "d": np.bool_(True)})
    assert json.loads(capsys.readouterr().out) == {"a": [0, 1], "b": None, "c": "x", "d": True}


def test_what_cannot_be_written_is_found_before_any_work(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, new, to = place / "wine-model", place / "wine-new.csv", tmp_path / "made"
    with monkeypatch.context() as patch:

        def read_only(path: object, *_: object, **__: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system", str(path))

        def never(*_: object, **__: object) -> None:
            raise AssertionError("worked first")

        patch.setattr("os.mkdir", read_only)
        patch.setattr(ProtoAttendClassifier, "fit", never)
        patch.setattr(ProtoAttendClassifier, "load", never)
        for out, *arguments in (
            (to, "fit", place / "wine.csv", "--target", "kind", "--to"),
            (to.with_suffix(".csv"), "predict", model, new, "--out"),
            (to.with_suffix(".html"), "explain", model, new, "--out"),
            (to.with_suffix(".html"), "report", model, "--out"),
        ):
            told = failed(*arguments, out)
            assert f"{out} could not be written (Read-only file system)" in told
    (tmp_path / "file").write_text("mine")
    inside = tmp_path / "file" / "deeper" / "model"
    assert "could not be written (Not a directory)" in failed("fit", new, "--to", inside)
    assert "must end in .html, .htm" in failed("report", model, "--out", tmp_path / "r.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    out = tmp_path / "new.csv"
    with pytest.raises(CannotWrite, match=r"/new\.csv could not be written \(No space left"), new_file(out):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced_by_accident(tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text("mine")
    with pytest.raises(UserError, match=r"old\.csv is there already; .*--force"):
        require_writable(old)
    require_writable(old, force=True)
    with pytest.raises(UserError, match="input is never replaced"):
        require_writable(old, tmp_path / "." / "old.csv", force=True)
    (tmp_path / "link.csv").symlink_to(old)
    with pytest.raises(UserError, match="input is never replaced"):
        require_writable(tmp_path / "link.csv", old, force=True)
    with pytest.raises(UserError, match=r"must end in \.csv, \.json, \.jsonl, \.parquet, .*x\.xlsx"):
        require_writable(tmp_path / "x.xlsx")
    with pytest.raises(UserError, match="is a folder"):
        require_new(tmp_path)
    with pytest.raises(IsADirectoryError), new_file(old) as fresh:
        fresh.write_text("half") and tmp_path.write_text("")
    assert old.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "old.csv"]
