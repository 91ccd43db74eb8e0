"""What every benchmark writes beside its figures: machine, versions, seed and date."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from protoattend.reproduce.record import circumstances, once, write_json

__all__ = ["RESULTS", "keep_state", "once", "write"]
RESULTS = Path(__file__).parent / "results"


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Write `figures` to results/NAME.json with what is needed to judge and to repeat them; return the path."""
    path = RESULTS / f"{name}.json"
    write_json(path, {"benchmark": name, **figures, **circumstances()})
    return path


def keep_state(model: torch.nn.Module, path: Path) -> None:
    """Write the weights of a model that has no `save` of its own."""
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, path)
