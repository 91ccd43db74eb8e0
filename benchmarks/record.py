"""What every benchmark writes beside its figures: machine, versions, seed and date."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

RESULTS = Path(__file__).parent / "results"


def cpu_model() -> str:
    """Return the name of this machine's processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Write `figures` to results/NAME.json with what is needed to judge and to repeat them; return the path."""
    circumstances = {
        "machine": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    everything = _strict({"benchmark": name, **figures, **circumstances})
    path.write_text(json.dumps(everything, indent=2, allow_nan=False) + "\n")
    return path


def _strict(figures: Any) -> Any:
    """Return figures as JSON has them: NaN and infinity are null."""
    if isinstance(figures, Mapping):
        return {name: _strict(value) for name, value in figures.items()}
    if isinstance(figures, list | tuple):
        return [_strict(value) for value in figures]
    return None if isinstance(figures, float) and not math.isfinite(figures) else figures


def once(path: Path | None, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `path` holds, or measure it and write it there; with no path, just measure it."""
    if path is not None and path.exists():
        return json.loads(path.read_text())
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    figures = measure()
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def keep_state(model: torch.nn.Module, path: Path) -> None:
    """Write the weights of a model that has no `save` of its own."""
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, path)
