"""A lock for threads that is copied and pickled as a new one, so that what holds it can be."""

from __future__ import annotations

import threading
from types import TracebackType


class Mutex:
    """A context that one thread at a time is in; the thread that is in it may enter again.

    >>> import copy
    >>> with Mutex() as lock, copy.deepcopy(lock):
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> Mutex:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Mutex], tuple[()]]:
        return Mutex, ()
