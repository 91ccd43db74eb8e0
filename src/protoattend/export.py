"""A classifier as a folder: meta.json, model.safetensors and the database; nothing in it is ever executed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from protoattend.data.inputs import inputs_from_state
from protoattend.data.labels import Classes
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.build import build_encoder, wrap_encoder
from protoattend.errors import BadFile, UserError
from protoattend.folders import atomic_folder, read_meta, write_json
from protoattend.training import schedule as schedules
from protoattend.training.history import EpochRecord, History, Measures
from protoattend.training.prepare import make_model
from protoattend.trust.conformal import Conformal

if TYPE_CHECKING:
    from protoattend.estimator import ProtoAttendClassifier

WHAT, VERSION = "protoattend classifier", 1


def save_classifier(classifier: ProtoAttendClassifier, folder: str | os.PathLike[str]) -> None:
    """Write a fitted classifier into `folder`, wholly or not at all."""
    params = classifier.get_params(deep=False)
    own_module = isinstance(params["encoder"], nn.Module)
    schedule = params["schedule"]
    meta = {
        "what": WHAT,
        "version": VERSION,
        "params": {
            **params,
            "encoder": type(params["encoder"]).__name__ if own_module else params["encoder"],
            "schedule": schedule and {"name": type(schedule).__name__, **asdict(schedule)},
            "random_state": params["random_state"] if isinstance(params["random_state"], int) else None,
            "augment": params["augment"] if params["augment"] in ("auto", None) else None,
            "class_weight": _pairs(params["class_weight"]),
            "undersample": _pairs(params["undersample"]),
            "categorical_features": _listed(params["categorical_features"]),
        },
        "own_module": own_module,
        "inputs": {"kind": classifier.inputs_.kind, "state": classifier.inputs_.state()},
        "classes": _classes_to_json(classifier.classes_),
        "history": asdict(classifier.history_),
        "conformal": None if classifier.conformal_ is None else classifier.conformal_.nonconformity.tolist(),
    }
    with atomic_folder(folder) as fresh:
        state = {name: value.detach().cpu().contiguous() for name, value in classifier.model_.state_dict().items()}
        save_file(state, fresh / "model.safetensors")
        classifier.database_.save(fresh / "database")
        write_json(fresh / "meta.json", meta)


def load_classifier(
    cls: type[ProtoAttendClassifier], folder: str | os.PathLike[str], encoder: nn.Module | None
) -> ProtoAttendClassifier:
    """Read a classifier from its folder, checked."""
    path = Path(folder)
    meta = read_meta(path, WHAT, VERSION)
    if meta["own_module"] and encoder is None:
        raise UserError(
            f"{folder} was trained with a module of your own ({meta['params']['encoder']}), whose code is not saved; "
            "pass an instance of it: ProtoAttendClassifier.load(folder, encoder=module)."
        )
    params = meta["params"] | {"encoder": encoder if meta["own_module"] else meta["params"]["encoder"]}
    if params["schedule"]:
        params["schedule"] = getattr(schedules, params["schedule"].pop("name"))(**params["schedule"])
    for name in ("class_weight", "undersample"):
        if isinstance(params.get(name), list):
            params[name] = dict(params[name])
    classifier = cls(**params)
    inputs = inputs_from_state(meta["inputs"]["kind"], meta["inputs"]["state"])
    classes = Classes(_classes_from_json(meta["classes"]))
    state = _read_state(path / "model.safetensors")
    if isinstance(params["encoder"], nn.Module):
        made = wrap_encoder(params["encoder"], inputs.kind, inputs.form(), int(state["query.0.weight"].shape[1]))
    else:
        made = build_encoder(params["encoder"], inputs.kind, inputs.form())
    model = make_model(
        made,
        len(classes),
        d_att=params["d_att"],
        d_out=params["d_out"],
        normalize=params["normalize"],
        device=params["device"],
    )
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise BadFile(f"{path} holds weights of another model than its meta.json describes: {error}") from None
    model.eval()
    database = CandidateDatabase.open(path / "database", model, inputs=inputs, classes=classes)
    classifier._keep(database, _history_from_json(meta["history"]))
    if meta["conformal"] is not None:
        classifier.conformal_ = Conformal(np.array(meta["conformal"]))
    return classifier


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BadFile(f"{path} must hold the model's weights, but it cannot be read ({error}); restore it.") from None


def _classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    values = classes.tolist()
    for value in values:
        if not isinstance(value, (str, int, float, bool)):
            raise UserError(
                f"only str, int, float and bool labels can be saved, but there is {value!r}; rename it first."
            )
    return {"dtype": classes.dtype.str, "values": values}


def _classes_from_json(content: dict[str, Any]) -> np.ndarray:
    values = np.empty(len(content["values"]), dtype=np.dtype(content["dtype"]))
    values[:] = content["values"]
    return values


def _pairs(by_label: Any) -> Any:
    """Return what is given for each label as JSON can hold it: a mapping becomes pairs, as its keys may be numbers."""
    return [_listed(pair) for pair in by_label.items()] if isinstance(by_label, Mapping) else by_label


def _listed(names: Any) -> list[Any] | None:
    return None if names is None else [name.item() if isinstance(name, np.generic) else name for name in names]


def _history_from_json(content: dict[str, Any]) -> History:
    records = [
        EpochRecord(**{**record, "measures": record["measures"] and Measures(**record["measures"])})
        for record in content["records"]
    ]
    return History(tuple(records), content["best_epoch"])
