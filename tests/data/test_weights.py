"""Weights and shares: what is accepted, what is refused and how, and which rows are chosen."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from protoattend.data.inputs import count_rows, take_rows
from protoattend.data.labels import Classes
from protoattend.data.weights import check_weights, choose_rows, class_shares, warn_of_unusual_weights
from protoattend.errors import UserError

CLASSES = Classes(np.array(["benign", "melanoma"]))
LABELS = torch.tensor([0] * 30 + [1] * 10)


@pytest.mark.parametrize(
    "weights",
    [
        [0, 2.5, 1],
        (0, 2.5, 1),
        np.array([0, 2.5, 1]),
        pd.Series([0, 2.5, 1], index=[7, 8, 9]),
        torch.tensor([0, 2.5, 1]),
    ],
)
def test_weights_of_any_kind(weights: Any) -> None:
    checked = check_weights(weights, 3)
    assert checked.tolist() == [0, 2.5, 1]
    checked[0] = 5
    assert float(np.asarray(weights)[0]) == 0, "what the caller holds stays as it is"


def test_no_weights_are_one_each() -> None:
    assert check_weights(None, 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], r"one number for each row of X, \(3,\), but its shape is \(2,\)"),
        (np.ones((3, 2)), r"shape is \(3, 2\)"),
        (2.0, r"shape is \(\)"),
        ([1, -0.5, -2], r"row 1 has -0.5 \(and 1 more"),
        ([1, 1, np.nan], "row 2 has nan"),
        ([np.inf, 1, 1], "row 0 has inf"),
        ([1e300, 1, 1], "row 0 has inf"),
        ([0, 0, 0], "all 3 weights are zero"),
        ([0, 1e-300, 0], "all 3 weights are zero"),
        (["a", "b", "c"], "must hold numbers"),
        ([1, None, "x"], "must hold numbers"),
    ],
)
def test_bad_weights(weights: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_weights(weights, 3)


def test_weights_that_are_not_counts_of_rows_are_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"mean weight is 0\.01: .* spreads .* divide the weights by their mean"):
        warn_of_unusual_weights(np.full(100, 0.01))
    with pytest.warns(UserWarning, match=r"mean weight is 3e\+02: .* to one candidate; divide"):
        warn_of_unusual_weights(np.full(100, 300.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_unusual_weights(np.array([0.0] * 99 + [0.5]))
        warn_of_unusual_weights(np.array([1.0] * 99 + [500.0]))


def test_shares_of_each_row() -> None:
    assert class_shares(None, LABELS, CLASSES) is None
    shares = class_shares({"benign": 0.4}, LABELS, CLASSES)
    assert shares is not None
    assert shares.tolist() == [0.4] * 30 + [1.0] * 10
    whole = class_shares({"melanoma": 1, "benign": np.float32(0.5)}, LABELS, CLASSES)
    assert whole is not None
    assert whole.tolist() == [0.5] * 30 + [1.0] * 10


@pytest.mark.parametrize(
    ("undersample", "message"),
    [
        (0.5, "must be None or {label: share}, but got 0.5"),
        ({"benign": 0.0}, "above 0 and at most 1 of a class, but 'benign' has 0.0"),
        ({"benign": 1.5}, "'benign' has 1.5"),
        ({"benign": "half"}, "'benign' has 'half'"),
        ({"benign": True}, "'benign' has True"),
        ({"benign": None}, "'benign' has None"),
        ({"benign": float("nan")}, "'benign' has nan"),
        ({"nevus": 0.5}, "undersample must name classes of y, .* but got 'nevus'"),
        ({"melanoma": 0.04}, "0.04 of the 10 rows of 'melanoma' is none; keep at least 0.1"),
    ],
)
def test_bad_shares(undersample: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        class_shares(undersample, LABELS, CLASSES)


def test_chosen_rows_are_that_share_of_their_class_and_any_of_them() -> None:
    shares = class_shares({"benign": 0.4}, LABELS, CLASSES)
    assert shares is not None
    choices = [choose_rows(LABELS, shares, torch.Generator().manual_seed(seed)) for seed in range(40)]
    for rows in choices:
        assert torch.bincount(LABELS[rows]).tolist() == [12, 10]
        assert bool((rows.diff() > 0).all())
    assert torch.cat(choices).unique().tolist() == list(range(40)), "every row can be chosen"
    assert torch.equal(choices[3], choose_rows(LABELS, shares, torch.Generator().manual_seed(3)))


def test_a_class_is_never_left_out() -> None:
    """Of the training rows of a small class, the share may round to none."""
    labels = torch.tensor([0, 0, 0, 1])
    shares = torch.tensor([1.0, 1.0, 1.0, 0.3])
    assert choose_rows(labels, shares, torch.Generator()).tolist() == [0, 1, 2, 3]


class NotAnArray:
    """Something numpy can read but that has neither shape nor length."""

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.arange(8).reshape(4, 2)


@pytest.mark.parametrize(
    "X",
    [
        np.arange(8).reshape(4, 2),
        torch.arange(8).reshape(4, 2),
        pd.DataFrame(np.arange(8).reshape(4, 2), index=[9, 8, 7, 6]),
        [[0, 1], [2, 3], [4, 5], [6, 7]],
        NotAnArray(),
    ],
    ids=lambda X: type(X).__name__,
)
def test_rows_of_any_kind_are_counted_and_taken(X: Any) -> None:
    assert count_rows(X) == 4
    assert np.asarray(take_rows(X, np.array([1, 3]))).tolist() == [[2, 3], [6, 7]]
    assert take_rows(X, np.arange(4)) is X, "uncopied"


def test_texts_and_labels_are_taken_as_they_are() -> None:
    assert take_rows(["a", "b", "c"], np.array([0, 2])) == ["a", "c"]
    assert take_rows(("a", ("b", 1), "c"), np.array([1])) == [("b", 1)]
    assert take_rows(pd.Series(["a", "b"], index=[5, 6]), np.array([1])).tolist() == ["b"]
    assert (count_rows([]), count_rows(np.zeros((0, 3))), count_rows(np.array(5.0))) == (0, 0, 1)
