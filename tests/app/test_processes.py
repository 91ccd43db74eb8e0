"""The command line as a person starts it: a process of its own, quick to start, with one line for a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODULES = "import sys; sys.argv = ['protoattend', *sys.argv[1:]]\nfrom protoattend.app.cli import main\n"
HEAVY = ("torch", "numpy", "sklearn", "pandas")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"], ["database", "add", "--help"]])
def test_help_waits_for_nothing(arguments: list[str]) -> None:
    code = (
        f"{MODULES}\ntry:\n    main()\nfinally:\n    print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout
    assert result.stderr == "[]\n"


CALLS = """
import json, runpy, sys
for arguments in json.load(sys.stdin):
    sys.argv = ["protoattend", *arguments]
    try:
        runpy.run_module("protoattend", run_name="__main__")
    except SystemExit as end:
        assert not end.code
    print(flush=True)
"""


def test_a_table_images_and_texts(place: Path) -> None:
    """What fit made in another process is used here, and standard output is for the result alone."""
    counts = {("wine-model", "wine-new.csv"): 38, ("digits-model", "digits"): 120, ("texts-model", "texts.csv"): 40}
    calls = [["predict", str(place / model), str(place / path), "--json"] for model, path in counts]
    command = [sys.executable, "-c", CALLS]
    result = subprocess.run(command, input=json.dumps(calls), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert [len(rows) for rows in json_documents(result.stdout)] == list(counts.values())
    assert result.stderr == ""


def json_documents(text: str) -> list[Any]:
    """Return all that a text holds, which must be nothing but JSON."""
    found = []
    while text := text.lstrip():
        document, end = json.JSONDecoder().raw_decode(text)
        found.append(document)
        text = text[end:]
    return found
