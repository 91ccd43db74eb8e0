"""Networks worked out by hand, and one trained on some digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from protoattend import PlainClassifier
from protoattend.baselines import Network

Digits = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="session")
def by_hand() -> Callable[..., Network]:
    """Return what makes a network whose values are its inputs, of the layers and labels of its training rows."""

    def make(values: Any, labels: Any, weight: Any = None, n_layers: int = 1) -> Network:
        values, labels = np.asarray(values, dtype=float), np.asarray(labels)
        weight = np.eye(labels.max() + 1, values.shape[1]) if weight is None else np.asarray(weight, dtype=float)
        names = np.array(["a", "b", "c", "d"])[: len(weight)]
        return Network(lambda X: (np.asarray(X, dtype=float),) * n_layers, weight, names, (values,) * n_layers, labels)

    return make


@pytest.fixture(scope="session")
def digit_rows(few_digits: Digits) -> tuple[Digits, Digits]:
    """Return 300 digits to train on and 100 to test with."""
    X, y = few_digits
    return (X[:300], y[:300]), (X[300:], y[300:])


@pytest.fixture(scope="session")
def plain_digits(digit_rows: tuple[Digits, Digits]) -> PlainClassifier:
    return PlainClassifier(max_epochs=6, augment=None, random_state=0, verbose=0).fit(*digit_rows[0])


@pytest.fixture(scope="session")
def digit_network(plain_digits: PlainClassifier, digit_rows: tuple[Digits, Digits]) -> Network:
    return Network.of(plain_digits, *digit_rows[0])
