"""Confidence methods: each on a case worked out by hand, and all on digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from protoattend import PlainClassifier
from protoattend.baselines import (
    ConfidenceMethod,
    DeepEnsemble,
    DeepKnn,
    MaxProbability,
    MonteCarloDropout,
    NearestNeighbours,
    Network,
    TrustScore,
)
from protoattend.baselines.dropout import values_in_draw
from protoattend.errors import UserError
from protoattend.uncertainty.selective import risk_coverage

Maker = Callable[..., Network]


def test_max_probability(by_hand: Maker) -> None:
    method = MaxProbability(by_hand(np.eye(2), [0, 1]))
    found = method.confidence([[0.0, np.log(3.0)], [np.log(9.0), 0.0]])
    np.testing.assert_allclose(found, [0.75, 0.9])
    assert method.predict([[0.0, 1.0], [1.0, 0.0]]).tolist() == ["b", "a"]


def test_trust_is_the_ratio_of_two_distances(by_hand: Maker) -> None:
    #    class a: 0, 1, 2 and far off 10; class b: 6, 7.   Logits (1, v): b above 1.
    network = by_hand([[1.0, 0], [1, 1], [1, 2], [1, 10], [1, 6], [1, 7]], [0, 0, 0, 0, 1, 1])
    X = [[1.0, 4.5]]  # predicted b, at 1.5; a at 2.5
    np.testing.assert_allclose(TrustScore(network).confidence(X), [2.5 / 1.5])
    beyond = [[1.0, 9.0]]  # predicted b, at 2; the outlier of a is at 1
    np.testing.assert_allclose(TrustScore(network).confidence(beyond), [1 / 2])
    # radii that hold 2 rows, themselves included: 1, 1, 1, 8 of a and 1, 1 of b; without a fourth of a, 10 is left out
    np.testing.assert_allclose(TrustScore(network, k=2, alpha=0.25).confidence(beyond), [7 / 2])


def test_trust_on_a_training_row_is_finite(by_hand: Maker) -> None:
    assert np.isfinite(TrustScore(by_hand([[1.0, 0.0], [0.0, 1.0]], [0, 1])).confidence([[1.0, 0.0]])).all()


def test_deep_knn_counts_disagreeing_neighbours_over_layers(by_hand: Maker) -> None:
    train = [[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [0.0, 1.0], [0.1, 1.0]]
    network = by_hand(train, [0, 0, 1, 1, 1], n_layers=2)
    calibration = [[1.0, 0.05], [0.05, 1.0], [1.0, 1.2], [1.0, 0.2]]
    deep = DeepKnn(network, calibration, ["a", "b", "b", "b"], k=2)
    # The two nearest by angle: a, a; b, b; b (row 4), b (row 2); b, a.
    np.testing.assert_array_equal(deep.nonconformity(calibration), [[0, 4], [4, 0], [4, 0], [2, 2]])
    # With their own labels: 0, 0, 0, 2. p(alpha) = share of these that are at least alpha.
    np.testing.assert_allclose(deep.p_values([[9.0, 0.0], [1.0, 0.19]]), [[1.0, 0.0], [0.25, 0.25]])
    np.testing.assert_allclose(deep.credibility([[9.0, 0.0], [1.0, 0.19]]), [1.0, 0.25])
    np.testing.assert_allclose(deep.confidence([[9.0, 0.0], [1.0, 0.19]]), [1.0, 0.75])
    assert deep.predict([[9.0, 0.0], [0.0, 3.0]]).tolist() == ["a", "b"]


def test_k_nearest_vote(by_hand: Maker) -> None:
    network = by_hand([[0.0, 0], [0, 1], [0, 3], [0, 9]], [0, 1, 1, 0])
    method = NearestNeighbours(network, k=3)
    assert method.predict([[0.0, 0.0]]).tolist() == ["b"]
    np.testing.assert_allclose(method.confidence([[0.0, 0.0]]), [2 / 3])


def test_dropout_is_the_mean_over_masks(by_hand: Maker) -> None:
    """With one value and rate 1/2 a pass sees 0 or twice the value: the mean of two probabilities by their counts."""
    method = MonteCarloDropout(lambda X, draw: np.asarray(X), np.array([[1.0], [0.0]]), np.array(["a", "b"]), 0.5, 2000)
    expected = (0.5 + 1 / (1 + np.exp(-2 * 1.5))) / 2
    np.testing.assert_allclose(method.probabilities([[1.5]])[:, 0], [expected], atol=0.02)
    undropped = MonteCarloDropout(method.read, method.weight, method.classes, rate=0.0, n_draws=3)
    np.testing.assert_allclose(undropped.confidence([[1.5]]), [1 / (1 + np.exp(-1.5))])


def test_the_encoders_own_dropout_is_on_and_off_again(wine: Any) -> None:
    X, y = wine
    classifier = PlainClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)  # "mlp" has dropout
    before = classifier.predict_proba(X)
    one, other = (values_in_draw(classifier, X, draw) for draw in (0, 1))
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_array_equal(one, values_in_draw(classifier, X, 0))
    np.testing.assert_array_equal(classifier.predict_proba(X), before)


@dataclass
class Says:
    """A member whose probabilities are given."""

    probabilities: list[list[float]]
    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.array(self.probabilities)


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    names = np.array(["a", "b"])
    ensemble = DeepEnsemble([Says([[1.0, 0.0], [0.4, 0.6]], names), Says([[0.5, 0.5], [0.2, 0.8]], names)])
    np.testing.assert_allclose(ensemble.confidence(None), [0.75, 0.7])
    assert ensemble.predict(None).tolist() == ["a", "b"]


def test_members_differ_and_the_first_is_the_one_given(wine: Any) -> None:
    X, y = wine
    first = PlainClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
    ensemble = DeepEnsemble.around(first, X, y, n_members=3)
    found = [member.predict_proba(X) for member in ensemble.members]
    np.testing.assert_array_equal(found[0], first.predict_proba(X))
    assert min(np.abs(found[i] - found[j]).max() for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-3


def test_every_method_ranks_errors_on_digits(
    plain_digits: PlainClassifier, digit_network: Network, digit_rows: Any
) -> None:
    """Right predictions come first: AURC is well below the error rate, which a random order would give."""
    X, y = digit_rows[1]
    methods: dict[str, ConfidenceMethod] = {
        "msp": MaxProbability(digit_network),
        "dropout": MonteCarloDropout.of(plain_digits, rate=0.2, n_draws=8),
        "ensemble": DeepEnsemble([plain_digits]),
        "dknn": DeepKnn(digit_network, X[:30], y[:30], k=20),
        "trust": TrustScore(digit_network, alpha=0.1),
        "knn": NearestNeighbours(digit_network),
    }
    for name, method in methods.items():
        assert isinstance(method, ConfidenceMethod)
        correct = method.predict(X[30:]) == y[30:]
        # With so few calibration rows no second label has a p-value above 0, and only credibility tells inputs apart.
        confidence = (method.credibility if isinstance(method, DeepKnn) else method.confidence)(X[30:])
        assert confidence.shape == (70,)
        assert 0.7 < correct.mean() < 1, name
        assert risk_coverage(confidence, correct).aurc < 0.7 * (1 - correct.mean()), name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda network: TrustScore(network, alpha=1.0), "alpha must be .* below 1, but got alpha=1.0"),
        (lambda network: TrustScore(network, k=0), "k must be at least 1"),
        (lambda network: DeepKnn(network, [], [], k=0), "k must be at least 1"),
        (lambda network: DeepKnn(network, [[1.0, 0.0]], ["a", "b"]).credibility([[1.0, 0.0]]), "1 and 2 labels"),
        (lambda network: NearestNeighbours(network, k=0), "k must be at least 1"),
        (lambda network: DeepEnsemble([]), "at least one member"),
        (lambda network: DeepEnsemble([Says([], np.array([0, 1])), Says([], np.array([0, 2]))]), "same classes"),
        (lambda network: MonteCarloDropout(network.read, network.weight, network.classes, rate=1.0), "below 1"),
        (lambda network: MonteCarloDropout(network.read, network.weight, network.classes, n_draws=0), "n_draws"),
    ],
)
def test_what_cannot_be_made(make: Callable[[Network], Any], message: str, by_hand: Maker) -> None:
    with pytest.raises(UserError, match=message):
        make(by_hand([[1.0, 0.0], [0.0, 1.0]], [0, 1]))
