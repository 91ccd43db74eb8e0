"""One thread that computes, and a queue that makes one batch of what several clients ask."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from protoattend.app.server.limits import Limits
from protoattend.app.server.problems import Refused

Result = TypeVar("Result")


class Worker:
    """The one thread that the model and its database are used in."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="protoattend")

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return function(*arguments), computed after what was asked before."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def stop(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class Waiting:
    """Rows of one request, and where its answer goes."""

    source: np.ndarray
    answer: asyncio.Future[Any]


class Batcher:
    """Rows of several requests, decided together: while one batch is computed, the next one gathers."""

    def __init__(self, decide: Callable[[np.ndarray], Awaitable[list[Any]]], limits: Limits) -> None:
        self._decide, self._limits = decide, limits
        self._queue: deque[Waiting] = deque()
        self._rows = 0
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def rows_waiting(self) -> int:
        return self._rows

    def start(self) -> None:
        self._task = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """Answer what still waits, then end."""
        while self._queue:
            await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()

    async def ask(self, source: np.ndarray) -> Any:
        """Return the answer for these rows: what `decide` gives for each of them."""
        if self._rows + len(source) > self._limits.waiting:
            raise Refused(429, f"{self._rows} rows are waiting already; try again in a moment.")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append(Waiting(source, answer))
        self._rows += len(source)
        self._more.set()
        return await answer

    async def _serve(self) -> None:
        while True:
            await self._more.wait()
            batch = self._next()
            if not batch:
                self._more.clear()
                continue
            await self._answer(batch)

    def _next(self) -> list[Waiting]:
        """Take requests off the queue until a batch is full; those whose client has gone are left out."""
        batch: list[Waiting] = []
        rows = 0
        while self._queue and (not batch or rows + len(self._queue[0].source) <= self._limits.batch):
            waiting = self._queue.popleft()
            self._rows -= len(waiting.source)
            if not waiting.answer.done():
                batch.append(waiting)
                rows += len(waiting.source)
        return batch

    async def _answer(self, batch: list[Waiting]) -> None:
        try:
            results = await self._decide(np.concatenate([waiting.source for waiting in batch]))
        except Exception as error:
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return
        start = 0
        for waiting in batch:
            end = start + len(waiting.source)
            if not waiting.answer.done():
                waiting.answer.set_result(results[start:end])
            start = end
