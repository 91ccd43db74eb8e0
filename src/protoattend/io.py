"""A classifier as a folder: meta.json, model.safetensors and the database; nothing in it is ever executed.

meta.json says what it is made of: the settings, every part of the encoder with its arguments, how inputs are read, the
classes, the history, the calibration, and how the command line read the training file.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from protoattend.arguments import check_path, require_float32
from protoattend.config import Recipe, Settings
from protoattend.core.likeness import Likeness
from protoattend.core.model import KEY_LAYERS_OF_THE_PAPER, ProtoAttend
from protoattend.core.schedule import SCHEDULES, OneCycle
from protoattend.data.inputs import ImageInputs, Inputs, inputs_from_state
from protoattend.data.labels import Classes, classes_from_json, classes_to_json
from protoattend.data.tables import Column
from protoattend.database.encode import encode
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.build import Encoder, adapt, wrap_encoder
from protoattend.encoders.parts import describe, make_part, require_form, shapes_alone
from protoattend.encoders.pretrained import Frozen, Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import BadFile, MissingSamples, StaleDatabase, UserError
from protoattend.files.known import CLASSIFIER
from protoattend.files.meta import read_meta, write_meta
from protoattend.files.writing import described, require_as_described, write_tensors
from protoattend.folders import atomic_folder, read_whole
from protoattend.old_formats import upgraded
from protoattend.setting_checks import here_or_auto
from protoattend.training.history import History
from protoattend.training.setup import resolve_device
from protoattend.uncertainty.calibration import Recalibration
from protoattend.uncertainty.conformal import Conformal

VERSION, OLDEST = 3, 1
MODEL = "model.safetensors"


@dataclass(frozen=True)
class Saved:
    """All that a folder holds of a fitted classifier; `reading` is how the command line read its training file."""

    settings: Settings
    database: CandidateDatabase
    history: History
    conformal: Conformal | None
    recalibration: Recalibration | None
    reading: dict[str, Any] | None


def save(saved: Saved, folder: str | os.PathLike[str], *, excerpts: bool = False) -> None:
    """Write a fitted classifier into `folder`, wholly or not at all."""
    database, model = saved.database, saved.database.model
    meta = {
        "what": CLASSIFIER,
        "version": VERSION,
        "settings": _settings_to_json(saved.settings),
        "encoder": _encoder_to_json(saved.settings.encoder, model),
        "keys_of_one_length": len(model.key) > KEY_LAYERS_OF_THE_PAPER,
        "likeness": model.likeness and {"sketch": describe(model.likeness.sketch), "rank": model.likeness.rank},
        "inputs": {"kind": database.inputs.kind, "state": database.inputs.state()},
        "classes": classes_to_json(database.classes.values),
        "history": asdict(saved.history),
        "conformal": saved.conformal and saved.conformal.state(),
        "recalibration": saved.recalibration and saved.recalibration.state(),
        "reading": saved.reading,
    }
    with atomic_folder(folder, CLASSIFIER) as fresh:
        write_tensors(fresh / MODEL, lambda path: save_file(_trained_state(model), path))
        database.save(fresh / "database", excerpts=excerpts)
        write_meta(fresh, meta | {"files": {MODEL: described(fresh / MODEL)}})


def load(
    folder: str | os.PathLike[str], own: nn.Module | Pretrained | None, image_roots: tuple[str, ...] = ()
) -> Saved:
    """Read a classifier, checked; `own` is the module of fit, and images are read under `image_roots` alone."""
    require_float32()
    path = Path(check_path(folder, "folder"))
    return read_whole(path, lambda: _load(path, own, image_roots))


@contextmanager
def _as_described(path: Path) -> Iterator[None]:
    """Let things be made again of meta.json: its schema is checked, but whether values go together the making tells."""
    try:
        yield
    except UserError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise BadFile(
            f"{path} must hold a classifier as it was saved, but it cannot be made again of its meta.json "
            f"({type(error).__name__}: {error}); restore it from a copy."
        ) from error


def _load(path: Path, own: nn.Module | Pretrained | None, image_roots: tuple[str, ...]) -> Saved:
    meta = read_meta(path, CLASSIFIER, VERSION, oldest=OLDEST)
    require_as_described(path, meta.get("files", {}))
    state = _read_state(path / MODEL)
    if meta["version"] < VERSION:
        with _as_described(path):
            meta = upgraded(path, meta, state)
        state["temperature"] = torch.ones(())  # the scale of the scores was in the query layer
    described = meta["encoder"]
    if described["own"] and described["own"] != _how_given(own):
        raise UserError(
            f"{path} was trained with a module of your own ({described['name']}), whose code is not saved, "
            f"but encoder={_named(own)}; pass it as in fit: ProtoAttendClassifier.load(folder, encoder=module), or "
            "encoder=frozen(module, ...) or fine_tuned(module, ...)."
        )
    given = own if described["own"] and own is not None else described["name"]
    tokenizer = own.tokenizer if isinstance(own, Pretrained) else None
    with _as_described(path):
        settings = _settings_from_json(_known(meta["settings"], path), given)
        inputs = inputs_from_state(meta["inputs"]["kind"], meta["inputs"]["state"], tokenizer)
        classes = Classes(classes_from_json(meta["classes"]))
        _require_in_range(path, meta, len(classes))
        config, likeness = meta["encoder"].get("config") or {}, meta["likeness"] or {}
        require_form([config.get("front", {}), config.get("body", {}), likeness.get("sketch", {})], inputs.form())
        history = History.from_json(meta["history"])
        conformal = None if meta["conformal"] is None else Conformal.from_state(meta["conformal"])
        recalibration = None if meta["recalibration"] is None else Recalibration.from_state(meta["recalibration"])
    if isinstance(inputs, ImageInputs):
        inputs = replace(inputs, roots=image_roots)
    if isinstance(settings.encoder, str):
        with _as_described(path), shapes_alone():
            shapes = _shapes(_model(meta, settings, inputs, len(classes)).state_dict())
        if shapes != _shapes(state):
            raise BadFile(f"{path} holds weights of another model than its meta.json describes; restore the folder.")
    model = _model(meta, settings, inputs, len(classes))
    model.to(resolve_device(settings.device))
    try:
        model.load_state_dict(_frozen_state(model) | state)
    except RuntimeError as error:
        whose = "the module passed" if described["own"] else "its meta.json describes"
        raise BadFile(f"{path} holds weights of another model than {whose}: {error}") from None
    model.eval()
    database = _open_database(path, model, inputs, classes, own=bool(described["own"]))
    return Saved(settings, database, history, conformal, recalibration, meta["reading"])


def _model(meta: Mapping[str, Any], settings: Settings, inputs: Inputs, n_classes: int) -> ProtoAttend:
    """Return the model that was described, with fresh weights."""
    encoder = _make_encoder(meta["encoder"], settings, inputs)
    model = ProtoAttend(encoder, n_classes, d_att=settings.d_att, d_out=settings.d_out, normalize=settings.normalize)
    if not meta["keys_of_one_length"]:
        model.free_keys()
    if meta["likeness"] is not None:
        model.likeness = Likeness(make_part(meta["likeness"]["sketch"]), meta["likeness"]["rank"])
    return model


def _shapes(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in state.items()}


def _require_in_range(path: Path, meta: Mapping[str, Any], n_classes: int) -> None:
    """Raise unless what refers to epochs and classes refers to some that are there."""
    history, conformal = meta["history"], meta["conformal"]
    if history["best_epoch"] >= max(1, len(history["records"])):
        raise BadFile(f"{path / 'meta.json'} names an epoch that its history lacks; restore it from a copy.")
    if isinstance(conformal, dict) and max(conformal["labels"], default=0) >= n_classes:
        raise BadFile(f"{path / 'meta.json'} was calibrated with classes that it lacks; restore it from a copy.")


def _open_database(path: Path, model: ProtoAttend, inputs: Inputs, classes: Classes, *, own: bool) -> CandidateDatabase:
    """Open the database of a classifier, whose encoder may be a module of the user's own: is it that of fit?"""
    try:
        database = CandidateDatabase.open(path / "database", model, inputs=inputs, classes=classes)
    except StaleDatabase:
        if not _frozen_state(model):
            raise
        raise _another_module(path, "its weights differ") from None
    if own and not _encodes_as_stored(database):
        raise _another_module(path, "it gives a stored sample other features")
    return database


def _named(encoder: str | nn.Module | Pretrained | None) -> str:
    return type(encoder).__name__ if isinstance(encoder, nn.Module) else str(encoder)


def _how_given(encoder: str | nn.Module | Pretrained | None) -> str | None:
    """Return how a user gave a module of their own: bare, frozen or fine-tuned; None where there is no such module."""
    if isinstance(encoder, Pretrained):
        return encoder.how
    return "module" if isinstance(encoder, nn.Module) else None


def _encoder_to_json(given: str | nn.Module | Pretrained, model: ProtoAttend) -> dict[str, Any]:
    """Return what the encoder is made of; of a module of the user's own, how many features it gives."""
    encoder, own = model.encoder, _how_given(given)
    augmentation = getattr(encoder, "test_time_augmentation", TestTimeAugmentation())
    described = {"own": own, "name": _named(given), "test_time_augmentation": asdict(augmentation)}
    if own is None:
        return described | {"config": encoder.config()}  # type: ignore[operator]
    trained = encoder.body if own == "frozen" else encoder
    first = trained.body[0] if own == "frozen" else model.query[0]  # type: ignore[union-attr,index]
    return described | {"n_features": first.in_features}  # type: ignore[union-attr]


def _make_encoder(described: Mapping[str, Any], settings: Settings, inputs: Inputs) -> Encoder:
    """Return the encoder that was described, with the user's own module where there is one."""
    own, recipe = settings.encoder, settings.training_recipe
    if isinstance(own, str):
        encoder = Encoder.from_config(described["config"])
    elif isinstance(own, nn.Module):
        encoder = wrap_encoder(copy.deepcopy(own), inputs.kind, inputs.form(), described["n_features"])
    else:
        encoder = own.encoder(inputs.kind, inputs.form(), described["n_features"])
    if not isinstance(own, str):
        adapt(encoder, layer_norm=recipe.layer_norm, each_image=recipe.standardize == "image")
    encoder.test_time_augmentation = TestTimeAugmentation(**(described["test_time_augmentation"] or {}))
    return encoder


def _frozen_state(model: ProtoAttend) -> dict[str, torch.Tensor]:
    """Return the weights of a frozen module, which the user has: they are not saved."""
    front = getattr(model.encoder, "front", None)
    if not isinstance(front, Frozen):
        return {}
    return {f"encoder.front.{name}": value for name, value in front.state_dict().items()}


def _trained_state(model: ProtoAttend) -> dict[str, torch.Tensor]:
    """Return all other weights, each with memory of its own, as the file format wants them."""
    frozen = _frozen_state(model)
    kept = {name: value for name, value in model.state_dict().items() if name not in frozen}
    return {name: value.detach().cpu().contiguous().clone() for name, value in kept.items()}


def _encodes_as_stored(database: CandidateDatabase) -> bool:
    """Return whether the first candidates are encoded as they were in fit, up to another machine's rounding."""
    some = database.rows.at(np.arange(min(4, len(database))))
    try:
        again = encode(database.model, database.inputs.tensor(some.source))
    except (MissingSamples, BadFile) as absent:
        warnings.warn(f"whether encoder is the module of fit is not checked: {absent}", stacklevel=5)
        return True
    except RuntimeError:  # not even the number of features is the same
        return False
    return torch.allclose(again.values, some.values, rtol=0.01, atol=0.05)  # layer-normalised: of size 1


def _another_module(folder: Path, how: str) -> UserError:
    return UserError(
        f"encoder must be the module that {folder} was trained with, but {how}; pass it with the same weights, "
        "tokenizer, output and images as in fit."
    )


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BadFile(f"{path} must hold the model's weights, but it cannot be read ({error}); restore it.") from None


def _settings_to_json(settings: Settings) -> dict[str, Any]:
    given = vars(settings)
    return given | {
        "encoder": _named(settings.encoder),
        "recipe": settings.recipe if isinstance(settings.recipe, str) else _recipe_to_json(settings.recipe),
        "random_state": int(given["random_state"]) if isinstance(given["random_state"], (int, np.integer)) else None,
        "augment": given["augment"] if given["augment"] in ("auto", None) else None,
        "class_weight": _pairs(settings.class_weight),
        "undersample": _pairs(settings.undersample),
        "categorical_features": _listed(settings.categorical_features),
    }


def _recipe_to_json(recipe: Recipe) -> dict[str, Any]:
    values = {each.name: getattr(recipe, each.name) for each in fields(recipe)}
    schedule = {"name": type(recipe.schedule).__name__}
    if schedule["name"] in SCHEDULES:
        schedule |= asdict(recipe.schedule)  # type: ignore[call-overload]
    augmentation = recipe.test_time_augmentation
    columns = {name: asdict(column) for name, column in (recipe.fixed_columns or {}).items()} or None
    return values | {
        "schedule": schedule,
        "test_time_augmentation": asdict(augmentation)
        if isinstance(augmentation, TestTimeAugmentation)
        else augmentation,
        "fixed_columns": columns,
    }


def _known(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the settings this version has; what is decided with would have come with another version number."""
    names = {each.name for each in fields(Settings)}
    unknown = sorted(content.keys() - names)
    if unknown:
        warnings.warn(
            f"{folder} was trained by another version of protoattend, whose {', '.join(unknown)} this one does not "
            "have; it decides as before, but a new fit would go without.",
            stacklevel=4,
        )
    return {name: value for name, value in content.items() if name in names}


def _settings_from_json(content: Mapping[str, Any], encoder: str | nn.Module | Pretrained) -> Settings:
    given = dict(content) | {"encoder": encoder, "device": here_or_auto(content["device"])}
    for name in ("class_weight", "undersample"):
        if isinstance(given.get(name), list):
            given[name] = dict(given[name])
    if not isinstance(given["recipe"], str):
        given["recipe"] = _recipe_from_json(given["recipe"])
    return Settings(**given)


def _recipe_from_json(content: Mapping[str, Any]) -> Recipe:
    given = dict(content)
    if "schedule" in given:
        arguments = dict(given["schedule"])
        name = arguments.pop("name")
        if name not in SCHEDULES:
            warnings.warn(f"the schedule {name} is your own and was not saved; a new fit has OneCycle().", stacklevel=5)
        given["schedule"] = SCHEDULES.get(name, OneCycle)(**arguments)
    if isinstance(given.get("test_time_augmentation"), dict):
        given["test_time_augmentation"] = TestTimeAugmentation(**given["test_time_augmentation"])
    if given.get("fixed_columns"):
        given["fixed_columns"] = {name: Column.from_json(column) for name, column in given["fixed_columns"].items()}
    return Recipe(**given)


def _pairs(by_label: Any) -> Any:
    """Return what is given for each label as JSON can hold it: a mapping becomes pairs, as its keys may be numbers."""
    return [_listed(pair) for pair in by_label.items()] if isinstance(by_label, Mapping) else by_label


def _listed(names: Any) -> list[Any] | None:
    return None if names is None else [name.item() if isinstance(name, np.generic) else name for name in names]
