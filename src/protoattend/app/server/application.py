"""The application: page, explorer, inference protocol and metrics, behind one guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

import protoattend
from protoattend.app.server.explorer import ERRORS, Explorer, Problem, explorer_routes
from protoattend.app.server.guard import Guard
from protoattend.app.server.inference import Inference, Row
from protoattend.app.server.limits import Limits
from protoattend.app.server.metrics import Metrics
from protoattend.app.server.problems import answer_errors
from protoattend.app.server.v2 import Served, v2_routes
from protoattend.app.server.workbench import Workbench
from protoattend.app.server.worker import Batcher, Worker

STATIC = Path(__file__).parent.parent / "static"
PAUSE = 0.002  # between slices of rows, so that clicks come first


@dataclass(frozen=True)
class Options:
    """How a model is served: where, to whom, and whether drafts may be saved."""

    host: str = "127.0.0.1"
    token: str | None = None
    edit: bool = False
    min_confidence: float | None = None
    name: str | None = None
    limits: Limits = field(default_factory=Limits)


def create_app(bench: Workbench, options: Options) -> FastAPI:
    """Return the application that serves a workbench."""
    worker, metrics = Worker(), Metrics()
    inference = Inference(bench, metrics, least=options.min_confidence)

    async def decide(source: np.ndarray) -> list[Row]:
        return await worker.run(inference.decide, source)

    batcher = Batcher(decide, options.limits)
    metrics.waiting.set_function(lambda: batcher.rows_waiting)

    async def in_the_background() -> None:
        """Decide all rows, some at a time, whenever there are any, as after an edit."""
        while True:
            more = await worker.run(bench.step)
            if not more:
                await worker.run(inference.watch)
            await asyncio.sleep(PAUSE if more else 0.25)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        scan = asyncio.create_task(in_the_background())
        yield
        scan.cancel()
        await batcher.stop()
        worker.stop()

    app = FastAPI(
        title="protoattend",
        version=protoattend.__version__,
        description="Decisions from real examples: explorer and Open Inference Protocol V2.",
        lifespan=lifespan,
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
    )
    answer_errors(app)
    limits, least = options.limits, options.min_confidence
    app.include_router(explorer_routes(Explorer(bench, edit=options.edit, least=least, limits=limits), worker))
    app.include_router(v2_routes(Served(options.name or bench.folder.name, inference, limits, batcher.ask)))

    @app.get("/metrics", response_class=Response, tags=["metrics"], responses={401: ERRORS[401], 403: ERRORS[403]})
    async def metrics_text() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _describe_problem(app)
    app.add_middleware(
        Guard,
        host=options.host,
        token=options.token,
        limits=limits,
        metrics=metrics,
    )
    return app


def _describe_problem(app: FastAPI) -> None:
    """Name the form of errors in the description of the API."""
    described = app.openapi

    def with_problem() -> dict[str, object]:
        schema = described()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema()
        return schema

    app.openapi = with_problem  # type: ignore[method-assign]
