"""Threads: one classifier that some explain with and others edit; what is shown must be of one moment."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend import ProtoAttendClassifier


@dataclass(frozen=True)
class Race:
    """How many prototypes were shown, how many of them wrongly, and how many edits there were."""

    shown: int
    wrong: int
    edits: int
    failures: tuple[str, ...]


def race(clf: ProtoAttendClassifier, X: Any, y: np.ndarray, *, seconds: float) -> Race:
    """Explain in two threads while two others remove and add rows of X; a prototype's label must be its row's own."""
    labels = dict(zip(clf.database_.indices.tolist(), clf.database_.labels.tolist(), strict=True))
    known, stop = threading.Lock(), time.monotonic() + seconds
    counts, failures = {"shown": 0, "wrong": 0, "edits": 0}, []

    def explain() -> None:
        while time.monotonic() < stop:
            shown = [p for e in clf.explain(X[:8], top=10) for p in e.prototypes]
            with known:
                counts["shown"] += len(shown)
                counts["wrong"] += sum(bool(labels.get(p.index, p.label) != p.label) for p in shown)

    def edit(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while time.monotonic() < stop:
            rows = rng.integers(len(X), size=3)
            added = clf.database_.add([X[row] for row in rows] if isinstance(X, list) else X[rows], y[rows])
            with known:
                twice = [index for index in added.tolist() if index in labels]
                labels.update(zip(added.tolist(), y[rows].tolist(), strict=True))
                counts["wrong"] += len(twice)
                counts["edits"] += 2
            clf.database_.remove(added)

    def guarded(work: Any, *given: Any) -> None:
        try:
            work(*given)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    before = len(clf.database_)
    try:
        works = [(explain,), (explain,), (edit, 1), (edit, 2)]
        threads = [threading.Thread(target=guarded, args=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    lost = abs(len(clf.database_) - before)
    return Race(counts["shown"], counts["wrong"] + lost, counts["edits"], tuple(failures))
