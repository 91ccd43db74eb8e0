"""A condensed database keeps what decisions rest on, of every class, and says what it loses."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import ProtoAttendClassifier
from protoattend.core.attention import relational_attention
from protoattend.database import condense
from protoattend.database.condense import accuracy_on_rows, attention_received, most_attended
from protoattend.errors import UserError


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_attention_received_is_that_of_dense_attention(
    wine_classifier: ProtoAttendClassifier, normalize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condense, "BLOCK", 50)
    database = copy.deepcopy(wine_classifier).database_
    database.model.normalize = normalize
    rows = database.rows
    left_out = torch.eye(len(rows), dtype=torch.bool)
    if normalize == "softmax":
        database.readings = None  # as fit leaves it: all candidates decide
    else:
        left_out |= rows.class_scores.argmax(1) != rows.labels  # argue for another label than they carry
    weights = relational_attention(
        rows.queries, rows.keys, normalize=normalize, temperature=database.temperature, exclude=left_out
    )
    np.testing.assert_allclose(attention_received(database), weights.sum(0), atol=1e-4)
    assert attention_received(database).sum() == pytest.approx(len(rows), rel=1e-5)


def test_rows_that_count_twice_give_twice_the_attention(wine: Any) -> None:
    X, y = wine
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    database = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y, sample_weight=weights).database_
    assert attention_received(database).sum() == pytest.approx(weights.sum(), rel=1e-5)


def test_of_many_rows_an_even_spread_is_asked(
    wine_classifier: ProtoAttendClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condense, "ASKED", 10)
    assert attention_received(wine_classifier.database_).sum() == pytest.approx(10, rel=1e-5)


def test_each_class_keeps_its_most_attended() -> None:
    rng = np.random.default_rng(0)
    labels, received = rng.choice(4, 200, p=[0.6, 0.3, 0.09, 0.01]), rng.random(200)
    for n in (4, 5, 17, 100, 199, 200):
        kept = most_attended(received, labels, n)
        assert len(set(kept.tolist())) == n
        assert (np.diff(kept) > 0).all()
        for c in range(4):
            inside, outside = (
                np.intersect1d(kept, np.flatnonzero(labels == c)),
                np.setdiff1d(np.flatnonzero(labels == c), kept),
            )
            assert abs(len(inside) - n * (labels == c).mean()) < 2
            assert len(inside) >= 1
            assert len(outside) == 0 or received[inside].min() >= received[outside].max()


def test_a_condensed_digit_database_decides_nearly_as_the_whole(
    digit_classifier: ProtoAttendClassifier, few_digits: Any
) -> None:
    X, y = few_digits
    whole = digit_classifier.database_
    small = whole.condense(100)
    assert len(small) == 100
    assert len(whole) == len(X)
    assert set(small.indices) <= set(whole.indices)
    np.testing.assert_array_equal(small.labels, y[small.indices])
    classifier = copy.copy(digit_classifier)
    classifier.database_ = small
    assert classifier.score(X, y) > digit_classifier.score(X, y) - 0.05
    prototype = classifier.explain(X[:1])[0].prototypes[0]
    np.testing.assert_array_equal(prototype.preview, whole.preview(prototype.index))
    assert small.add(X[:1], y[:1]).tolist() == [len(X)]


def test_the_stated_loss_holds(digit_classifier: ProtoAttendClassifier) -> None:
    whole = digit_classifier.database_
    exact = accuracy_on_rows(whole, whole)
    sizes = []
    for loss in (0.0, 0.02, 0.2):
        small = whole.condense_within(loss)
        assert accuracy_on_rows(small, whole) >= exact - loss
        sizes.append(len(small))
    assert sizes[0] >= sizes[1] >= sizes[2]
    assert sizes[2] < len(whole)


def test_accuracy_leaves_each_row_out_of_its_own_decision(wine_classifier: ProtoAttendClassifier) -> None:
    whole = wine_classifier.database_
    explained = wine_classifier.explain(None)
    right = np.mean([e.prediction == e.label for e in explained])
    assert accuracy_on_rows(whole, whole) == pytest.approx(right)
    part = whole.without(whole.indices[::2])
    by_hand = [
        part.without([i] if i in part.indices else []).decide(query[None]).logits.argmax() == label
        for i, query, label in zip(whole.indices, whole.rows.queries, whole.rows.labels, strict=True)
    ]
    assert accuracy_on_rows(part, whole) == pytest.approx(np.mean(by_hand))


@pytest.mark.parametrize("n", [0, 2, 179])
def test_impossible_sizes(wine_classifier: ProtoAttendClassifier, n: int) -> None:
    with pytest.raises(UserError, match=rf"from 3, .* to 178, .* got {n}"):
        wine_classifier.database_.condense(n)


@pytest.mark.parametrize("loss", [-0.1, 1.0, float("nan")])
def test_impossible_losses(wine_classifier: ProtoAttendClassifier, loss: float) -> None:
    with pytest.raises(UserError, match="loss must be"):
        wine_classifier.database_.condense_within(loss)
