"""`protoattend serve` as a command: it starts, answers, stops well, and refuses in one line."""

from __future__ import annotations

import gc
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from typer.testing import CliRunner

from protoattend.app.cli import app
from protoattend.app.files import Use
from protoattend.app.starting import uncollected
from protoattend.errors import UserError


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def ask(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_it_starts_answers_and_stops_well(folders: Any, people: Any, tmp_path: Any) -> None:
    X, y = people
    X.assign(group=y)[:60].to_csv(tmp_path / "test.csv", index=False)
    port = free_port()
    command = [sys.executable, "-m", "protoattend", "serve", str(folders["table"]), "--port", str(port)]
    more = ["--data", str(tmp_path / "test.csv"), "--target", "group"]
    process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(1200):
            try:
                assert ask(port, "/v2/health/ready") == {"ready": True}
                break
            except urllib.error.URLError:
                assert process.poll() is None, process.communicate()
                time.sleep(0.1)
        assert ask(port, "/api/model")["rows"] == 60
        assert ask(port, "/api/model")["labelled"]
    finally:
        process.send_signal(signal.SIGTERM)
    out, log = process.communicate(timeout=120)
    assert process.returncode == 0
    assert f"http://127.0.0.1:{port}/" in out
    assert {"route", "status", "ms"} <= set(json.loads(log.splitlines()[-1]))


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.output


def test_what_cannot_be_served_is_one_line(folders: Any, tmp_path: Any) -> None:
    model = str(folders["table"])
    assert "token" in refusal(model, "--host", "0.0.0.0")
    assert "meta.json" in refusal(str(tmp_path))
    assert "does not exist" in refusal(model, "--data", str(tmp_path / "none.csv"))
    (tmp_path / "other.csv").write_text("age,job\n30,clerk\n")
    assert "since" in refusal(model, "--data", str(tmp_path / "other.csv"))
    assert "wage" in refusal(model, "--data", str(tmp_path / "other.csv"), "--target", "wage")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port" in refusal(model, "--port", str(taken.getsockname()[1]))


def test_a_stale_database_is_one_line(folders: Any, tmp_path: Any) -> None:
    import shutil

    shutil.copytree(folders["table"], tmp_path / "mixed")
    shutil.rmtree(tmp_path / "mixed" / "database")
    shutil.copytree(folders["array"] / "database", tmp_path / "mixed" / "database")
    assert "model that made it" in refusal(str(tmp_path / "mixed"))


def test_labels_are_read_where_the_file_has_them(folders: Any, people: Any, tmp_path: Any) -> None:
    X, y = people
    X.assign(group=y).to_csv(tmp_path / "labelled.csv", index=False)
    X.to_csv(tmp_path / "unlabelled.csv", index=False)
    labelled = Use.of(folders["table"], target="group").read_if_labelled(tmp_path / "labelled.csv")
    assert labelled.y is not None
    assert labelled.y.tolist() == y.tolist()
    assert Use.of(folders["table"]).read_if_labelled(tmp_path / "unlabelled.csv").y is None


def test_its_address_is_told_as_json(folders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: [one.close() for one in sockets])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    port = free_port()
    result = CliRunner().invoke(app, ["serve", str(folders["array"]), "--port", str(port), "--json"])
    assert json.loads(result.stdout) == {"model": "array", "address": f"http://127.0.0.1:{port}/"}


@pytest.mark.slow
def test_it_starts_without_what_it_does_not_need(folders: Any) -> None:
    """Torch's compiler, drawing and what only training needs would make the start some seconds longer."""
    script = (
        "import sys; from pathlib import Path; from protoattend.app.server.application import Options, create_app;"
        "from protoattend.app.server.workbench import Workbench; bench = Workbench(Path(sys.argv[1]));"
        "create_app(bench, Options()); bench.step(); print(*sys.modules)"
    )
    for kind in ("table", "text", "images"):
        command = [sys.executable, "-c", script, str(folders[kind])]
        loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
        assert "torch" in loaded
        assert not loaded & {"torch._dynamo", "sympy", "matplotlib", "jinja2", "sklearn.decomposition"}


def test_a_start_leaves_the_search_for_garbage_on() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    with pytest.raises(UserError), uncollected():
        raise UserError("none")
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
