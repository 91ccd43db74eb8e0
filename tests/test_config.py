"""Settings: declared, defaulted and checked in one place, and reachable as scikit-learn expects."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from protoattend import (
    ExponentialDecay,
    OneCycle,
    PlainClassifier,
    ProtoAttendClassifier,
    Recipe,
    TestTimeAugmentation,
    setting_checks,
)
from protoattend.config import PAPER, PAPER_SETTINGS, RECIPES, Settings
from protoattend.data.tables import Column
from protoattend.errors import UserError
from protoattend.training.setup import set_up

SOURCE = Path(__file__).parents[1] / "src" / "protoattend"
QUICK = {"max_epochs": 1, "random_state": 0, "verbose": 0}


@pytest.mark.parametrize("estimator", [ProtoAttendClassifier, PlainClassifier])
def test_the_constructor_takes_each_setting_with_its_default(estimator: type) -> None:
    parameters = inspect.signature(estimator).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == vars(Settings())
    assert list(parameters) == [each.name for each in fields(Settings)]
    assert len(parameters) <= 24


def test_nothing_looks_settings_up_by_their_names() -> None:
    assert [str(path) for path in SOURCE.rglob("*.py") if 'params["' in path.read_text()] == []


def test_auto_is_the_plain_recipe() -> None:
    assert RECIPES["auto"] == Recipe() == Settings().training_recipe


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", 1, "batch_size must be 'auto' or an integer of at least 2, as every input needs a candidate"),
        ("batch_size", True, "batch_size must be"),
        ("batch_size", 32.0, "batch_size must be"),
        ("max_epochs", 0, "max_epochs must be 'auto' or an integer of at least 1, but got max_epochs=0"),
        ("learning_rate", 0, "learning_rate must be 'auto' or a number above 0"),
        ("learning_rate", "fast", "learning_rate must be 'auto' or"),
        ("n_prototypes", 0, "n_prototypes must be None or an integer of at least 1"),
        ("n_candidates", 1, "n_candidates must be None or an integer of at least 2"),
        ("candidates", "in_batch", "candidates must be one of 'in-batch', 'sampled', 'bank', but got 'in_batch'"),
        ("normalize", "sparsmax", "did you mean 'sparsemax'"),
        ("objective", "both", "objective must be one of 'self'"),
        ("recipe", "papr", "recipe must be one of 'auto', 'paper', but got 'papr'; did you mean 'paper'"),
        ("recipe", {"mixup": 0}, r"recipe must be 'auto', 'paper' or Recipe\(...\)"),
        ("encoder", 3, "encoder must be the name of an encoder"),
        ("device", "gpu", "device must be 'auto' or"),
        ("augment", "flip", "augment must be"),
        ("validation_fraction", 1, "validation_fraction must be a number from 0 to below 1"),
        ("lambda_sparse", -1, "lambda_sparse must be a number of at least 0"),
        ("lambda_conf", np.nan, "lambda_conf must be a number of at least 0"),
        ("n_processes", 0, "n_processes must be an integer of at least 1"),
        ("d_att", 0, "d_att must be an integer from 1 to 65536"),
        ("d_out", 10**8, "d_out must be an integer from 1 to 65536, but got d_out=100000000"),
        ("n_threads", 100_000, "n_threads must be 'auto' or an integer from 1 to 1024"),
        ("device", "meta", "device must be 'auto' or a device that this torch finds on this machine"),
        ("device", "cuda:99", "device must be 'auto' or a device that this torch finds on this machine"),
        ("class_weight", "even", "class_weight must be None or 'balanced' or {label: weight}, but got"),
        ("class_weight", {"c": "a"}, r"^class_weight\['c'\] must be a finite number of at least 0, but got"),
        ("class_weight", {"c": -1}, r"class_weight\['c'\] must be a finite number of at least 0"),
        ("class_weight", {"c": np.nan}, r"class_weight\['c'\] must be a finite number of at least 0"),
        ("verbose", -1, "verbose must be an integer of at least 0"),
    ],
)
def test_a_bad_setting_is_refused_before_any_work(name: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ProtoAttendClassifier(**{name: value}).fit("not even data", None)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mixup", 1.5, "mixup must be 'auto' or a number from 0 to 1, but got mixup=1.5"),
        ("label_smoothing", 1, "label_smoothing must be 'auto' or a number from 0 to below 1"),
        ("weight_decay", "0.1", "weight_decay must be 'auto' or a number of at least 0"),
        ("attention_weight", 0, "attention_weight must be a number above 0"),
        ("attention_target", "labels", "did you mean 'label'"),
        ("optimizer", "adamw", "optimizer must be one of 'auto', 'adam', 'sgd'"),
        ("schedule", "cosine", "schedule must be OneCycle"),
        ("patience", 0, "patience must be None or an integer of at least 1"),
        (
            "test_time_augmentation",
            {"mirror": True},
            "test_time_augmentation must be 'auto' or None or TestTimeAugmentation",
        ),
        ("fixed_columns", {"age": 3}, "fixed_columns must be None or"),
        ("fixed_columns", {"age": Column("age", "zzz")}, r"^fixed_columns\['age'\].kind must be one of 'number'"),
        ("fixed_columns", {"age": Column("age", "number", scale=0)}, r"scale must be a finite number above 0"),
        ("fixed_columns", {"age": Column("age", "number", mean=np.nan)}, r"mean must be a finite number, but got"),
        ("compile", 1, "compile must be True or False"),
        ("clip_norm", 0, "clip_norm must be a number above 0"),
        ("weight_decay_on", "filter", "did you mean 'filters'"),
        ("keys_of_one_length", 0, "keys_of_one_length must be True or False"),
        ("layer_norm", None, "layer_norm must be True or False"),
        ("standardize", "images", "standardize must be one of 'channel', 'image'"),
        ("cutout", 2, "cutout must be a number from 0 to 1"),
        ("text_length", 15, "text_length must be 'auto' or an integer of at least 16"),
        ("database_size", 1, "database_size must be None or an integer of at least 2"),
        ("reencode", "yes", "reencode must be True or False"),
    ],
)
def test_a_bad_field_of_a_recipe_is_refused_at_once(name: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Recipe(**{name: value})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: OneCycle("a"), "warm_up must be a number from 0 to 1, but got warm_up='a'"),
        (lambda: OneCycle(1.1), "warm_up must be a number from 0 to 1"),
        (lambda: ExponentialDecay(rate="a"), "rate must be a number above 0 and at most 1, but got rate='a'"),
        (lambda: ExponentialDecay(rate=0), "rate must be a number above 0 and at most 1"),
        (lambda: ExponentialDecay(rate=1.01), "rate must be a number above 0 and at most 1"),
        (lambda: ExponentialDecay(every=0), "every must be an integer of at least 1"),
    ],
)
def test_a_bad_schedule_is_refused_at_once(made: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made()


@pytest.mark.parametrize("schedule", [OneCycle(0), OneCycle(1), ExponentialDecay(1, 1)])
def test_schedules_at_the_ends_of_their_ranges_give_factors(schedule: Any) -> None:
    assert all(0 <= schedule.factor(step, 5) <= 1 for step in range(5))


@pytest.mark.parametrize("setting", ["class_weight", "undersample"])
def test_a_class_that_is_not_there_is_told_with_those_that_are(wine: Any, setting: str) -> None:
    with pytest.raises(UserError, match=f"{setting} must name classes of y, 0, 1, 2, but got '1'; check the spelling"):
        ProtoAttendClassifier(**QUICK, **{setting: {"1": 0.5}}).fit(*wine)


def test_what_was_trained_on_another_device_is_used_here(
    wine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clf = ProtoAttendClassifier(**QUICK).fit(*wine)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(setting_checks, "is_here", lambda device: True)
        clf.set_params(device="cuda:99").save(tmp_path / "model")
    assert ProtoAttendClassifier.load(tmp_path / "model").device == "auto"


def test_filters_alone_decay_by_adam_alone() -> None:
    with pytest.raises(UserError, match="weight_decay_on='filters' is for optimizer='adam', but optimizer='sgd'"):
        Recipe(optimizer="sgd", weight_decay_on="filters")


def test_the_paper_is_one_recipe() -> None:
    settings = Settings(recipe="paper")
    assert settings.training_recipe == PAPER
    assert {name: getattr(settings, name) for name in PAPER_SETTINGS} == PAPER_SETTINGS
    assert Settings(**vars(settings)) == settings  # as a saved classifier is loaded
    given = Settings(recipe="paper", batch_size=32, learning_rate=0.002, n_candidates=64, normalize="softmax")
    assert (given.batch_size, given.learning_rate, given.n_candidates) == (32, 0.002, 64)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"candidates": "bank"}, "recipe='paper' attends to candidates='sampled', but got candidates='bank'"),
        ({"n_prototypes": 5}, r"but got n_prototypes=5; leave it out, and call database_.set_n_prototypes\(5\)"),
    ],
)
def test_what_contradicts_the_paper_is_refused_before_any_work(params: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ProtoAttendClassifier(recipe="paper", **params).fit("not even data", None)


def test_a_part_of_the_paper_is_not_exchanged() -> None:
    clf = ProtoAttendClassifier(recipe="paper")
    assert clf.get_params()["recipe__mixup"] == 0.0
    with pytest.raises(UserError, match="recipe='paper' is what the paper says, but recipe__mixup would change it"):
        clf.set_params(recipe__mixup=0.5)
    assert clf.set_params(recipe="auto", recipe__mixup=0.5).recipe == Recipe(mixup=0.5)


def test_patience_needs_validation_rows() -> None:
    with pytest.raises(UserError, match="validation_fraction=0 holds no row out"):
        Settings(recipe=Recipe(patience=2), validation_fraction=0)


def test_numbers_of_numpy_are_numbers(wine: Any, tmp_path: Path) -> None:
    given = {
        "batch_size": np.int64(32), "max_epochs": np.int32(1), "learning_rate": np.float32(0.001),
        "d_att": np.int64(4), "d_out": np.int64(8), "n_prototypes": np.int64(3), "lambda_sparse": np.float64(0.1),
        "validation_fraction": np.float32(0.2), "random_state": np.int64(1), "verbose": np.int64(0),
        "recipe": Recipe(mixup=np.float32(0.5), patience=np.int64(3)), "n_processes": np.int64(1),
    }  # fmt: skip
    clf = ProtoAttendClassifier(**given).fit(*wine)
    clf.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(wine[0]), clf.predict_proba(wine[0]))
    assert type(loaded.d_att) is int
    assert TestTimeAugmentation(shift=np.int64(1)) == TestTimeAugmentation(shift=1)


def test_a_batch_size_that_is_given_is_kept(wine: Any) -> None:
    import torch

    def batch_size(given: Any) -> int:
        return set_up(Settings(batch_size=given), *wine, None, torch.Generator().manual_seed(0)).plan.batch_size

    assert batch_size("auto") == 32
    assert batch_size(100) == 100
    assert batch_size(1000) == 160  # all rows but those held out


def test_fields_of_the_recipe_are_parameters() -> None:
    clf = ProtoAttendClassifier()
    assert clf.get_params()["recipe__mixup"] == "auto"
    assert "recipe__mixup" not in clf.get_params(deep=False)
    clf.set_params(recipe__mixup=0.5, d_att=4)
    assert (clf.recipe, clf.d_att) == (Recipe(mixup=0.5), 4)
    clf.set_params(recipe=Recipe(optimizer="sgd"), recipe__label_smoothing=0.2)
    assert clf.recipe == Recipe(optimizer="sgd", label_smoothing=0.2)
    with pytest.raises(UserError, match=r"a field of the recipe must be one of .*did you mean 'mixup'"):
        clf.set_params(recipe__mixupp=0.5)
    with pytest.raises(ValueError, match="Invalid parameter 'mixup'"):
        clf.set_params(mixup=0.5)


def test_clone_and_pickle_keep_the_recipe() -> None:
    clf = ProtoAttendClassifier(recipe=Recipe(schedule=ExponentialDecay(0.5, 7)), d_att=3)
    assert clone(clf).get_params() == clf.get_params()
    assert pickle.loads(pickle.dumps(Settings(**clf.get_params(deep=False)))) == Settings(**clf.get_params(deep=False))


@pytest.mark.slow
def test_a_grid_search_reaches_the_recipe(wine: Any) -> None:
    found = GridSearchCV(ProtoAttendClassifier(**QUICK), {"recipe__mixup": [0.0, 1.0]}, cv=2).fit(*wine)
    assert set(found.best_params_) == {"recipe__mixup"}
    assert found.best_estimator_.recipe.mixup == found.best_params_["recipe__mixup"]


def test_the_plain_encoder_takes_the_parameters_of_a_classifier(wine: Any) -> None:
    clf = ProtoAttendClassifier(lambda_sparse=0.1, recipe=Recipe(mixup=0.0), **QUICK)
    plain = PlainClassifier(**clf.get_params(deep=False)).fit(*wine)
    assert plain.history_[0].losses.keys() == {"self"}
