"""Appendix A as data: each set's settings make a classifier, and are what the appendix says."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import ExponentialDecay, PlainClassifier, ProtoAttendClassifier, paper_settings
from protoattend.config import PAPER, Settings
from protoattend.data.augment import Augmentation
from protoattend.datasets.adult import NUMBERS
from protoattend.datasets.entries import CATALOGUE
from protoattend.encoders.image import ResNet
from protoattend.errors import UserError
from protoattend.training.setup import set_up

SETS = ("mnist", "fashion-mnist", "cifar-10", "fruits", "isic", "awa-features", "dbpedia", "adult")
APPENDIX = tomllib.loads(files("protoattend.datasets").joinpath("paper.toml").read_text())
TRAININGS = [(name, training) for name in SETS for training in APPENDIX[name]["trainings"]]
Y = np.array(["benign", "melanoma"] * 50)  # labels that do for all of them


def test_the_eight_sets_of_the_catalogue() -> None:
    assert tuple(APPENDIX) == SETS
    assert set(SETS) <= set(CATALOGUE)
    for name, each in APPENDIX.items():
        published = CATALOGUE[name].rows
        assert published is None or sum(each["rows"].values()) == published[0]


@pytest.mark.parametrize(("name", "training"), TRAININGS)
def test_every_training_is_one_of_a_classifier(name: str, training: str) -> None:
    params = paper_settings(name, training, y=Y)
    if (name, training) == ("adult", "sparsemax+sparsity"):
        assert params["lambda_sparse"] is None
        params["lambda_sparse"] = 1e-4
    settings = Settings(**params)
    assert (settings.batch_size, settings.d_att, settings.training_recipe.clip_norm) == (128, 16, 20)
    assert (settings.candidates, settings.n_prototypes) == ("sampled", None)
    assert (settings.normalize == "softmax") == training.startswith("softmax")
    kept = {"schedule", "weight_decay", "database_size", "fixed_columns"}
    for field, value in vars(PAPER).items():
        assert field in kept or getattr(settings.training_recipe, field) == value
    estimator = PlainClassifier if training.startswith("baseline") else ProtoAttendClassifier
    assert estimator(**params).get_params(deep=False) == vars(settings)


@pytest.mark.parametrize(
    ("name", "d", "d_out", "augment"),
    [
        ("mnist", (1024, 32768), 64, Augmentation(padding=2)),
        ("fashion-mnist", (1024, 32768), 64, Augmentation(padding=2, horizontal=True)),
        ("cifar-10", (1024, 32768), 128, Augmentation(padding=3, horizontal=True, vertical=True)),
        ("fruits", (256, 4096), 64, Augmentation(padding=5, horizontal=True, vertical=True)),
        ("isic", (256, 4096), 64, Augmentation(padding=8, horizontal=True, vertical=True)),
        ("awa-features", (None, None), 64, None),
        ("dbpedia", (512, 4096), 64, None),
        ("adult", (4096, 15360), 16, None),
    ],
)
def test_what_a_set_has_of_its_own(name: str, d: Any, d_out: int, augment: Augmentation | None) -> None:
    params = paper_settings(name, y=Y)
    assert (params["n_candidates"], params["recipe"].database_size) == d
    assert (params["d_out"], params["augment"]) == (d_out, augment)
    decays = {"fruits": 1e-4, "dbpedia": 1e-5}
    assert params["recipe"].weight_decay == decays.get(name, 0.0)
    assert (params["recipe"].fixed_columns == dict(NUMBERS)) == (name == "adult")


def test_iterations_become_epochs() -> None:
    params = paper_settings("adult", "softmax")
    assert params["max_epochs"] == round(13_500 / (29_305 // 128))  # of 32,561 rows, less a tenth
    assert paper_settings("adult", "softmax", y=np.zeros(2000))["max_epochs"] == round(13_500 / (1800 // 128))
    assert params["recipe"].schedule == ExponentialDecay(0.92, 2000)
    assert params["learning_rate"] == 0.0005
    unsaid = paper_settings("fruits")
    assert "max_epochs" not in unsaid
    assert (unsaid["learning_rate"], unsaid["recipe"].schedule) == (1e-3, PAPER.schedule)


def test_benign_cases_are_six_tenths() -> None:
    (share,) = paper_settings("isic")["undersample"].values()
    assert 13511 * share / (13511 * share + 1611) == pytest.approx(0.6)
    y = np.array(["benign"] * 300 + ["melanoma"] * 20)
    params = paper_settings("isic", y=y) | {"device": "cpu", "validation_fraction": 0.0}
    X = np.zeros((320, 68, 68), dtype=np.uint8)  # large enough for the stem
    setup = set_up(Settings(**params), X, y, None, torch.Generator().manual_seed(0))
    drawn = setup.prepared.train.labels[setup.prepared.train.shuffled(torch.Generator().manual_seed(0))]
    assert float((drawn == 0).double().mean()) == pytest.approx(0.6)
    assert float((setup.prepared.candidates().labels == 0).double().mean()) == pytest.approx(0.6)
    assert isinstance(setup.encoder.body, ResNet)
    assert setup.encoder.out_features == 128
    rare = np.array(["benign"] * 3 + ["melanoma"] * 50)
    assert paper_settings("isic", y=rare)["undersample"] == {"benign": 1.0}


def test_errors_say_what_to_pass() -> None:
    with pytest.raises(UserError, match=r"the data set must be one of 'mnist'.*did you mean 'cifar-10'"):
        paper_settings("cifar10")
    with pytest.raises(UserError, match="the training of 'mnist' must be one of 'baseline', 'softmax', 'sparsemax'"):
        paper_settings("mnist", "sparsmax+sparsity")
    with pytest.raises(UserError, match=r"pass paper_settings\('awa-features', y=y\)"):
        paper_settings("awa-features")
    with pytest.raises(UserError, match=r"must have the label 'benign'.*pass melanoma_or_benign\(y\)"):
        paper_settings("isic", y=["nevus", "melanoma"])


def test_a_classifier_is_fitted_by_them(wine: Any) -> None:
    params = paper_settings("awa-features", y=wine[1]) | {"max_epochs": 2, "random_state": 0, "verbose": 0}
    clf = ProtoAttendClassifier(**params).fit(*wine)
    assert clf.history_[0].losses.keys() == {"self", "prototype", "joint", "sparse"}
    assert clf.database_.readings is None
