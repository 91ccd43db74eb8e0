"""Who may ask the server, how much, and what it says of itself."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest

from protoattend.app.server import inference
from protoattend.app.server.application import Options
from protoattend.app.server.limits import Limits
from protoattend.app.server.metrics import Watch
from protoattend.app.server.problems import Refused
from protoattend.app.server.run import check
from protoattend.app.server.worker import Batcher
from protoattend.errors import UserError

from .test_v2 import request_of


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "10.0.0.1:8000", ""])
def test_another_host_is_refused(serve: Any, host: str) -> None:
    assert serve("text").get("/api/model", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_this_machine_is_known_by_its_names(serve: Any, host: str) -> None:
    assert serve("text").get("/api/model", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_pages_of_other_sites_may_not_ask(serve: Any, headers: dict[str, str]) -> None:
    client = serve("text", edit=True)
    asked = {"version": 0, "drafts": {"removed": [1]}}
    assert client.post("/api/save", json=asked, headers=headers).status_code == 403
    assert client.get("/api/model", headers=headers).status_code == 403
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.post("/api/save", json=asked, headers=own).status_code == 200


def test_a_token_is_needed_for_any_other_address() -> None:
    check(Options(host="127.0.0.1"))
    check(Options(host="0.0.0.0", token="secret"))
    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::"):
        with pytest.raises(UserError, match="token"):
            check(Options(host=host))


def test_a_token_opens_and_nothing_else_does(serve: Any) -> None:
    client = serve("text", host="0.0.0.0", token="secret-token")
    assert (
        client.get("/api/model").status_code == client.get("/").status_code == client.get("/metrics").status_code == 401
    )
    assert client.get("/v2/health/live").status_code == 200
    for wrong in (
        {"authorization": "Bearer secret"},
        {"authorization": "secret-tokén".encode()},
        {"cookie": "protoattend_token=x"},
    ):
        assert client.get("/api/model", headers=wrong).status_code == 401
    assert client.get("/api/model", headers={"authorization": "Bearer secret-token"}).status_code == 200
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/?token=secret-token", follow_redirects=False).status_code == 303
    assert client.get("/api/model").status_code == 200  # by the cookie that it set


def test_too_large_is_refused(serve: Any) -> None:
    client = serve("text", limits=Limits(body=2000, rows=3))
    too_many = client.post("/v2/models/text/infer", json=request_of("text", ["a"] * 4))
    assert (too_many.status_code, "3 rows" in too_many.json()["error"]) == (413, True)
    assert client.post("/v2/models/text/infer", json=request_of("text", ["a" * 3000])).status_code == 413

    def unannounced() -> Any:
        for _ in range(30):
            yield b"x" * 100

    assert client.post("/v2/models/text/infer", content=unannounced()).status_code == 413


def test_a_client_that_sends_all_before_it_listens_is_told(sites: Any) -> None:
    body = b"x" * (Limits().body + 1_000_000)
    asked = urllib.request.Request(f"{sites('text')}/v2/models/text/infer", body, {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=30)
    assert refused.value.code == 413
    assert "bytes" in json.load(refused.value)["error"]


def test_too_long_is_refused(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from protoattend.app.server.workbench import Workbench

    client, answered = serve("text", limits=Limits(seconds=2)), threading.Event()
    monkeypatch.setattr(Workbench, "row", lambda self, name, number: answered.wait(60))
    answer = client.post("/api/card", json={"row": {"row": 1}})
    answered.set()
    assert (answer.status_code, list(answer.json())) == (408, ["error"])


def test_pages_carry_no_scripts_of_others_and_no_files_of_this_machine(serve: Any) -> None:
    client = serve("text")
    page = client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "http" not in page.text
    for path in ("/static/../server/run.py", "/static/%2e%2e/server/run.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404


def test_the_log_tells_routes_and_no_inputs(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = serve("text", host="0.0.0.0", token="secret-token")
    caplog.set_level(logging.INFO, "protoattend.server")
    caplog.clear()
    bearer = {"authorization": "Bearer secret-token"}
    client.post("/api/card", json={"input": {"text": "my private words"}}, headers=bearer)
    client.get("/?token=secret-token")
    lines = [json.loads(record.message) for record in caplog.records]
    assert lines[0] | {"time": "", "ms": 0} == {
        "time": "",
        "method": "POST",
        "route": "/api/card",
        "status": 200,
        "ms": 0,
    }
    assert "private" not in caplog.text
    assert "secret" not in caplog.text


def test_metrics_count_what_was_decided(serve: Any, datas: Any) -> None:
    client = serve("table", min_confidence=0.9)
    answer = client.post("/v2/models/table/infer", json=request_of("table", datas["table"].X[:40])).json()
    confidence = next(part["data"] for part in answer["outputs"] if part["name"] == "confidence")
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert float(lines["protoattend_rows_total"]) == float(lines["protoattend_confidence_count"]) == 40
    assert float(lines["protoattend_abstentions_total"]) == sum(share < 0.9 for share in confidence)
    route = 'route="/v2/models/{model_name}/infer",status="200"'
    assert float(lines[f'protoattend_requests_total{{method="POST",{route}}}']) == 1
    assert "protoattend_ood_rows_total" in lines


def test_the_drift_alarm_is_raised_by_drift_alone(serve: Any, datas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def watch(*arguments: Any) -> Watch:
        begun.set()
        return Watch(*arguments)

    monkeypatch.setattr(inference, "Watch", watch)
    client = serve("table")
    assert begun.wait(60)
    alike, changed = datas["table"].X, datas["table"].X.assign(age=75.0, job="nurse")

    def alarm_after(X: Any) -> float:
        for _ in range(4):
            assert client.post("/v2/models/table/infer", json=request_of("table", X)).status_code == 200
        lines = client.get("/metrics").text.splitlines()
        return float(next(line for line in lines if line.startswith("protoattend_drift_alarm ")).split()[1])

    assert alarm_after(alike) == 0
    assert alarm_after(changed) == 1


def test_requests_of_several_clients_are_one_batch() -> None:
    sizes: list[int] = []

    async def decide(source: np.ndarray) -> list[int]:
        sizes.append(len(source))
        await asyncio.sleep(0.01)
        return source[:, 0].tolist()

    async def several() -> list[Any]:
        batcher = Batcher(decide, Limits(batch=16))
        batcher.start()
        answers = await asyncio.gather(*(batcher.ask(np.full((2, 1), i)) for i in range(12)))
        await batcher.stop()
        return answers

    assert asyncio.run(several()) == [[i, i] for i in range(12)]
    assert sizes == [16, 8]


def test_a_full_queue_and_a_failing_batch_are_answered() -> None:
    async def decide(source: np.ndarray) -> list[int]:
        if (source < 0).any():
            raise UserError("no negative numbers.")
        await asyncio.sleep(0.01)
        return source[:, 0].tolist()

    async def crowd() -> list[Any]:
        batcher = Batcher(decide, Limits(batch=1, waiting=3))
        batcher.start()
        questions = [batcher.ask(np.full((1, 1), i)) for i in (1, -1, 2, 3, 4)]
        answers = await asyncio.gather(*questions, return_exceptions=True)
        answers.append(await batcher.ask(np.full((1, 1), 9)))  # it goes on
        await batcher.stop()
        return answers

    first, negative, second, *late, last = asyncio.run(crowd())
    assert (first, second, last) == ([1], [2], [9])
    assert isinstance(negative, UserError)
    assert all(isinstance(error, Refused) and error.status == 429 for error in late)
