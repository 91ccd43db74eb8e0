"""Settings as text: every one reachable by --set and in TOML, with the checks they have in Python."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend import ExponentialDecay, Recipe, TestTimeAugmentation
from protoattend.app.settings import for_labels, make_classifier, parse_assignment
from protoattend.config import Settings
from protoattend.data.tables import Column
from protoattend.errors import UserError


def made(*assignments: str, config: Path | None = None, **options: Any) -> Any:
    return make_classifier(config, {"random_state": 0}, options, assignments)


@pytest.mark.parametrize("name", [each.name for each in fields(Settings) if each.name != "recipe"])
def test_every_setting_can_be_set(name: str) -> None:
    """To its own default, as text."""
    default = getattr(Settings(), name)
    assert getattr(made(f"{name}={default}"), name) == default


@pytest.mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("recipe.mixup=0", "mixup", 0.0),
        ("recipe.optimizer=sgd", "optimizer", "sgd"),
        ("recipe.patience=3", "patience", 3),
        ("recipe.compile=True", "compile", True),
        ('recipe.schedule={name="ExponentialDecay", rate=0.5}', "schedule", ExponentialDecay(0.5)),
        ("recipe.schedule=ExponentialDecay", "schedule", ExponentialDecay()),
        ("recipe.test_time_augmentation={mirror=true}", "test_time_augmentation", TestTimeAugmentation(mirror=True)),
        ("recipe.fixed_columns={age={kind='number', mean=40}}", "fixed_columns", {"age": Column("age", "number", 40)}),
    ],
)
def test_fields_of_the_recipe(assignment: str, name: str, value: object) -> None:
    assert getattr(made(assignment).recipe, name) == value


def test_what_goes_before_what(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('max_epochs = 3\nd_att = 4\nrandom_state = 7\nclass_weight = "balanced"\n[recipe]\nmixup = 0.5\n')
    clf = made("d_att=8", config=config, max_epochs=5, encoder=None)
    assert (clf.max_epochs, clf.d_att, clf.random_state, clf.class_weight) == (5, 8, 7, "balanced")
    assert clf.recipe == Recipe(mixup=0.5)
    assert clf.encoder == "auto"
    assert made().random_state == 0


def test_what_is_set_for_labels_has_their_type() -> None:
    clf = made("class_weight={1=2.0, 0=1.0}")
    for_labels(clf, np.array([0, 1]))
    assert clf.class_weight == {0: 1.0, 1: 2.0}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("d_at=3", "a setting must be one of .* did you mean 'd_att'"),
        ("recipe.mixpu=3", "did you mean 'recipe.mixup'"),
        ("mixup=0", "mixup is a setting of the recipe; did you mean 'recipe.mixup'"),
        ("class_weight={c='a'}", r"class_weight\['c'\] must be a finite number of at least 0"),
        ("recipe.schedule={name='OneCycle', warm_up='a'}", "warm_up must be a number from 0 to 1"),
        ("recipe.fixed_columns={age={mean=40}}", "recipe.fixed_columns must say kind, but got"),
        ("recipe.fixed_columns={age={kind='zzz'}}", "kind must be one of 'number'"),
        ("zzz=3", "but got 'zzz'.$"),
        ("d_att", "--set takes name=value"),
        ("d_att=many", "d_att must be an integer from 1 to 65536, but got d_att='many'"),
        ("recipe.mixup=2", "mixup must be 'auto' or a number from 0 to 1"),
        ("recipe.schedule={name='OneCycle', rate=3}", "a field of recipe.schedule must be one of 'warm_up'"),
        ("recipe.fixed_columns={age=3}", "recipe.fixed_columns takes a table of TOML"),
        ("random_state=-1", "random_state must be None or an integer from 0 to 4294967295, but got -1"),
        ("random_state=abc", "random_state must be None or an integer"),
        ("recipe.schedule=Linear", "must be one of 'OneCycle', 'ExponentialDecay'"),
    ],
)
def test_mistakes(assignment: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made(assignment)


def test_mistakes_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        made(config=tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("max_epochs 3")
    with pytest.raises(UserError, match=r"bad\.toml: not readable as TOML"):
        made(config=tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_text("recipe = 3")
    with pytest.raises(UserError, match="recipe must be 'auto', 'paper' or Recipe"):
        made(config=tmp_path / "bad.toml")
    with pytest.raises(UserError, match=r"--config must name a file of TOML, but .* cannot be read"):
        made(config=tmp_path)


def test_a_recipe_by_name() -> None:
    assert made(recipe="paper").recipe == "paper"
    with pytest.raises(UserError, match="recipe must be one of 'auto', 'paper'"):
        made(recipe="papers")


def test_one_name_is_a_list_of_one() -> None:
    assert made("categorical_features=hue").categorical_features == ["hue"]


def test_values_are_those_of_toml() -> None:
    for text, value in (
        ("1", 1),
        ("1e-3", 0.001),
        ("true", True),
        ("none", None),
        ('["a", "b"]', ["a", "b"]),
        ("'1'", "1"),
    ):
        assert parse_assignment(f"x={text}") == ("x", value)
