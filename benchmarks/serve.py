"""The server under load, and a click of the explorer with many candidates.

    python benchmarks/serve.py [--quick]

32 clients ask for one row each over the Open Inference Protocol, again and again, on loopback; memory is read after a
tenth of the time and at the end. A click is a decision card of a row, with and without drafts that were never asked
about before, at 100,000 candidates while no one else asks; beside it stands the same search done in Python, for which
the card is drawn and sent. Starting is measured from the command to the first answer, and beside it what `import torch`
takes by itself. `--quick` takes 5 seconds in place of 30. Writes benchmarks/results/serve.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import record
import torch
from sklearn.datasets import load_digits

from protoattend import CandidateDatabase, ProtoAttendClassifier

CLIENTS, CANDIDATES, CLICKS = 32, 100_000, 60
HOST = "127.0.0.1"


def make_models(folder: Path) -> np.ndarray:
    """Save a small classifier, and one with many candidates; return rows to ask about."""
    X, y = load_digits(return_X_y=True)
    classifier = ProtoAttendClassifier(max_epochs=6, random_state=0, verbose=0).fit(X, y)
    classifier.save(folder / "small")
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(X), CANDIDATES)
    many = CandidateDatabase.build(
        classifier.model_,
        X[chosen] + rng.normal(0, 1.5, (CANDIDATES, X.shape[1])),
        y[chosen],
        inputs=classifier.inputs_,
        classes=classifier.database_.classes,
    )
    many.readings = classifier.database_.readings
    classifier.database_ = many
    classifier.save(folder / "large")
    return X


class Server:
    """`protoattend serve` in a process of its own, until the block ends."""

    def __init__(self, model: Path, port: int) -> None:
        self.port = port
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "protoattend", "serve", str(model), "--port", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not self._ready():
            if self.process.poll() is not None:
                raise RuntimeError("the server ended before it was ready")
            time.sleep(0.05)
        self.seconds_to_start = time.perf_counter() - started

    def _ready(self) -> bool:
        try:
            return self.ask("/v2/health/ready")["ready"]
        except OSError:
            return False

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def settle(self) -> None:
        """Wait until the rows of the explorer are decided."""
        while (queue := self.ask("/api/labels"))["decided"] < queue["to_decide"]:
            time.sleep(0.2)

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(15)


async def client(port: int, request: bytes, until: float, took: list[float]) -> int:
    """Ask again and again on one connection; return how often it was not answered by 200."""
    reader, writer = await asyncio.open_connection(HOST, port)
    errors = 0
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
        took.append(time.perf_counter() - started)
        errors += not head.startswith(b"http/1.1 200")
    writer.close()
    return errors


async def load(server: Server, X: np.ndarray, seconds: float) -> dict[str, float]:
    """Let all clients ask for so many seconds."""
    requests = []
    for row in X[:CLIENTS]:
        tensor = {"name": "X", "datatype": "FP64", "shape": [1, len(row)], "data": row.tolist()}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = (
            f"POST /v2/models/small/infer HTTP/1.1\r\nHost: {HOST}:{server.port}\r\nContent-Type: application/json\r\n"
        )
        requests.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    warm: list[float] = []
    until = time.perf_counter() + seconds / 10
    await asyncio.gather(*(client(server.port, request, until, warm) for request in requests))
    before, took = server.megabytes(), []
    until = time.perf_counter() + seconds
    errors = await asyncio.gather(*(client(server.port, request, until, took) for request in requests))
    p50, p99 = np.quantile(took, [0.5, 0.99])
    return {
        "rps": len(took) / seconds,
        "p50_ms": 1000 * p50,
        "p99_over_p50": p99 / p50,
        "errors": sum(errors),
        "rss_growth_mb": server.megabytes() - before,
    }


def clicks(server: Server) -> dict[str, float]:
    """Ask for decision cards one after the other, every other one with other drafts."""
    took = []
    for i in range(CLICKS):
        drafts = {"removed": [7 * i], "relabelled": {str(7 * i + 1): i % 10}} if i % 2 else {}
        took.append(
            milliseconds(server.ask, "/api/card", {"row": {"table": "candidates", "row": 31 * i}, "drafts": drafts})
        )
    plain, drafted = took[2::2], took[3::2]
    return {"click_ms": median(plain), "click_with_drafts_ms": median(drafted), "slowest_click_ms": max(took[2:])}


def searches(model: Path) -> dict[str, float]:
    """Do in Python what a click asks for: the search, and with drafts the search in a database that has them."""
    database = ProtoAttendClassifier.load(model).database_
    queries = database.rows.queries

    def drafted(i: int, query: torch.Tensor) -> None:
        database.attend(query)
        database.with_labels({7 * i + 1: i % 10}).without([7 * i]).attend(query)

    plain = [milliseconds(database.attend, queries[31 * i, None]) for i in range(2, CLICKS, 2)]
    with_drafts = [milliseconds(drafted, i, queries[31 * i, None]) for i in range(3, CLICKS, 2)]
    return {"search_ms": median(plain), "search_with_drafts_ms": median(with_drafts)}


def milliseconds(function: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    function(*arguments)
    return 1000 * (time.perf_counter() - started)


def importing_torch() -> float:
    """Return how many seconds a Python takes that does nothing but import torch."""
    return min(milliseconds(subprocess.check_call, [sys.executable, "-c", "import torch"]) / 1000 for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = make_models(folder)
        torch_s = importing_torch()
        with Server(folder / "small", 8461) as server:
            beyond_torch = server.seconds_to_start - torch_s
            server.settle()
            figures = asyncio.run(load(server, X, 5 if quick else 30))
        figures |= {"torch_import_s": torch_s, "start_beyond_torch_s": beyond_torch}
        with Server(folder / "large", 8462) as server:
            server.settle()
            figures |= clicks(server)
        figures |= searches(folder / "large")
    parts = {
        "start": ("torch_import_s", "start_beyond_torch_s"),
        "click": ("click_ms", "click_with_drafts_ms", "slowest_click_ms", "search_ms", "search_with_drafts_ms"),
        "errors": ("errors",),
        "serve": ("rps", "p50_ms", "p99_over_p50", "rss_growth_mb"),
    }
    for part, names in parts.items():
        print(part, *(f"{key}={figures[key]:.3g}" for key in names))
    record.write("serve", {"clients": CLIENTS, "candidates": CANDIDATES, "quick": quick, **figures})


if __name__ == "__main__":
    main()
