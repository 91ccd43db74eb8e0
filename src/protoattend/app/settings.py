"""Settings of a classifier as text: `--set name=value` and a file of TOML, every one of them reachable."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from protoattend.classifier import ProtoAttendClassifier
from protoattend.config import PAPER, PAPER_SETTINGS, Recipe, Settings
from protoattend.core.schedule import SCHEDULES
from protoattend.data.tables import Column
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import BadFile, UserError, choose

RECIPE = "recipe."
MINUTES = f"{RECIPE}max_minutes"  # that alone leaves the paper's recipe what it is
PAPER_BY_NAME = "paper"
SEEDS = 2**32  # that numpy has
BY_LABEL = ("class_weight", "undersample")


def make_classifier(
    config: Path | None,
    defaults: Mapping[str, Any],
    options: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    of_paper: Mapping[str, Any] | None = None,
) -> ProtoAttendClassifier:
    """Return a classifier, not fitted, with all settings checked.

    Options of the command line, where they are not None, go before those of the file `config`, these before
    `defaults`, and what was assigned as "name=value" goes before all. With the paper's recipe, `of_paper` are the
    settings of its appendix for these data, after all others.
    """
    given = dict(defaults) | ({} if config is None else read_config(config))
    given |= {name: value for name, value in options.items() if value is not None}
    given |= dict(parse_assignment(text) for text in assignments)
    if given.get("recipe") == PAPER_BY_NAME and of_paper:
        given = {**of_paper, **given, "recipe": of_paper["recipe"]}
    minutes = _minutes_of_the_paper(given)
    params = {_parameter(name): _object(name, value) for name, value in given.items()}
    clf = ProtoAttendClassifier().set_params(**params)
    settings = Settings(**clf.get_params(deep=False))
    if minutes is not None:
        followed = {name: getattr(settings, name) for name in PAPER_SETTINGS}
        clf.set_params(recipe=replace(PAPER, max_minutes=minutes), **followed)
    seed = clf.random_state
    if seed is not None and not (isinstance(seed, int) and 0 <= seed < SEEDS):
        raise UserError(f"random_state must be None or an integer from 0 to {SEEDS - 1}, but got {seed!r}.")
    return clf


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return name and value of "name=value", the value as TOML has it; what TOML does not know is a text.

    >>> parse_assignment("recipe.mixup=0"), parse_assignment("encoder=resnet32"), parse_assignment("n_prototypes=none")
    (('recipe.mixup', 0), ('encoder', 'resnet32'), ('n_prototypes', None))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise UserError(f"--set takes name=value, but got {text!r}; write it as --set recipe.mixup=0.")
    if value.lower() in ("none", "null"):
        return name, None
    if value.lower() in ("true", "false"):
        value = value.lower()
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a file of TOML by name; those in its table [recipe] are called recipe.mixup and so on."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"--config must name a file of TOML, but {path} does not exist; check the path.") from None
    except OSError as error:
        raise UserError(f"--config must name a file of TOML, but {path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFile(
            f"{path}: not readable as TOML ({error}); write a setting a line, as in max_epochs = 20."
        ) from None
    recipe = content.pop("recipe", {})
    if not isinstance(recipe, dict):
        return content | {"recipe": recipe}
    base = {"recipe": recipe.pop("name")} if "name" in recipe else {}
    return content | base | {f"{RECIPE}{name}": value for name, value in recipe.items()}


def for_labels(clf: ProtoAttendClassifier, y: Any) -> None:
    """Give what is set for each label the type that labels have: in TOML, names are texts."""
    known = {str(label): label for label in set(y.tolist())}
    for name in BY_LABEL:
        value = getattr(clf, name)
        if isinstance(value, Mapping):
            clf.set_params(**{name: {known.get(str(label), label): inner for label, inner in value.items()}})


def _minutes_of_the_paper(given: dict[str, Any]) -> Any:
    """Take the budget out of what is given with recipe=paper, and refuse whatever would change that recipe."""
    if given.get("recipe") != PAPER_BY_NAME:
        return None
    minutes = given.pop(MINUTES, None)
    for name in given:
        if name.startswith(RECIPE):
            _parameter(name)
            raise UserError(
                f"recipe=paper trains as the paper says, but {name} would change it; leave one of the two out."
            )
    return minutes


def _parameter(name: str) -> str:
    names, of_recipe = ([each.name for each in fields(kind)] for kind in (Settings, Recipe))
    if name in of_recipe:
        raise UserError(f"{name} is a setting of the recipe; did you mean {RECIPE + name!r}?")
    choose(name, [*names, *(f"{RECIPE}{each}" for each in of_recipe)], "a setting")
    return name.replace(".", "__", 1)


def _object(name: str, value: Any) -> Any:
    """Return a value that stands for an object as that object."""
    if name == "recipe.schedule" and isinstance(value, (str, Mapping)):
        arguments = {"name": value} if isinstance(value, str) else dict(value)
        return _made(name, SCHEDULES[choose(arguments.pop("name", None), SCHEDULES, name)], arguments)
    if name == "recipe.test_time_augmentation" and isinstance(value, Mapping):
        return _made(name, TestTimeAugmentation, value)
    if name == "recipe.fixed_columns" and isinstance(value, Mapping):
        return {key: _made(name, Column, {"name": key, **_table(name, column)}) for key, column in value.items()}
    if name == "categorical_features" and isinstance(value, str):
        return [value]
    return value


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{name} takes a table of TOML, as in {{kind = 'number', mean = 40}}, but got {value!r}.")
    return value


def _made(name: str, kind: Any, arguments: Mapping[str, Any]) -> Any:
    for argument in arguments:
        choose(argument, [each.name for each in fields(kind)], f"a field of {name}")
    missing = [each.name for each in fields(kind) if each.default is MISSING and each.name not in arguments]
    if missing:
        raise UserError(f"{name} must say {missing[0]}, but got {dict(arguments)!r}; add {missing[0]} = ...")
    return kind(**arguments)
