"""The command line run inside the tests' own process, and what it printed."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from typer.testing import CliRunner, Result

from protoattend.app.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeeded(*arguments: object) -> str:
    """Return what was printed as the result."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: object) -> Any:
    """Return the result as a program gets it: all of standard output is JSON."""
    return json.loads(succeeded(*arguments, "--json"))


def failed(*arguments: object) -> str:
    """Return the error, which is one line, the last one, with nothing on standard output."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert result.stderr.count("error: ") == 1
    return last


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))
