"""Input that cannot be used: one line that says why, exit code 1, and nothing lost."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from .running import failed

CASES = [
    ("x,y\n1,a\n2,b\n", "--target z", "target, a column of .* must be one of 'x', 'y', but got 'z'.$"),
    ("width,kind\n1,a\n2,b\n", "--target kidn", "did you mean 'kind'"),
    ("Width,Kind\n1,a\n2,b\n", "--target kind", "did you mean 'Kind'"),
    ("", "--target y", "the file is empty"),
    ("x,y\n", "--target y", "at least one row"),
    (
        "x,y\n1,a\n2,\n3,NaN\n",
        "--target y",
        r"2 of 3 cells of 'y' are empty, the first at row 1 \(line 3 of the file\)",
    ),
    ("x,y\n1,a\n2,a\n", "--target y", "at least two classes"),
    ("y\na\nb\na\n", "--target y", "columns besides its target"),
    ('x,y\n"1,a\n', "--target y", "quote opened in this row is not closed"),
    (b"\xff\xfe\x00x", "--target y", "text must be UTF-8"),
    ("x,y\n1,2.5\n2,3.5\n3,1.5\n", "--target y", "regression"),
    ("x,y\n1,a\n2,b\n", "--target y --id y", "one role"),
]


@pytest.mark.parametrize(("content", "options", "message"), CASES)
def test_bad_tables(tmp_path: Path, content: str | bytes, options: str, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = failed("fit", path, *options.split(), "--to", tmp_path / "model")
    assert re.search(message, line), line
    assert [each.name for each in tmp_path.iterdir()] == ["table.csv"]


def test_unreadable_and_foreign(place: Path, tmp_path: Path) -> None:
    assert "does not exist" in failed("predict", place / "wine-model", tmp_path / "no.csv")
    (tmp_path / "x.xlsx").write_bytes(b"x")
    assert "convert it first" in failed("predict", place / "wine-model", tmp_path / "x.xlsx")
    (tmp_path / "x.csv").symlink_to(tmp_path / "gone.csv")
    assert "does not exist" in failed("predict", place / "wine-model", tmp_path / "x.csv")
    np.savez(tmp_path / "a.npz", a=np.zeros((3, 2)), b=np.zeros((3, 2)))
    assert "--samples" in failed("fit", tmp_path / "a.npz", "--to", tmp_path / "model")
    for verb in ("predict", "explain", "evaluate", "threshold", "ood"):
        assert "no meta.json" in failed(verb, place / "digits", place / "wine.csv")
    assert "no meta.json" in failed("database", "info", place / "digits")
    assert "no meta.json" in failed("labels", "list", tmp_path / "nowhere")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "meta.json").write_text('{"what": "a cake"}')
    assert "describes something else" in failed("predict", tmp_path / "foreign", place / "wine.csv")
    assert (tmp_path / "foreign" / "meta.json").read_text() == '{"what": "a cake"}'
