"""Bad input gets an error that gives the rule, the value and the fix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2


def fit(X: Any, y: Any, **params: Any) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(**{"max_epochs": 1, "random_state": 0, "verbose": 0} | params).fit(X, y)


@pytest.mark.parametrize(
    ("bad_X", "y", "message"),
    [
        (
            np.where(np.arange(40)[:, None, None] == 7, np.nan, np.zeros((40, 8, 8))),
            Y,
            r"X\[7\] contains NaN",
        ),
        (np.full((40, 8, 8), np.inf), Y, "NaN or infinity"),
        (np.where(np.arange(40)[:, None] == 3, np.inf, X), Y, "contains infinity at row 3"),
        (np.zeros((0, 3)), [], "at least one row"),
        ([], [], "at least one row"),
        (X, np.zeros(40), "at least two classes"),
        (X, Y[:-1], "40 rows and y has 39"),
        (["a", None] * 20, Y, r"X\[1\] is None"),
        (np.zeros((40, 5, 6, 7)), Y, "1, 3 or 4 channels"),
        (np.zeros(40), Y, "two-dimensional"),
        (X, [None, "a"] * 20, r"y\[0\] is None"),
        (X, np.where(Y, np.nan, 1.0), "y contains NaN"),
        (X[:1], [1], "at least two classes"),
    ],
)
def test_bad_data(bad_X: Any, y: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit(bad_X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"encoder": "fastcnn"}, "did you mean 'fast-cnn'"),
        ({"encoder": "fast-cnn"}, "does not read table"),
        ({"normalize": "sparsmax"}, "did you mean 'sparsemax'"),
        ({"objective": "protoype"}, "did you mean 'prototype'"),
        ({"candidates": "inbatch"}, "did you mean 'in-batch'"),
        ({"n_candidates": 4096, "candidates": "sampled"}, "n_candidates=4096 and it has 36 rows"),
        ({"batch_size": 1}, "batch_size=1"),
        ({"max_epochs": 0}, "max_epochs=0"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0"),
        ({"lambda_sparse": -0.1}, "lambda_sparse=-0.1"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"n_processes": 0}, "n_processes must be an integer of at least 1"),
        ({"augment": "flip"}, "augment must be"),
        ({"class_weight": "heavy"}, "class_weight must be"),
        ({"categorical_features": ["colour"]}, "colour"),
    ],
)
def test_bad_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit(X, Y, **params)


def test_columns_missing_at_predict() -> None:
    frame = pd.DataFrame({"age": X[:, 0], "income": X[:, 1]})
    classifier = fit(frame, Y)
    with pytest.raises(UserError, match=r"\['income'\] are missing"):
        classifier.predict(frame[["age"]])
    reordered = frame[["income", "age"]]
    np.testing.assert_array_equal(classifier.predict(frame), classifier.predict(reordered))


def test_other_size_at_predict() -> None:
    with pytest.raises(UserError, match="8x8 with 1 channel"):
        fit(np.zeros((40, 8, 8)) + Y[:, None, None], Y).predict(np.zeros((1, 9, 8)))
    with pytest.raises(UserError, match="4 features"):
        fit(X, Y).predict(np.zeros((1, 4)))


def test_missing_numbers_and_unseen_categories_are_handled() -> None:
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(40) % 5 == 0, np.nan, X[:, 0]),
            "colour": np.where(Y, "red", "blue"),
            "flag": Y.astype(bool),
            "when": pd.date_range("2020-01-01", periods=40),
            "constant": 1,
        }
    )
    frame.loc[3, "colour"] = None
    classifier = ProtoAttendClassifier(max_epochs=10, random_state=0, verbose=0).fit(frame, Y)
    assert classifier.score(frame, Y) > 0.9
    strange = frame.head(2).copy()
    strange["colour"] = "never seen"
    strange["size"] = np.nan
    strange["when"] = pd.NaT
    assert np.isfinite(classifier.predict_proba(strange)).all()
    shown = classifier.explain(frame.head(1))[0].preview
    assert list(shown) == list(frame.columns)
    assert (shown["size"], shown["when"], shown["constant"]) == ("(missing)", "2020-01-01", "1")


def test_empty_text_is_a_text_without_characters() -> None:
    classifier = fit(["good", "bad"] * 20, Y)
    assert np.isfinite(classifier.predict_proba(["", "good"])).all()
