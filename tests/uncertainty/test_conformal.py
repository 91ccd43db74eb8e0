"""Prediction sets cover what they promise: on drawn samples, on real ones over many splits, and for each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.uncertainty.conformal import Conformal, class_support


def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw what speaks for each of three classes, of which the last is rare and often mistaken."""
    rng = np.random.default_rng(0)
    labels = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    alpha = np.where(np.eye(3)[labels] == 1, np.array([6.0, 4.0, 1.5])[labels][:, None], 1.0)
    gamma = rng.gamma(alpha)
    return gamma / gamma.sum(1, keepdims=True), labels


@pytest.fixture(scope="module")
def digits_support() -> tuple[np.ndarray, np.ndarray]:
    """What a classifier of few digits finds to speak for each class of the others, which it has never seen."""
    images, y = load_digits(return_X_y=True)
    X = images.reshape(-1, 8, 8)
    X_fit, X_rest, y_fit, y_rest = train_test_split(X, y, train_size=400, random_state=0)
    classifier = ProtoAttendClassifier(max_epochs=6, random_state=0, verbose=0).fit(X_fit, y_fit)
    seen = classifier.assess(X_rest, y_rest)
    return class_support(seen.class_mass, seen.probabilities), seen.labels


def coverages(support: np.ndarray, labels: np.ndarray, method: str, coverage: float) -> tuple[float, np.ndarray]:
    """Return the mean coverage over random splits in halves, of all samples and of those of each class."""
    rng = np.random.default_rng(0)
    covered, by_class = [], []
    for _ in range(60):
        order = rng.permutation(len(labels))
        known, new = order[: len(order) // 2], order[len(order) // 2 :]
        sets = getattr(Conformal.fit(support[known], labels[known]), method)(support[new], coverage)
        hit = sets[np.arange(len(new)), labels[new]]
        covered.append(hit.mean())
        by_class.append([hit[labels[new] == c].mean() for c in range(support.shape[1])])
    return float(np.mean(covered)), np.mean(by_class, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95, 0.99])
def test_sets_of_digits_cover_over_repeated_splits(digits_support: Any, coverage: float) -> None:
    covered, _ = coverages(*digits_support, "sets", coverage)
    assert covered == pytest.approx(coverage, abs=0.01)


@pytest.mark.slow
def test_sets_by_class_cover_every_digit(digits_support: Any) -> None:
    covered, by_class = coverages(*digits_support, "sets_by_class", 0.9)
    assert by_class.min() >= 0.89
    assert covered <= 0.93  # a class has about 70 calibration samples, whose rounding up costs 1 / 70 at most


def test_sets_by_class_cover_the_rare_class_that_common_ones_do_not() -> None:
    support, labels = drawn(6000)
    _, together = coverages(support, labels, "sets", 0.9)
    _, apart = coverages(support, labels, "sets_by_class", 0.9)
    assert together[2] < 0.7
    assert apart == pytest.approx(np.full(3, 0.9), abs=0.01)


def test_limit_is_the_smallest_that_is_valid() -> None:
    support = np.array([[1 - i / 10] for i in range(1, 10)])  # nonconformity 0.1 .. 0.9
    known = Conformal.fit(support, np.zeros(9, dtype=int))
    for coverage, limit in ((0.1, 0.1), (0.5, 0.5), (0.51, 0.6), (0.7, 0.7), (0.9, 0.9)):
        grid = 1 - np.arange(1, 11)[:, None] / 10
        assert known.sets(grid, coverage).sum() == round(10 * limit)


def test_an_empty_set_is_none_of_these() -> None:
    support, labels = drawn(2000)
    nothing_speaks = np.full((1, 3), 1 / 3)
    assert not Conformal.fit(support, labels).sets(nothing_speaks, 0.5).any()
    assert Conformal.fit(support, labels).sets(nothing_speaks, 0.99).all()


def test_sets_grow_with_coverage() -> None:
    support, labels = drawn(500)
    known = Conformal.fit(support, labels)
    for method in (known.sets, known.sets_by_class):
        small, large = method(support, 0.6), method(support, 0.9)
        assert (small <= large).all()


def test_too_few_samples_say_how_many_are_needed() -> None:
    support, labels = drawn(10)
    with pytest.raises(UserError, match="at least 19 calibration samples, but there were 10"):
        Conformal.fit(support, labels).sets(support, 0.95)
    with pytest.raises(UserError, match="at least 9 calibration samples of class number 0"):
        Conformal.fit(support, np.ones(10, dtype=int)).sets_by_class(support, 0.9)
    for coverage in (0, 1, 1.5):
        with pytest.raises(UserError, match="coverage must be"):
            Conformal.fit(support, labels).sets(support, coverage)


@pytest.mark.parametrize("method", ["sets", "sets_by_class"])
@pytest.mark.parametrize(("change", "message"), [(np.nan, "NaN"), (None, "n_classes")])
def test_bad_new_samples(method: str, change: float | None, message: str) -> None:
    support, labels = drawn(100)
    new = support[0] if change is None else change * support
    with pytest.raises(UserError, match=message):
        getattr(Conformal.fit(support, labels), method)(new, 0.5)


@pytest.mark.parametrize("label", [-1, 3, 0.5])
def test_labels_must_be_class_numbers(label: float) -> None:
    support, labels = drawn(10)
    with pytest.raises(UserError, match="class numbers from 0 to 2"):
        Conformal.fit(support, np.append(labels[1:], label))


def test_bad_calibration_samples() -> None:
    support, labels = drawn(10)
    with pytest.raises(UserError, match="one label each"):
        Conformal.fit(support[:0], labels[:0])
    with pytest.raises(UserError, match="one label each"):
        Conformal.fit(support, labels[:3])
    with pytest.raises(UserError, match="NaN"):
        Conformal.fit(support * np.nan, labels)


def test_state_comes_back_and_an_old_one_is_read() -> None:
    support, labels = drawn(100)
    known = Conformal.fit(support, labels)
    again = Conformal.from_state(known.state())
    np.testing.assert_array_equal(again.sets_by_class(support, 0.8), known.sets_by_class(support, 0.8))
    old = Conformal.from_state(known.nonconformity.tolist())
    np.testing.assert_array_equal(old.sets(support, 0.8), known.sets(support, 0.8))
    with pytest.raises(UserError, match="class number 0, but there were 0"):
        old.sets_by_class(support, 0.8)
