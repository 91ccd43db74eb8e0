"""What stands beside every figure: machine, versions and date; and figures that are measured once and kept as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoattend.files.writing import atomic_file, write_text

Arrays = dict[str, np.ndarray]


def cpu_model() -> str:
    """Return the name of this machine's processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def circumstances() -> dict[str, Any]:
    """Return what is needed to judge a figure: machine, cores, threads, version of torch, date."""
    return {
        "machine": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def strict(figures: Any) -> Any:
    """Return figures as JSON has them: NaN and infinity are null.

    >>> strict({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(figures, Mapping):
        return {name: strict(value) for name, value in figures.items()}
    if isinstance(figures, list | tuple):
        return [strict(value) for value in figures]
    return None if isinstance(figures, float) and not math.isfinite(figures) else figures


def write_json(path: Path, figures: Any) -> None:
    """Write figures, wholly or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(strict(figures), indent=1, allow_nan=False) + "\n")


def once(path: Path | None, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `path` holds, or measure it and write it there; with no path, just measure it."""
    if path is None:
        return measure()
    if not path.exists():
        write_json(path, measure())
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def kept_arrays(path: Path, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays kept at `path`, made and written whole where they are not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = make()
        with atomic_file(path) as part, part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    with np.load(path) as arrays:
        return dict(arrays)
