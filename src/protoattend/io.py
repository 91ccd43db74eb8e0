"""A classifier as a folder: meta.json, model.safetensors and the database; nothing in it is ever executed."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from protoattend.core.model import ProtoAttend
from protoattend.data.inputs import Inputs, inputs_from_state
from protoattend.data.labels import Classes
from protoattend.database.encode import KEY_LAYERS_OF_OLD, encode
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.build import Encoder, build_encoder, wrap_encoder
from protoattend.encoders.pretrained import Frozen, FrozenModule, Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import BadFile, MissingSamples, StaleDatabase, UserError
from protoattend.folders import atomic_folder, read_meta, write_json
from protoattend.training import schedule as schedules
from protoattend.training.history import EpochRecord, History
from protoattend.training.setup import make_model
from protoattend.uncertainty.calibration import Recalibration
from protoattend.uncertainty.conformal import Conformal

if TYPE_CHECKING:
    from protoattend.classifier import ProtoAttendClassifier

WHAT, VERSION, OLDEST = "protoattend classifier", 3, 1
WITHOUT_TEMPERATURE = 2  # up to this version; the scale of the scores was in the query layer
_STAGE = re.compile(r"encoder\.body\.stages\.\d+\.widen\.weight")  # of "fast-cnn": its widths are as they were in fit


def save_classifier(
    classifier: ProtoAttendClassifier, folder: str | os.PathLike[str], *, excerpts: bool = False
) -> None:
    """Write a fitted classifier into `folder`, wholly or not at all."""
    params = classifier.get_params(deep=False)
    schedule = params["schedule"]
    meta = {
        "what": WHAT,
        "version": VERSION,
        "params": {
            **params,
            "encoder": _named(params["encoder"]),
            "schedule": schedule and {"name": type(schedule).__name__, **asdict(schedule)},
            "random_state": params["random_state"] if isinstance(params["random_state"], int) else None,
            "augment": params["augment"] if params["augment"] in ("auto", None) else None,
            "views": params["views"] and asdict(params["views"]),
            "class_weight": _pairs(params["class_weight"]),
            "undersample": _pairs(params["undersample"]),
            "categorical_features": _listed(params["categorical_features"]),
        },
        "own_module": _how_given(params["encoder"]),
        "keys_of_one_length": len(classifier.model_.key) > KEY_LAYERS_OF_OLD,
        "inputs": {"kind": classifier.inputs_.kind, "state": classifier.inputs_.state()},
        "classes": _classes_to_json(classifier.classes_),
        "history": asdict(classifier.history_),
        "conformal": classifier.conformal_ and classifier.conformal_.state(),
        "recalibration": classifier.recalibration_ and classifier.recalibration_.state(),
    }
    with atomic_folder(folder) as fresh:
        save_file(_trained_state(classifier.model_), fresh / "model.safetensors")
        classifier.database_.save(fresh / "database", excerpts=excerpts)
        write_json(fresh / "meta.json", meta)


def load_classifier(
    cls: type[ProtoAttendClassifier], folder: str | os.PathLike[str], encoder: nn.Module | Pretrained | None
) -> ProtoAttendClassifier:
    """Read a classifier from its folder, checked."""
    path = Path(folder)
    meta = read_meta(path, WHAT, VERSION, oldest=OLDEST)
    own = "module" if meta["own_module"] is True else meta["own_module"]  # True was written when there was one way
    if own and own != _how_given(encoder):
        raise UserError(
            f"{folder} was trained with a module of your own ({meta['params']['encoder']}), whose code is not saved, "
            f"but encoder={_named(encoder)}; pass it as in fit: ProtoAttendClassifier.load(folder, encoder=module), or "
            "encoder=frozen(module, ...) or fine_tuned(module, ...)."
        )
    params = meta["params"] | {"encoder": encoder if meta["own_module"] else meta["params"]["encoder"]}
    if params["schedule"]:
        params["schedule"] = getattr(schedules, params["schedule"].pop("name"))(**params["schedule"])
    if params.get("views"):
        params["views"] = TestTimeAugmentation(**params["views"])
    for name in ("class_weight", "undersample"):
        if isinstance(params.get(name), list):
            params[name] = dict(params[name])
    classifier = cls(**_known(params, cls, path))
    tokenizer = encoder.tokenizer if isinstance(encoder, Pretrained) else None
    inputs = inputs_from_state(meta["inputs"]["kind"], meta["inputs"]["state"], tokenizer)
    classes = Classes(_classes_from_json(meta["classes"]))
    state = _read_state(path / "model.safetensors")
    if meta["version"] <= WITHOUT_TEMPERATURE:
        state["temperature"] = torch.ones(())
    encoder_of_fit = _make_encoder(params["encoder"], inputs, state)
    encoder_of_fit.views = params.get("views") or TestTimeAugmentation()
    model = make_model(
        encoder_of_fit,
        len(classes),
        d_att=params["d_att"],
        d_out=params["d_out"],
        normalize=params["normalize"],
        device=params["device"],
    )
    if not meta.get("keys_of_one_length", False):
        model.key = nn.Sequential(*list(model.key)[:KEY_LAYERS_OF_OLD])
    try:
        model.load_state_dict(_frozen_state(model) | state)
    except RuntimeError as error:
        whose = "the module passed" if meta["own_module"] else "its meta.json describes"
        raise BadFile(f"{path} holds weights of another model than {whose}: {error}") from None
    model.eval()
    try:
        database = CandidateDatabase.open(path / "database", model, inputs=inputs, classes=classes)
    except StaleDatabase:
        if not _frozen_state(model):
            raise
        raise _another_module(folder, "its weights differ") from None
    if meta["own_module"] and not _encodes_as_stored(database):
        raise _another_module(folder, "it gives a stored sample other features")
    classifier._keep(database, _history_from_json(meta["history"]))
    if meta["conformal"] is not None:
        classifier.conformal_ = Conformal.from_state(meta["conformal"])
    if meta.get("recalibration") is not None:
        classifier.recalibration_ = Recalibration.from_state(meta["recalibration"])
    return classifier


def _known(params: dict[str, Any], cls: type[ProtoAttendClassifier], path: Path) -> dict[str, Any]:
    """Return the parameters this version has; what is decided with would have come with another version number."""
    unknown = sorted(params.keys() - cls._get_param_names())
    if unknown:
        warnings.warn(
            f"{path} was trained by another version of protoattend, whose {', '.join(unknown)} this one does not have; "
            "it decides as before, but a new fit would go without.",
            stacklevel=4,
        )
    return {name: value for name, value in params.items() if name not in unknown}


def _named(encoder: str | nn.Module | Pretrained | None) -> str:
    return type(encoder).__name__ if isinstance(encoder, nn.Module) else str(encoder)


def _how_given(encoder: str | nn.Module | Pretrained | None) -> str | None:
    """Return how a user gave a module of their own: bare, frozen or fine-tuned; None where there is no such module."""
    if isinstance(encoder, Pretrained):
        return encoder.how
    return "module" if isinstance(encoder, nn.Module) else None


def _make_encoder(encoder: str | nn.Module | Pretrained, inputs: Inputs, state: dict[str, torch.Tensor]) -> Encoder:
    """Return the encoder that the saved weights fit."""
    if isinstance(encoder, str):
        widths = tuple(len(value) for name, value in sorted(state.items()) if _STAGE.fullmatch(name))
        return build_encoder(encoder, inputs.kind, inputs.form() | ({"widths": widths} if widths else {}))
    first_trained = "encoder.body.body.0.weight" if isinstance(encoder, FrozenModule) else "query.0.weight"
    n_features = state[first_trained].shape[1]
    if isinstance(encoder, nn.Module):
        return wrap_encoder(copy.deepcopy(encoder), inputs.kind, inputs.form(), n_features)
    return encoder.encoder(inputs.kind, inputs.form(), n_features)


def _frozen_state(model: ProtoAttend) -> dict[str, torch.Tensor]:
    """Return the weights of a frozen module, which the user has: they are not saved."""
    front = getattr(model.encoder, "front", None)
    if not isinstance(front, Frozen):
        return {}
    return {f"encoder.front.{name}": value for name, value in front.state_dict().items()}


def _trained_state(model: ProtoAttend) -> dict[str, torch.Tensor]:
    """Return all other weights, each with memory of its own, as the file format wants them."""
    frozen = _frozen_state(model)
    return {
        name: value.detach().cpu().contiguous().clone()
        for name, value in model.state_dict().items()
        if name not in frozen
    }


def _encodes_as_stored(database: CandidateDatabase) -> bool:
    """Return whether the first candidates are encoded as they were in fit, up to another machine's rounding."""
    some = database.rows.at(np.arange(min(4, len(database))))
    try:
        again = encode(database.model, database.inputs.tensor(some.source))
    except (MissingSamples, BadFile) as absent:
        warnings.warn(f"whether encoder is the module of fit is not checked: {absent}", stacklevel=4)
        return True
    except RuntimeError:  # not even the number of features is the same
        return False
    return torch.allclose(again.values, some.values, rtol=0.01, atol=0.05)  # layer-normalised: of size 1


def _another_module(folder: str | os.PathLike[str], how: str) -> UserError:
    return UserError(
        f"encoder must be the module that {folder} was trained with, but {how}; pass it with the same weights, "
        "tokenizer, output and images as in fit."
    )


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
    return History(tuple(map(EpochRecord.from_json, content["records"])), content["best_epoch"])
