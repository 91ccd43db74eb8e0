"""Kills: a child process that ends itself, as by kill -9, at one of its file operations."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree", "os.truncate")


def killed_at(operation: int, call: Callable[[], Any]) -> bool:
    """Call in a child process that ends at its file operation of this number; return whether it got that far."""
    child = os.fork()
    if child == 0:
        left = [operation]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            if event in OPERATIONS:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            call()
        except BaseException:
            os._exit(3)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), f"the call itself failed: {code}"
    return code == 9


def killed_after(seconds: float, call: Callable[[], Any]) -> bool:
    """Call in a child process and kill it with SIGKILL after so long; return whether that came before its end."""
    child = os.fork()
    if child == 0:
        try:
            call()
        except BaseException:
            os._exit(3)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the call itself failed: {code}"
    return code != 0


def kills(call: Callable[[], Any], operations: Iterable[int]) -> Iterator[int]:
    """Yield each number at which the call was killed, until it came to its end."""
    for operation in operations:
        if not killed_at(operation, call):
            return
        yield operation


def hidden(folder: Path) -> list[str]:
    """Return what lies in a folder and below it under a hidden name."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


@contextmanager
def without_exchange() -> Iterator[None]:
    """Let two folders change places in two steps, as on systems that know no single one."""
    import protoattend.folders as folders

    real = folders.ctypes.CDLL
    folders.ctypes.CDLL = lambda *given, **named: object()  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        folders.ctypes.CDLL = real  # type: ignore[misc]
