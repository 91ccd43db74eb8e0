"""The same seed gives the same predictions as when predictions.json was made."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

spec = importlib.util.spec_from_file_location("golden", Path(__file__).parent / "make.py")
assert spec is not None
assert spec.loader is not None
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


@pytest.mark.parametrize("kind", golden.KINDS)
def test_predictions_are_those_of_before(kind: str) -> None:
    before, now = json.loads(golden.PATH.read_text())[kind], golden.predictions(kind)
    assert now["labels"] == before["labels"]
    np.testing.assert_allclose(now["probabilities"], before["probabilities"], atol=1e-4)
    assert now["heaviest prototypes"] == before["heaviest prototypes"]
