"""How a command that runs for long starts quickly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile, nor ever after among what is loaded here: it all stays.

    Modules and a model are so many objects that searching them takes a third of a second of a start, and later makes
    one click in some forty wait 0.2 seconds.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
