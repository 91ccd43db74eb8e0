"""Trainings in processes that may be killed, and that start at once: forked from one in which all is loaded."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.training.checkpoint import Checkpoints


def started(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a function of this module in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def some_digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X[:500].reshape(-1, 8, 8), y[:500]


def with_a_bank() -> ProtoAttendClassifier:
    torch.set_num_threads(1)
    return ProtoAttendClassifier(candidates="bank", max_epochs=4, random_state=0, verbose=0)


def train(run: Path, model: Path) -> None:
    with_a_bank().fit(*some_digits(), checkpoint_to=Checkpoints(run, every=3)).save(model)


def go_on(run: Path, model: Path) -> None:
    with_a_bank().fit(*some_digits(), resume_from=run).save(model)


def dying_at(step: int | None) -> ProtoAttendClassifier:
    """Return a classifier whose training kills its process at some step."""
    calls = []

    def augment(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        calls.append(1)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return images

    return ProtoAttendClassifier(max_epochs=3, augment=augment, random_state=0, verbose=0)


def train_until_the_second_dies(rank: int, port: int, folder: Path) -> None:
    """Be one of two processes as torchrun starts them; what the first is told goes into a file."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    torch.set_num_threads(1)
    try:
        dying_at(12 if rank else None).fit(*some_digits(), checkpoint_to=Checkpoints(folder / "run", every=3))
    except UserError as error:
        (folder / "told").write_text(str(error))
