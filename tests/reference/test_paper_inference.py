"""What a classifier trained by the paper's recipe says, against the same mathematics in plain Python loops."""

from __future__ import annotations

import math
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.config import PAPER, PAPER_SETTINGS, Settings
from protoattend.encoders.build import Standardize, StandardizeEach
from protoattend.training.setup import set_up

from . import naive

BRIEF = {"max_epochs": 3, "random_state": 0, "verbose": 0}
DATABASE = 40


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(13, 6), nn.ReLU())


def naive_of(clf: ProtoAttendClassifier) -> naive.NaiveProtoAttend:
    names = {name: name.replace("encoder.body.0", "encoder.1") for name in clf.model_.state_dict()}
    parameters = {names[name]: value.double().tolist() for name, value in clf.model_.state_dict().items()}
    return naive.NaiveProtoAttend(parameters, clf.normalize, free_keys=True)


@pytest.mark.parametrize("normalize", ["sparsemax", "softmax"])
@pytest.mark.parametrize("database_size", [None, DATABASE])
def test_one_reading(wine: Any, tmp_path: Path, normalize: str, database_size: int | None) -> None:
    """Decision, confidence and probabilities by the very same weights, over all D rows of the database."""
    X, y = wine
    params: dict[str, Any] = {"recipe": "paper"}
    if database_size is not None:
        params = {"recipe": replace(PAPER, database_size=database_size), **PAPER_SETTINGS}
    clf = ProtoAttendClassifier(module(), normalize=normalize, **params, **BRIEF).fit(X, y)
    ids = clf.database_.rows.ids
    assert len(np.unique(ids)) == len(ids) == (database_size or len(X))

    reference, samples = naive_of(clf), clf.inputs_.tensor(clf.inputs_.source(X)).tolist()
    candidates = reference.encode([samples[i] for i in ids])
    some = samples[:10]
    nobody = [[False] * len(ids)] * len(some)
    expected = reference.forward(some, candidates.keys, candidates.values, nobody)
    logits = np.array(expected.logits[1.0])
    np.testing.assert_allclose(clf.decision_function(X[:10]), logits, atol=1e-4)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(X[:10]), shares, atol=1e-4)
    mass = [naive.class_mass(row, y[ids].tolist(), 3) for row in expected.weights]
    confidence = [row[naive.argmax(of)] for row, of in zip(mass, logits.tolist(), strict=True)]
    np.testing.assert_allclose(clf.confidence(X[:10]), confidence, atol=1e-4)
    for explanation, weights in zip(clf.explain(X[:10], top=3), expected.weights, strict=True):
        heaviest = sorted(range(len(ids)), key=lambda j: -weights[j])[:3]
        found = {prototype.index: prototype.weight for prototype in explanation.prototypes}
        for j in heaviest:
            assert found.get(ids[j], 0.0) == pytest.approx(weights[j], abs=1e-4)

    clf.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model", encoder=module())
    assert loaded.get_params(deep=False)["recipe"] == params["recipe"]
    np.testing.assert_array_equal(loaded.confidence(X), clf.confidence(X))


def test_a_database_of_all_rows_where_there_are_fewer(wine: Any) -> None:
    recipe = Recipe(database_size=10_000)
    assert len(ProtoAttendClassifier(recipe=recipe, **BRIEF).fit(*wine).database_) == len(wine[0])


def test_texts_are_448_characters() -> None:
    long, short = "Ab 9!" * 120, "prototypes"
    setup = set_up(Settings(recipe="paper"), [long, short], [0, 1], None, torch.Generator())
    alphabet = string.ascii_lowercase + string.digits + string.punctuation + " "
    for text, codes in zip((long, short), setup.whole.everything.samples.tolist(), strict=True):
        expected = [alphabet.index(character.lower()) + 1 for character in text][:448]
        assert codes == expected + [0] * (448 - len(expected))


def test_each_image_is_standardised_by_itself(tmp_path: Path) -> None:
    """In the encoder, and so after the crop; in a saved classifier too."""
    X = np.random.default_rng(0).integers(0, 256, (40, 8, 8)).astype(np.uint8)
    y = np.arange(40) % 2
    clf = ProtoAttendClassifier(recipe="paper", **BRIEF).fit(X, y)
    assert isinstance(clf.model_.encoder.front, StandardizeEach)
    found = clf.model_.encoder.front(torch.from_numpy(X[:, None]))
    for image, ours in zip(X.reshape(40, -1).tolist(), found.flatten(1).tolist(), strict=True):
        mean = sum(image) / 64
        deviation = math.sqrt(sum((pixel - mean) ** 2 for pixel in image) / 64)
        assert ours == pytest.approx([(pixel - mean) / deviation for pixel in image], abs=1e-4)
    clf.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    ours, papers = (set_up(Settings(recipe=name), X, y, None, torch.Generator()) for name in ("auto", "paper"))
    assert isinstance(ours.encoder.front, Standardize)
    assert ours.augment.cutout > 0
    assert papers.augment.cutout == 0


@pytest.mark.parametrize(("encoder", "norm"), [("lstm", nn.Identity), (module(), nn.Identity), ("mlp", nn.LayerNorm)])
def test_which_encoders_end_in_layer_normalisation(wine: Any, encoder: Any, norm: type[nn.Module]) -> None:
    """The LSTM and a user's module by the paper do not; ours that stand for its other encoders do, as those do."""
    assert isinstance(set_up(Settings(encoder), *wine, None, torch.Generator()).encoder.norm, nn.LayerNorm)
    assert isinstance(set_up(Settings(encoder, recipe="paper"), *wine, None, torch.Generator()).encoder.norm, norm)
