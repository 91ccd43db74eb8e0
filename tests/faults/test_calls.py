"""Odd arguments: a clear error of ours or a right answer, never a traceback out of torch or numpy."""

from __future__ import annotations

import copy
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.faults.calling import Targets, calls, raw

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError


def test_odd_calls(
    wine_classifier: ProtoAttendClassifier, text_classifier: ProtoAttendClassifier, digit_classifier: Any, wine: Any
) -> None:
    X, y = wine
    fitted = {"table": copy.deepcopy(wine_classifier), "text": text_classifier, "images": digit_classifier}
    every = calls(Targets(fitted, X[::3], y[::3]), seed=0)
    failures = {name: error for name, call in islice(every, 0, None, 3) if (error := raw(call)) is not None}
    assert failures == {}


def test_tensors_are_read_whatever_their_kind(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X = torch.from_numpy(wine[0])
    expected = wine_classifier.predict(wine[0])
    np.testing.assert_array_equal(wine_classifier.predict(X.requires_grad_()), expected)
    halves = X.detach().bfloat16()
    np.testing.assert_array_equal(wine_classifier.predict(halves), wine_classifier.predict(halves.double().numpy()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_another_default_dtype_is_told(wine_classifier: ProtoAttendClassifier, tmp_path: Path, dtype: Any) -> None:
    wine_classifier.save(tmp_path / "model")
    torch.set_default_dtype(dtype)
    try:
        for call in (
            lambda: ProtoAttendClassifier.load(tmp_path / "model"),
            lambda: ProtoAttendClassifier(max_epochs=1, verbose=0).fit([[0.0], [1.0]] * 9, [0, 1] * 9),
        ):
            with pytest.raises(UserError, match="models are made of float32, but torch's default dtype is"):
                call()
    finally:
        torch.set_default_dtype(torch.float32)


def test_names_that_are_not_utf8_are_saved(wine: Any, tmp_path: Path) -> None:
    X, y = pd.DataFrame(wine[0]).rename(columns={0: "\udcff"}), [f"\udcfe{label}" for label in wine[1]]
    clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
    clf.save(tmp_path / "table")
    assert ProtoAttendClassifier.load(tmp_path / "table").predict(X).tolist() == clf.predict(X).tolist()
    texts = ["\udcff a", "b"] * 10
    clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(texts, [0, 1] * 10)
    clf.save(tmp_path / "texts")
    assert ProtoAttendClassifier.load(tmp_path / "texts").database_.preview(0) == "\udcff a"
