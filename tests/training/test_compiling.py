"""A compiled encoder trains as the other one does, and is itself again afterwards."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_wine
from torch import nn

from protoattend import ProtoAttendClassifier, Recipe


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="apt-get install g++")
def test_same_training() -> None:
    X, y = load_wine(return_X_y=True)
    encoder = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.LayerNorm(16))  # dropout would draw other numbers
    params = {"max_epochs": 2, "random_state": 0, "verbose": 0, "encoder": encoder}
    plain, compiled = (
        ProtoAttendClassifier(**params, recipe=Recipe(mixup=0.0, compile=c)).fit(X, y) for c in (False, True)
    )
    np.testing.assert_allclose(compiled.predict_proba(X), plain.predict_proba(X), atol=1e-3)
    assert compiled.model_.encoder._compiled_call_impl is None
