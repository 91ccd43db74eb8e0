"""The guide to files runs as it stands: its Python and its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from protoattend.app.cli import app

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "files.md"


@pytest.mark.slow
def test_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|sh)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "sh", "python"]
    for language, block in blocks:
        if language == "python":
            exec(compile(block, str(GUIDE), "exec"), {})
            continue
        for line in block.splitlines():
            name, *arguments = shlex.split(line)
            assert name == "protoattend"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
    assert "200 images of 10 classes, read as 8x8 grey" in capsys.readouterr().out
    made = {"digits", "wine.csv", "digits-model", "predictions.csv", "why.html", "wine-model"}
    assert {path.name for path in tmp_path.iterdir()} == made
