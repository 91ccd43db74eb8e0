"""A network's layers are those of the classifier, whatever its kind of input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from protoattend import PlainClassifier, ProtoAttendClassifier, Recipe, TestTimeAugmentation
from protoattend.baselines import Network
from protoattend.baselines.network import shuffled
from protoattend.errors import UserError


def test_the_last_layer_decides_as_the_classifier_does(
    plain_digits: PlainClassifier, digit_network: Network, digit_rows: Any
) -> None:
    (X, _), (X_test, _) = digit_rows
    np.testing.assert_allclose(digit_network.probabilities(X_test), plain_digits.predict_proba(X_test), atol=1e-6)
    np.testing.assert_array_equal(digit_network.predict(X_test), plain_digits.predict(X_test))
    assert [layer.shape[0] for layer in digit_network.layers] == [len(X)] * 5


def test_layers_are_spread_over_the_body_and_end_with_it(digit_network: Network, digit_rows: Any) -> None:
    assert digit_network.read.keywords["names"] == ("body.patches.1", "body.stages.0", "body.stages.1")  # type: ignore[attr-defined]
    *_, stage, features, _ = digit_network.read(digit_rows[1][0][:5])
    pooled = stage.reshape(5, 128, -1).max(2)  # the encoder ends in global max pooling and layer normalisation
    expected = (pooled - pooled.mean(1, keepdims=True)) / np.sqrt(pooled.var(1, keepdims=True) + 1e-5)
    assert np.corrcoef(features.ravel(), expected.ravel())[0, 1] > 0.999  # the norm has learned a scale and shift


@pytest.mark.parametrize("encoder", ["n-grams", "char-cnn"])
def test_texts(texts: Any, encoder: str) -> None:
    X, y = texts
    classifier = PlainClassifier(encoder=encoder, max_epochs=1, random_state=0, verbose=0).fit(X, y)
    network = Network.of(classifier, X, y)
    np.testing.assert_allclose(network.probabilities(X[:9]), classifier.predict_proba(X[:9]), atol=1e-6)


def test_the_lstm_of_the_paper(wine: Any) -> None:
    """Of its modules one gives a tuple and another is called again and again: what has a row for each input is read."""
    X, y = wine
    classifier = PlainClassifier(encoder="lstm", max_epochs=1, random_state=0, verbose=0).fit(X, y)
    assert [layer.shape for layer in Network.of(classifier, X, y).layers] == [(178, 64)] * 3


def test_test_time_augmentation_averages_layers(digit_rows: Any) -> None:
    X, y = digit_rows[0]
    recipe = Recipe(test_time_augmentation=TestTimeAugmentation(mirror=True))
    classifier = PlainClassifier(max_epochs=1, recipe=recipe, random_state=0, verbose=0).fit(X, y)
    network = Network.of(classifier, X[:20], y[:20], inside=["body.stages.0"])
    np.testing.assert_allclose(network.read(X[:5])[0], network.read(X[:5, :, ::-1])[0], atol=1e-4)
    np.testing.assert_allclose(network.probabilities(X[:5]), classifier.predict_proba(X[:5]), atol=1e-6)


def test_our_own_classifier_is_read_by_its_own_values(digit_classifier: ProtoAttendClassifier, few_digits: Any) -> None:
    X, y = few_digits
    network = Network.of(digit_classifier, X, y)
    with torch.no_grad():
        expected = digit_classifier.model_.self_logits(
            digit_classifier.inputs_.tensor(digit_classifier.inputs_.source(X))
        )
    np.testing.assert_allclose(network.logits(X), expected.numpy(), atol=1e-5)


def test_what_cannot_be_read(plain_digits: PlainClassifier, digit_rows: Any) -> None:
    X, y = digit_rows[0]
    with pytest.raises(UserError, match="300 rows and y has 299"):
        Network.of(plain_digits, X, y[:-1])
    with pytest.raises(UserError, match=r"did you mean 'body\.stages\.1'"):
        Network.of(plain_digits, X, y, inside=["body.stages.7"])
    with pytest.raises(UserError, match="at least one row"):
        Network.of(plain_digits, X[:5], y[:5]).read(X[:0])


def test_a_shuffled_classifier_has_learned_nothing(plain_digits: PlainClassifier, digit_rows: Any) -> None:
    X, y = digit_rows[1]
    assert plain_digits.score(X, y) > 0.7 > 0.4 > shuffled(plain_digits).score(X, y)
    assert plain_digits.score(X, y) > 0.7  # which itself is unchanged
