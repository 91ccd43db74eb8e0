"""A few rows of each class are enough for what a straight line could tell."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from protoattend import ProtoAttendClassifier
from protoattend.core.objectives import OBJECTIVES


def few(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `n` rows of each of three classes that lie well apart."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-4.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 4.0]])
    return np.repeat(centres, n, axis=0) + rng.normal(size=(3 * n, 3)), np.repeat(["a", "b", "c"], n)


def made(**params: object) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(**{"random_state": 0, "verbose": 0} | params)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_defaults_learn_from_few_rows_of_each_class(n: int) -> None:
    classifier = made().fit(*few(n))
    assert classifier.score(*few(100, seed=1)) > 0.9
    assert classifier.score(*few(n)) == 1


def test_two_rows_are_told_apart() -> None:
    X = np.array([[-1.0, -1.0], [1.0, 1.0]])
    assert made().fit(X, ["a", "b"]).predict(X).tolist() == ["a", "b"]


def test_no_more_prototypes_than_a_class_has_rows() -> None:
    X, y = few(4)
    explanations = made(max_epochs=2).fit(X, y).explain()
    assert np.median([explanation.n_prototypes(0.95) for explanation in explanations]) <= 4


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_decides_by_prototypes(objective: str) -> None:
    X, y = load_wine(return_X_y=True)
    assert made(objective=objective).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.8
