"""The command line as a person starts it: a process of its own, quick to start, with one line for a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = "import sys; sys.argv = ['protoattend', *sys.argv[1:]]\nfrom protoattend.app.cli import main\n"
HEAVY = ("torch", "numpy", "sklearn", "pandas")


def protoattend(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "protoattend", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"], ["database", "add", "--help"]])
def test_help_waits_for_nothing(arguments: list[str]) -> None:
    code = (
        f"{MODULES}\ntry:\n    main()\nfinally:\n    print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout
    assert result.stderr == "[]\n"


def test_a_table_images_and_texts(place: Path, tmp_path: Path) -> None:
    """What fit made in another process is used here, and standard output is for the result alone."""
    for model, path, count in (
        ("wine-model", "wine-new.csv", 38),
        ("digits-model", "digits", 120),
        ("texts-model", "texts.csv", 40),
    ):
        result = protoattend("predict", place / model, place / path, "--json")
        assert result.returncode == 0, result.stderr
        assert len(json.loads(result.stdout)) == count
        assert result.stderr == ""
