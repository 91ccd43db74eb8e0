"""How a command that runs for long starts quickly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile, nor ever after among what is loaded here: it all stays.

    Modules and a model are so many objects that searching them again and again takes a third of a second of a start.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
