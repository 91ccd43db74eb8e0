"""Several processes for one training: those torchrun has started, or workers of our own on this machine."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.rendezvous import rendezvous

from protoattend.errors import UserError
from protoattend.parallel import ranks

LEAVING_SECONDS = 10.0
GO_ON = "go on from the last checkpoint with resume_from, where fit had checkpoint_to"


def common_number(number: int) -> int:
    """Return the first process's number in all of them."""
    if ranks().size == 1:
        return number
    shared = torch.tensor([number], dtype=torch.int64)
    dist.broadcast(shared, src=0)
    return int(shared)


@contextmanager
def joined() -> Iterator[None]:
    """Inside the block, be one of the processes torchrun has started, where it has and nobody has joined them yet."""
    if dist.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, rank, size = next(rendezvous("env://"))
    # The store outlives the group: where a second one met under the first one's names, it would wait for ever.
    meeting = store.add(f"protoattend of {rank}", 1)
    dist.init_process_group(backend, store=dist.PrefixStore(f"meeting {meeting}", store), rank=rank, world_size=size)
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error):  # which has no kind of error of its own
            raise UserError(
                f"all processes must live until the end of training, but one could not be reached ({error}); {GO_ON}."
            ) from error
        raise
    finally:
        dist.destroy_process_group()


@contextmanager
def spawned(count: int, work: Callable[..., object], arguments: Sequence[Any]) -> Iterator[None]:
    """Inside the block, be the first of `count` processes; each other one calls `work(*arguments)`.

    They share this process's threads evenly. Where one of them dies, the block ends with an error that says so.
    """
    context = mp.get_context("spawn")
    threads = torch.get_num_threads()
    news: Any = context.Queue()
    with tempfile.TemporaryDirectory(prefix="protoattend-") as folder:
        meeting = f"file://{folder}/meeting"
        each = max(1, threads // count)
        processes = [
            context.Process(
                target=_worker, args=(rank, count, meeting, each, news, work, tuple(arguments)), daemon=True
            )
            for rank in range(1, count)
        ]
        try:
            for process in processes:
                process.start()
            _wait_until_ready(processes, news)
            torch.set_num_threads(each)
            dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=count)
            yield
        except UserError:
            raise  # they met the same one
        except RuntimeError as error:
            raise _explained(error, processes, news) from error
        finally:
            torch.set_num_threads(threads)
            if dist.is_initialized():
                dist.destroy_process_group()
            _end(processes)


def _worker(
    rank: int,
    count: int,
    meeting: str,
    threads: int,
    news: Any,
    work: Callable[..., object],
    arguments: tuple[Any, ...],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the first process decides
    torch.set_num_threads(threads)
    news.put((rank, "ready"))
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    try:
        work(*arguments)
    except BaseException as error:
        news.put((rank, "".join(traceback.format_exception_only(error)).strip()))
        raise SystemExit(1) from None
    finally:
        dist.destroy_process_group()


def _wait_until_ready(processes: Sequence[Any], news: Any) -> None:
    """Return when all are there; one that ends before could not even start."""
    waiting = len(processes)
    while waiting:
        if not news.empty():
            news.get()
            waiting -= 1
        elif any(process.exitcode for process in processes):
            raise UserError(
                "a process for training ended before it began; where fit is called from a script, put the call under "
                "`if __name__ == '__main__':`, as every new process reads the script first."
            )
        else:
            time.sleep(0.01)


def _explained(error: RuntimeError, processes: Sequence[Any], news: Any) -> Exception:
    """Return what to raise for an error of the first process: one that names who died, where somebody did."""
    until = time.monotonic() + LEAVING_SECONDS
    while all(process.exitcode is None for process in processes) and time.monotonic() < until:
        time.sleep(0.01)
    dead = [rank for rank, process in enumerate(processes, start=1) if process.exitcode]
    if not dead:
        return error
    told = {}
    while not news.empty():
        rank, words = news.get()
        told[rank] = words
    how = told.get(dead[0], f"exit code {processes[dead[0] - 1].exitcode}")
    return UserError(
        f"all {len(processes) + 1} processes must live until the end of training, but process {dead[0]} died ({how}); "
        f"{GO_ON}, or use fewer processes."
    )


def _end(processes: Sequence[Any]) -> None:
    until = time.monotonic() + LEAVING_SECONDS
    for process in processes:
        if process.pid is not None:
            process.join(max(0.0, until - time.monotonic()) if process.exitcode is None else None)
            if process.exitcode is None:
                process.kill()
                process.join()
