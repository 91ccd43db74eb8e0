"""Odd arguments: a clear error of ours or a right answer, never a traceback out of torch or numpy."""

from __future__ import annotations

import copy
from contextlib import chdir
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_dtypes, array_shapes, arrays, scalar_dtypes
from tests.faults.calling import Targets, calls, raw

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError

SOME = 23  # of so many odd calls one is made; the benchmark makes them all


@pytest.fixture(scope="module")
def targets(wine_classifier: Any, text_classifier: Any, digit_classifier: Any, wine: Any) -> Targets:
    fitted = {"table": copy.deepcopy(wine_classifier), "text": text_classifier, "images": digit_classifier}
    return Targets(fitted, wine[0][::3], wine[1][::3])


def test_odd_calls(targets: Targets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some of the texts are names to save under
    some = islice(calls(targets, seed=0), 0, None, SOME)
    failures = {name: error for name, call in some if (error := raw(call)) is not None}
    assert failures == {}


def test_right_calls_are_right(targets: Targets) -> None:
    """Else odd arguments would be refused for another reason than they should be."""
    works = [method for method in targets.methods if not any("/" in str(value) for value in method.given.values())]
    assert len(works) > 50
    for method in works:
        method.call(**method.given)


NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers())
ANYTHING = st.recursive(
    st.one_of(NUMBERS, st.text(max_size=9), st.binary(max_size=9), st.dates(), st.fractions()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
ARRAYS = arrays(
    st.one_of(scalar_dtypes(), array_dtypes(max_size=2)), array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4)
)


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_calls(targets: Targets, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(targets.methods))
    argument = data.draw(st.sampled_from(sorted(method.given)))
    value = data.draw(ANYTHING | ARRAYS)
    with chdir(tmp_path_factory.getbasetemp()):
        assert raw(lambda: method.call(**(method.given | {argument: value}))) is None, f"{method.name}: {argument}"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y"),
        ([0, 1], "one for each of the 178 rows of X"),
        (["a"] * 178, "all are unknown, such as 'a'"),
        ([[0]] * 177 + [[0, 1]], "lists of one length"),
        ([float("nan")] * 178, "every label must be known"),
    ],
)
def test_accuracy_needs_labels(wine_classifier: ProtoAttendClassifier, wine: Any, y: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        wine_classifier.score(wine[0], y)


def test_accuracy_heeds_weights_and_unseen_labels(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    right = wine_classifier.predict(X) == y
    assert wine_classifier.score(X, y, sample_weight=np.arange(178)) == pytest.approx(
        np.average(right, weights=np.arange(178))
    )
    assert wine_classifier.score(X, [7, *y[1:]]) == pytest.approx((right.sum() - right[0]) / 178)


def test_what_goes_through_its_columns_or_has_no_order_is_no_list_of_texts(text_classifier: Any) -> None:
    for X in (pd.DataFrame({"a": ["x", "y"], "b": ["z", "w"]}), {"a": 1}, {"a", "b"}):
        with pytest.raises(UserError, match="texts must be a list of str"):
            text_classifier.predict(X)


def test_what_lies_below_a_mask_is_not_read(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    with pytest.raises(UserError, match="must not be masked"):
        wine_classifier.predict(np.ma.array(wine[0], mask=wine[0] > 5))


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


def test_training_records_gradients_whatever_the_caller_does(wine: Any) -> None:
    X, y = wine[0][::3], wine[1][::3]
    trained = [ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y).predict_proba(X)]
    for switched_off in (torch.no_grad, torch.inference_mode):
        with switched_off():
            trained.append(ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(trained[0], trained[1])
    np.testing.assert_array_equal(trained[0], trained[2])


def test_texts_of_numpy_are_labels_and_zero_bytes_are_told(wine: Any) -> None:
    y = np.array(["a", "b"] * 10, dtype=np.dtypes.StringDType())
    clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(wine[0][:20], y)
    assert clf.classes_.tolist() == ["a", "b"]
    with pytest.raises(UserError, match="must not end in a zero byte"):
        clf.score(wine[0][:2], ["a\0", "b"])
