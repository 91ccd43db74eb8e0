"""Small classifiers in folders of their own, served without a network or on a free port."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi", reason="the server needs the extra [serve]")
pytest.importorskip("httpx", reason="tests of the server need httpx, of the extra [dev]")

import uvicorn
from fastapi.testclient import TestClient

from protoattend import ProtoAttendClassifier
from protoattend.app.server.application import Options, create_app
from protoattend.app.server.workbench import Workbench
from protoattend.data.readers import LabelledData


@pytest.fixture(scope="session")
def people() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of a number, a category and a date, with three wrong labels."""
    rng = np.random.default_rng(0)
    n = 150
    age = rng.normal(40, 9, n)
    job = rng.choice(["clerk", "baker", "nurse"], n)
    since = pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D")
    label = np.where(age + 6 * (job == "nurse") > 42, "older", "younger")
    label[:3] = np.where(label[:3] == "older", "younger", "older")
    return pd.DataFrame({"age": age, "job": job, "since": since}), label


@pytest.fixture(scope="session")
def folders(
    tmp_path_factory: Any, digit_classifier: Any, text_classifier: Any, wine_classifier: Any, people: Any
) -> Any:
    """One saved classifier a kind of input, never to be edited."""
    root = tmp_path_factory.mktemp("served")
    table = ProtoAttendClassifier(max_epochs=15, random_state=0, verbose=0).fit(*people)
    kinds = {"images": digit_classifier, "text": text_classifier, "array": wine_classifier, "table": table}
    for name, classifier in kinds.items():
        classifier.save(root / name)
    return {name: root / name for name in kinds}


@pytest.fixture(scope="session")
def datas(few_digits: Any, texts: Any, wine: Any, people: Any) -> dict[str, LabelledData]:
    """Rows to look at, of each kind: training rows will do here."""
    pairs = {"images": few_digits, "text": texts, "array": wine, "table": people}
    return {name: LabelledData(X[:90], np.asarray(y[:90]), "rows", "here") for name, (X, y) in pairs.items()}


@pytest.fixture
def serve(folders: Any, datas: Any, tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """Serve a kind of classifier, in a folder that may be edited, once all its rows are decided."""
    opened: list[TestClient] = []

    def serving(kind: str = "table", *, data: bool = True, **options: Any) -> TestClient:
        folder = tmp_path / kind
        if not folder.exists():
            shutil.copytree(folders[kind], folder)
        bench = Workbench(folder, datas[kind] if data else None)
        client = TestClient(create_app(bench, Options(**options)), base_url="http://127.0.0.1:8000")
        opened.append(client.__enter__())
        settle(client, options.get("token"))
        return client

    yield serving
    for client in opened:
        client.__exit__(None, None, None)


def settle(client: Any, token: str | None = None) -> None:
    """Wait until all rows are decided."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    for _ in range(1000):
        queue = client.get("/api/labels", headers=headers).json()
        if queue["decided"] >= queue["to_decide"]:
            return
        time.sleep(0.02)
    raise AssertionError("rows were never all decided")


@pytest.fixture(scope="session")
def sites(folders: Any, datas: Any, tmp_path_factory: Any) -> Iterator[Callable[..., str]]:
    """Addresses of servers that listen on this machine, of a kind of input each, in folders that may be edited."""
    started: dict[tuple[str, str], tuple[uvicorn.Server, threading.Thread, str]] = {}

    def site(kind: str, whose: str = "") -> str:
        if (kind, whose) not in started:
            folder = tmp_path_factory.mktemp("site") / kind
            shutil.copytree(folders[kind], folder)
            app = create_app(Workbench(folder, datas[kind]), Options(edit=True))
            server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
            thread = threading.Thread(target=server.run, daemon=True)
            thread.start()
            while not server.started:
                time.sleep(0.02)
            port = server.servers[0].sockets[0].getsockname()[1]
            started[kind, whose] = (server, thread, f"http://127.0.0.1:{port}")
        return started[kind, whose][2]

    yield site
    for server, thread, _ in started.values():
        server.should_exit = True
        thread.join(10)
