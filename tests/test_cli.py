"""The command line: help, clear errors, data sets."""

from __future__ import annotations

import subprocess
import sys


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


def test_a_mistake_is_one_line_and_exit_code_1() -> None:
    result = protoattend("datasets", "get", "mnst")
    assert result.returncode == 1
    assert "did you mean 'mnist'?" in result.stderr
    assert "Traceback" not in result.stderr
