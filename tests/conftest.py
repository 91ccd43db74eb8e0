"""Small fitted classifiers shared by the tests: one a kind of input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from protoattend import ProtoAttendClassifier, Recipe


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of slow tests: one that came last would keep a single process busy at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Figures that a test leaves open would pile up until matplotlib warns."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return X, y


@pytest.fixture(scope="session")
def wine_classifier(wine: tuple[np.ndarray, np.ndarray]) -> ProtoAttendClassifier:
    """Fitted on wine; tests must not change it (copy.deepcopy it before an edit)."""
    return ProtoAttendClassifier(max_epochs=12, random_state=0, verbose=0).fit(*wine)


@pytest.fixture(scope="session")
def few_digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    return images[:400].reshape(-1, 8, 8), labels[:400]


@pytest.fixture(scope="session")
def digit_classifier(few_digits: tuple[np.ndarray, np.ndarray]) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(max_epochs=12, recipe=Recipe(mixup=0.3), augment=None, random_state=0, verbose=0).fit(
        *few_digits
    )


@pytest.fixture(scope="session")
def texts() -> tuple[list[str], np.ndarray]:
    """Texts of two kinds told apart by a word."""
    rng = np.random.default_rng(0)
    fruits, tools = ["apple", "cherry", "melon", "quince"], ["hammer", "chisel", "wrench", "pliers"]
    made, labels = [], []
    for _ in range(60):
        for label, words in (("fruit", fruits), ("tool", tools)):
            made.append(f"this {rng.choice(words)} is {rng.choice(['old', 'new', 'large', 'small'])} and good")
            labels.append(label)
    return made, np.array(labels)


@pytest.fixture(scope="session")
def text_classifier(texts: tuple[list[str], np.ndarray]) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(max_epochs=8, random_state=0, verbose=0).fit(*texts)


@pytest.fixture(params=["wine", "digits", "texts"])
def any_kind(request: Any) -> tuple[ProtoAttendClassifier, Any, np.ndarray]:
    """Each kind of input in turn: a fitted classifier with its training data."""
    names = {
        "wine": ("wine_classifier", "wine"),
        "digits": ("digit_classifier", "few_digits"),
        "texts": ("text_classifier", "texts"),
    }
    classifier, data = (request.getfixturevalue(name) for name in names[request.param])
    return classifier, *data
