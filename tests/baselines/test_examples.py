"""Methods that rank training rows: against cases worked out by hand, plain loops, autograd and leaving rows out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn.functional import cross_entropy

from protoattend import PlainClassifier
from protoattend.baselines import (
    ExampleMethod,
    InfluenceFunctions,
    NearestNeighbours,
    Network,
    RepresenterPoints,
    TracIn,
)
from protoattend.baselines.last_layer import gradients, heaviest, hessian, optimal_weight, residuals
from protoattend.baselines.network import shuffled
from protoattend.errors import UserError
from protoattend.explain.quality import TrainingSet, prototype_quality

Maker = Callable[..., Network]


@pytest.fixture(scope="module")
def layer(by_hand: Maker) -> Network:
    """A last layer of three classes with noisy rows, at no optimum."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=40)
    values = rng.normal(size=(40, 4)) + 1.5 * np.eye(3, 4)[labels]
    return by_hand(values, labels, rng.normal(size=(3, 4)))


def test_gradients_and_hessian_are_those_of_autograd(layer: Network) -> None:
    values, labels = torch.from_numpy(layer.values), torch.from_numpy(layer.labels)
    weight = torch.from_numpy(layer.weight)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return cross_entropy(values @ flat.view(3, 4).T, labels)

    errors = residuals(layer.values, layer.weight, np.eye(3)[layer.labels])
    slope = torch.autograd.functional.jacobian(loss, weight.flatten())
    np.testing.assert_allclose(gradients(layer.values, errors).mean(0), slope.numpy(), atol=1e-12)
    curvature = torch.autograd.functional.hessian(loss, weight.flatten())
    found = hessian(layer.values, softmax(layer.logits(layer.values), axis=1))
    np.testing.assert_allclose(found, curvature.numpy(), atol=1e-12)


def test_the_optimum_has_no_slope(layer: Network) -> None:
    targets = np.eye(3)[layer.labels]
    for penalty in (1e-6, 0.003, 10.0):
        weight = optimal_weight(layer.values, targets, penalty=penalty)
        slope = residuals(layer.values, weight, targets).T @ layer.values / 40 + 2 * penalty * weight
        assert np.abs(slope).max() < 1e-9


def test_logits_are_the_sum_of_representers(layer: Network) -> None:
    method = RepresenterPoints(layer, penalty=0.01)
    X = np.random.default_rng(1).normal(size=(5, 4))
    logits = X @ method.weight.T
    np.testing.assert_allclose(method.ranking(X).sum(1), logits.max(1), atol=1e-8)
    everything = np.tile(np.arange(40), (5, 1))
    np.testing.assert_allclose(method.probabilities(X), softmax(logits, axis=1))
    np.testing.assert_allclose(method.probabilities(X, only=everything), softmax(logits, axis=1), atol=1e-8)
    np.testing.assert_allclose(method.probabilities(X, without=everything), np.full((5, 3), 1 / 3), atol=1e-8)
    np.testing.assert_allclose(method.probabilities(X, without=np.full((5, 2), -1)), method.probabilities(X))


def test_a_representer_by_hand(by_hand: Maker) -> None:
    """One value, two classes and rows at +1 and -1: alpha is (target - p) / (2 penalty N), terms are alpha v_j v."""
    network = by_hand([[1.0], [-1.0]], [0, 1], [[2.0], [-2.0]])
    method = RepresenterPoints(network, penalty=0.1)
    w = method.weight[0, 0]  # by symmetry weight is (w, -w), and the slope at w is 0
    target, p = 1 / (1 + np.exp(-4)), 1 / (1 + np.exp(-2 * w))
    assert p - target + 2 * 0.1 * w == pytest.approx(0, abs=1e-9)
    alpha = (target - p) / (2 * 0.1 * 2)
    np.testing.assert_allclose(method.ranking([[3.0]]), [[3 * alpha, 3 * alpha]])


def test_influence_is_what_leaving_a_row_out_does(by_hand: Maker) -> None:
    """At the optimum, to first order, it is the change of the loss when the last layer is fitted without the row."""
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=150)
    values = rng.normal(size=(150, 4)) + np.eye(3, 4)[labels]
    penalty, targets = 0.01, np.eye(3)[labels]
    weight = optimal_weight(values, targets, penalty=penalty)
    network = by_hand(values, labels, weight)
    X = rng.normal(size=(3, 4))
    predicted = (X @ weight.T).argmax(1)

    def loss(at: np.ndarray) -> np.ndarray:
        return -np.log(softmax(X @ at.T, axis=1)[np.arange(3), predicted])

    real = []
    for row in range(20):
        rest = np.arange(150) != row
        # the mean over the other rows with the same pull of the penalty, as N in the score says
        without = optimal_weight(values[rest], targets[rest], penalty=penalty * 150 / 149)
        real.append(loss(without) - loss(weight))
    found = InfluenceFunctions(network, damping=2 * penalty).ranking(X)[:, :20]
    assert np.corrcoef(found.ravel(), np.stack(real, axis=1).ravel())[0, 1] > 0.99
    np.testing.assert_allclose(found, np.stack(real, axis=1), atol=0.15 * np.abs(found).max())


def test_influence_by_hand(by_hand: Maker) -> None:
    """One row at 1 of class a, two classes, weight 0: p = 1/2, g = (-1/2, 1/2), H = [[1, -1], [-1, 1]] / 4."""
    network = by_hand([[1.0]], [0], [[0.0], [0.0]])
    # (H + I)^-1 on the direction (1, -1), whose eigenvalue is 1/2: 1 / 1.5. Of x = 2 the gradient is twice g.
    np.testing.assert_allclose(InfluenceFunctions(network, damping=1.0).ranking([[2.0]]), [[2 * 0.5 / 1.5]])


def test_tracin_by_hand(by_hand: Maker) -> None:
    """Residuals are p - y, and the score their product times that of the values, times the rate, over checkpoints."""
    early = by_hand([[1.0], [2.0]], [0, 1], [[0.0], [0.0]])  # p = 1/2 everywhere
    np.testing.assert_allclose(TracIn([early]).ranking([[3.0]]), [[3 * 0.5, -6 * 0.5]])  # x is predicted a
    late = replace(early, weight=np.array([[0.0], [1.0]]))  # x = 3 is predicted b, with p = (1 - q, q)
    q, (r, s) = 1 / (1 + np.exp(-3.0)), 1 / (1 + np.exp(-np.array([1.0, 2.0])))
    at_late = [3 * 2 * (1 - q) * -r, 6 * 2 * (1 - q) * (1 - s)]
    at_early = [-3 * 0.5, 6 * 0.5]  # the same checkpoint as above, now with b as the label of x
    both = TracIn([early, late], rates=[0.1, 2.0]).ranking([[3.0]])
    np.testing.assert_allclose(both, [0.1 * np.array(at_early) + 2.0 * np.array(at_late)])


def test_nearest_rows(by_hand: Maker) -> None:
    network = by_hand([[0.0], [1.0], [5.0]], [0, 0, 1], [[0.0], [1.0]])
    method = NearestNeighbours(network, k=2)
    np.testing.assert_allclose(method.ranking([[4.0]]), [[-4, -3, -1]])
    rows, weights = method.rank([[4.0]])
    assert rows.tolist() == [[2, 1]]
    assert weights.tolist() == [[0.5, 0.5]]
    np.testing.assert_allclose(method.probabilities([[4.0]]), [[0.5, 0.5]])
    np.testing.assert_allclose(method.probabilities([[4.0]], without=np.array([[2, -1]])), [[1.0, 0.0]])
    np.testing.assert_allclose(method.probabilities([[4.0]], only=np.array([[2, -1]])), [[0.0, 1.0]])


def test_votes_that_nobody_takes_over(by_hand: Maker) -> None:
    nearest = NearestNeighbours(by_hand([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]), k=3)
    np.testing.assert_allclose(nearest.probabilities([[0.0]]), [[2 / 3, 1 / 3]])
    np.testing.assert_allclose(nearest.probabilities_less([[0.0]], np.array([[0]])), [[1 / 3 + 1 / 6, 1 / 3 + 1 / 6]])
    np.testing.assert_allclose(nearest.probabilities_less([[0.0]], np.array([[3, -1]])), [[2 / 3, 1 / 3]])


def test_the_heaviest_rows_come_in_order_and_in_blocks() -> None:
    scores = np.random.default_rng(0).normal(size=(600, 7))
    rows, weights = heaviest(lambda values: values, scores, 3)
    np.testing.assert_array_equal(np.take_along_axis(scores, rows, 1), -np.sort(-scores, axis=1)[:, :3])
    assert (weights >= 0).all()
    assert heaviest(lambda values: values, np.array([[-3.0, -1.0, -2.0]]), 2)[1].tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("method", [NearestNeighbours, RepresenterPoints, InfluenceFunctions, lambda n: TracIn([n])])
def test_on_digits_the_rows_are_of_the_class_and_come_from_what_was_learned(
    method: Callable[[Network], ExampleMethod], plain_digits: PlainClassifier, digit_network: Network, digit_rows: Any
) -> None:
    (X, y), (X_test, y_test) = digit_rows
    made = method(digit_network)
    assert isinstance(made, ExampleMethod)
    assert made.ranking(X_test[:3]).shape == (3, 300)
    np.testing.assert_array_equal(made.rank(X_test[:3])[0][:, 0], made.ranking(X_test[:3]).argmax(1))
    nothing = method(Network.of(shuffled(plain_digits), X, y))
    quality = prototype_quality(made, X_test, y_test, train=TrainingSet(y), randomised=nothing)
    assert quality.same_class > 0.6
    assert quality.learned > 0.5
    if isinstance(made, (NearestNeighbours, RepresenterPoints)):
        assert quality.deletion > 0
        assert quality.insertion > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda network: RepresenterPoints(network, penalty=0.0), "penalty must be above 0"),
        (lambda network: InfluenceFunctions(network, damping=-1.0), "damping must be above 0"),
        (lambda network: TracIn([]), "at least one network"),
        (lambda network: TracIn([network], rates=[1.0, 2.0]), "there are 1 and 2 rates"),
    ],
)
def test_what_cannot_be_made(make: Callable[[Network], Any], message: str, layer: Network) -> None:
    with pytest.raises(UserError, match=message):
        make(layer)
