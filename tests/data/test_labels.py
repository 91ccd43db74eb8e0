"""Labels: what is no class, and what is missing, is told before training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from protoattend.data.labels import Classes
from protoattend.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore:The number of unique classes")  # scikit-learn's, of tiny y


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, None, "a", None], r"2 of 5 are missing, the first of them y\[2\] is None; drop these rows"),
        (np.array([1.0, np.nan, 0.0]), r"y contains NaN: 1 of 3 are missing, the first of them y\[1\]"),
        (pd.Series(["a", None, "b"]), r"1 of 3 are missing, the first of them y\[1\]"),
        (pd.Series([1, None, 2], dtype="Int64"), r"1 of 3 are missing, the first of them y\[1\]"),
        ([("a", 1), None, ("b", 2)], r"1 of 3 are missing, the first of them y\[1\]"),
    ],
)
def test_missing_labels_are_counted_and_placed(y: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Classes.fit(y)


@pytest.mark.parametrize(
    "y",
    [
        np.array([0.5, 1.0, 2.0] * 9),
        np.random.default_rng(0).normal(size=300),
        np.arange(300),
        np.arange(300).astype(float),
        [*range(300)],
        pd.Series(range(300), dtype="Int64"),
        np.arange(9000) % 1000,
        np.arange(40_040) % 1001,
        np.arange(40_040.0) % 1001,
        [*range(1001)] * 20,
        pd.Series([*range(1001)] * 20, dtype="Int64"),
    ],
)
def test_measurements_are_not_classes(y: Any) -> None:
    with pytest.raises(UserError, match=r"Unknown label type: .*Is this regression\? .*binning.*astype\(str\)"):
        Classes.fit(y)


def test_the_fixes_named_work() -> None:
    y = np.random.default_rng(0).normal(size=300)
    assert len(Classes.fit(np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])))) == 3
    assert len(Classes.fit(np.arange(300).astype(str))) == 300


@pytest.mark.parametrize(
    "y",
    [np.arange(300) % 50, np.arange(10_000) % 1000, np.arange(40), np.array([1.0, 2.0]), [f"{i}" for i in range(99)]],
)
def test_many_classes_are_classes(y: Any) -> None:
    assert len(Classes.fit(y)) == len(np.unique(y))


def test_one_hot_rows_and_lists_are_the_users_error() -> None:
    with pytest.raises(UserError, match=r"argmax"):
        Classes.fit(np.eye(3))
    with pytest.raises(UserError, match=r"y\[1\] is \[2\]"):
        Classes.fit([(1,), [2]])


def test_bytes_are_the_users_error() -> None:
    with pytest.raises(UserError, match=r"such as .*b'no'.* y.astype\(str\)"):
        Classes.fit(np.array([b"no", b"yes"]))
