"""The command line: help, clear errors, data sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def protoattend(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "protoattend", *arguments], capture_output=True, text=True, check=False
    )


def test_help_names_the_commands() -> None:
    result = protoattend("--help")
    assert result.returncode == 0
    assert "demo" in result.stdout
    assert "datasets" in result.stdout


def test_datasets_are_listed() -> None:
    result = protoattend("datasets")
    assert result.returncode == 0
    assert "fashion-mnist" in result.stdout


def test_a_mistake_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("x,y\n1,a\n2,a\n3,a\n")
    result = protoattend("fit", str(tmp_path / "one.csv"), "--to", str(tmp_path / "model"))
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    assert "at least two classes" in result.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
