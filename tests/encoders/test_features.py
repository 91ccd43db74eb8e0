"""encoder="features": the paper's setting for pre-trained features (Appendix A, AwA), and how features are rescaled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from protoattend import ProtoAttendClassifier
from protoattend.data.tables import TableInputs
from protoattend.encoders.build import build_encoder
from protoattend.encoders.tabular import FeatureTable, Rescale

RNG = np.random.default_rng(0)
BRIEF = {"max_epochs": 1, "random_state": 0, "verbose": 0}


def made_features(n: int = 300, width: int = 2048, n_classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return features as a net gives them: never negative, some columns dead, a mean in common, classes apart."""
    y = np.arange(n) % n_classes
    centres = RNG.normal(size=(n_classes, width))
    X = np.maximum(0, 0.3 + centres[y] * 0.3 + RNG.normal(size=(n, width)) * 0.3).astype(np.float32)
    X[:, ::10] = 0
    return X, y


def test_layers_and_parameters_of_the_papers_setting() -> None:
    """2048 features, one layer of 256 with ReLU and layer norm, then 16, 16 and 64 units, and a linear decision."""
    X, y = made_features()
    model = ProtoAttendClassifier("features", **BRIEF).fit(X, y).model_
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes == {
        "encoder.body.0.weight": (256, 2048),
        "encoder.body.0.bias": (256,),
        "encoder.body.2.weight": (256,),
        "encoder.body.2.bias": (256,),
        "query.0.weight": (16, 256),
        "query.0.bias": (16,),
        "key.0.weight": (16, 256),
        "key.0.bias": (16,),
        "value.0.weight": (64, 256),
        "value.0.bias": (64,),
        "value.2.weight": (64,),
        "value.2.bias": (64,),
        "decision.weight": (5, 64),
    }
    by_hand = (2048 * 256 + 256 + 2 * 256) + 2 * (256 * 16 + 16) + (256 * 64 + 64 + 2 * 64) + 5 * 64
    assert sum(p.numel() for p in model.parameters()) == by_hand == 550_176


def test_layer_norm_comes_last() -> None:
    X, _ = made_features()
    inputs = TableInputs.fit(X)
    features = build_encoder("features", "table", inputs.form())(inputs.tensor(inputs.source(X[:3])))
    assert features.shape == (3, 256)
    torch.testing.assert_close(features.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.var(1, correction=0), torch.ones(3), atol=1e-2, rtol=0)


def test_features_learn_and_come_back(tmp_path: Any) -> None:
    X, y = made_features(width=64)
    classifier = ProtoAttendClassifier("features", **BRIEF | {"max_epochs": 15}).fit(X, y)
    assert classifier.score(X, y) > 0.95
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


def test_columns_keep_their_proportions() -> None:
    """Against numpy: one scale for all columns, and a mean that is at most half as long as samples differ."""
    X, _ = made_features(width=30)
    X *= np.linspace(0.1, 3, 30, dtype=np.float32)
    X += 2
    inputs = TableInputs.fit(X)
    encoder = build_encoder("features", "table", inputs.form())
    encoder.learn_from(inputs.tensor(inputs.source(X)))
    rescaled = encoder.front(inputs.tensor(inputs.source(X))).numpy()
    spread = np.sqrt(X.var(0).mean())
    np.testing.assert_allclose(rescaled - rescaled.mean(0), (X - X.mean(0)) / spread, atol=1e-4)
    assert np.linalg.norm(rescaled.mean(0)) == pytest.approx(0.5 * np.sqrt(30), rel=1e-4)
    cosine = rescaled.mean(0) @ X.mean(0) / np.linalg.norm(rescaled.mean(0)) / np.linalg.norm(X.mean(0))
    assert cosine == pytest.approx(1, abs=1e-5)


def test_a_small_mean_is_left_alone() -> None:
    features = torch.randn(1000, 8, generator=torch.Generator().manual_seed(0)) * 3 + 0.3
    rescale = Rescale(8)
    rescale.learn_from(features)
    torch.testing.assert_close(rescale(features), features / (features - features.mean(0)).square().mean().sqrt())


@pytest.mark.parametrize("features", [torch.zeros(4, 3), torch.full((4, 3), 7.0)])
def test_features_without_any_difference(features: torch.Tensor) -> None:
    rescale = Rescale(3)
    rescale.learn_from(features)
    assert torch.isfinite(rescale(features)).all()


def test_missing_numbers_and_categories() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 5.0], "b": [10.0, 20.0, 30.0, 40.0], "c": ["x", "y", "x", None]})
    inputs = TableInputs.fit(frame)
    table = FeatureTable(inputs.form()["cardinalities"], inputs.form()["means"], inputs.form()["scales"])
    columns = table(inputs.tensor(inputs.source(frame))).numpy()  # not yet rescaled
    np.testing.assert_allclose(columns[:, 0], [1, 3, 3, 5], atol=1e-5)  # what is missing is the mean
    np.testing.assert_allclose(columns[:, 1], [10, 20, 30, 40], atol=1e-4)
    np.testing.assert_array_equal(columns[:, 2:], [[1, 0], [0, 1], [1, 0], [0, 0]])
