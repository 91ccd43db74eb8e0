"""Classifier folders of format versions 1 and 2, described as today's are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from protoattend.config import Recipe
from protoattend.encoders.build import build_encoder
from protoattend.errors import BadFile

# Training's own parameters were the classifier's before there were recipes.
MOVED = {each.name: each.name for each in fields(Recipe)} | {"views": "test_time_augmentation"}


def upgraded(folder: Path, meta: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the meta.json of an old folder in the form of version 3; `state` are the weights beside it."""
    params = dict(meta["params"])
    recipe = {MOVED[name]: params.pop(name) for name in list(params) if name in MOVED}
    if recipe.get("schedule") is None:
        recipe.pop("schedule", None)
    settings = params | {"recipe": recipe}
    own = "module" if meta["own_module"] is True else meta["own_module"]  # True was written when there was one way
    return {
        **meta,
        "settings": settings,
        "encoder": {"own": own, "name": settings["encoder"], "test_time_augmentation": recipe.get(MOVED["views"])}
        | _parts(own, settings["encoder"], meta["inputs"], state),
        "keys_of_one_length": meta.get("keys_of_one_length", False),
        "likeness": None,
        "recalibration": meta.get("recalibration"),
        "reading": _reading(folder / "reading.json"),
    }


def _parts(own: str | None, name: str, inputs: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what the encoder is made of: of an old folder, only the weights tell."""
    if own is not None:
        first_trained = "encoder.body.body.0.weight" if own == "frozen" else "query.0.weight"
        return {"n_features": state[first_trained].shape[1]}
    from protoattend.data.inputs import inputs_from_state

    form = inputs_from_state(inputs["kind"], inputs["state"]).form()
    stages = [f"encoder.body.stages.{number}.widen.weight" for number in range(len(state))]
    widths = tuple(len(state[stage]) for stage in stages if stage in state)  # of "fast-cnn": as they were in fit
    return {"config": build_encoder(name, inputs["kind"], form | ({"widths": widths} if widths else {})).config()}


def _reading(path: Path) -> dict[str, Any] | None:
    if not path.exists():  # saved from Python
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise BadFile(f"{path} must name the columns of labels and texts, but it cannot be read ({error}).") from None
