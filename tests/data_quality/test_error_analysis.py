"""Wrong decisions, contrasts and diverse prototypes, against dense attention in plain numpy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import ProtoAttendClassifier
from protoattend.core.attention import attention_scores
from protoattend.core.sparsemax import sparsemax
from protoattend.errors import UserError
from protoattend.explain.contrast import diverse, needed_weight


@pytest.fixture(scope="module")
def noisy_wine(wine: Any) -> tuple[ProtoAttendClassifier, np.ndarray, np.ndarray]:
    """A classifier that errs: a third of its candidates got wrong labels, and values that argue for them."""
    X, y = wine
    classifier = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X[::2], y[::2])
    classifier.database_.relabel(classifier.database_.indices[::3], (y[::2][::3] + 1) % 3)
    return classifier, X[1::2], y[1::2]


def dense(classifier: ProtoAttendClassifier, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights `(n, D)` and class scores `(D, C)`."""
    database = classifier.database_
    model = classifier.model_
    with torch.no_grad():
        queries = model.encode(classifier.inputs_.tensor(classifier.inputs_.source(X))).queries
    scores = attention_scores(queries, database.rows.keys, database.temperature)
    return sparsemax(scores, exclude=~database.deciding).numpy(), database.class_scores.numpy()


def test_mistakes_against_dense_attention(noisy_wine: Any) -> None:
    classifier, X, y = noisy_wine
    weights, scores = dense(classifier, X)
    logits = weights @ scores
    predicted = logits.argmax(1)
    wrong = predicted != y
    assert wrong.sum() > 3, "the fixture must err"
    found = classifier.error_analysis(X, y, top=1000)
    assert found.n_wrong == wrong.sum()
    for true in range(3):
        for taken in range(3):
            assert found.counts[true, taken] == np.sum((y == true) & (predicted == taken))
    for harmful in found.harmful:
        j = harmful.index  # the database is the training set as it is
        pull = sum(weights[i, j] * (scores[j, predicted[i]] - scores[j, y[i]]) for i in np.flatnonzero(wrong))
        push = 0.0
        for i in np.flatnonzero(~wrong):
            runner_up = np.argsort(logits[i])[-2]
            push += weights[i, j] * (scores[j, y[i]] - scores[j, runner_up])
        assert harmful.pull == pytest.approx(pull, abs=1e-3)
        assert harmful.push == pytest.approx(push, abs=1e-3)
        assert harmful.errors == np.sum(weights[wrong, j] > 0)
    rest = np.delete(np.arange(len(scores)), found.harmful[0].index)
    queries = classifier._encode(X).queries
    without = (
        sparsemax(
            attention_scores(queries, classifier.database_.rows.keys[rest], classifier.database_.temperature)
        ).numpy()
        @ scores[rest]
    )
    then = without.argmax(1) == y
    assert found.harmful[0].fixed == np.sum(then & wrong)
    assert found.harmful[0].broken == np.sum(~then & ~wrong)
    for confusion in found.confusions:
        np.testing.assert_array_equal(
            confusion.rows, np.flatnonzero((y == confusion.label) & (predicted == confusion.taken_for))
        )
        assert all(pull > 0 for _, pull in confusion.culprits)
    for wanted in found.wanted:
        rows = np.flatnonzero(wrong & (y == wanted.label))
        mass = weights @ (classifier.database_.labels == wanted.label)
        assert wanted.errors == len(rows)
        assert wanted.mass == pytest.approx(mass[rows].mean(), abs=1e-4)
        assert mass[wanted.rows[0]] == pytest.approx(mass[rows].min(), abs=1e-5)
    assert len(found.to_frame()) == len(found.harmful)


def test_wrong_candidates_are_the_harmful_ones(noisy_wine: Any) -> None:
    classifier, X, y = noisy_wine
    worst = [harmful.index for harmful in classifier.error_analysis(X, y).harmful[:5]]
    assert set(worst) & set(range(0, len(classifier.database_), 3))


def test_nothing_wrong(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X = wine[0]
    found = wine_classifier.error_analysis(X, wine_classifier.predict(X))
    assert (found.n_wrong, found.confusions, found.harmful, found.wanted) == (0, (), (), ())
    assert found.plot().get_title(loc="left") == f"0 wrong of {len(X)}"
    with pytest.raises(UserError, match="one length"):
        wine_classifier.error_analysis(X, [0])


def test_contrast_turns_the_decision_at_the_needed_weight(noisy_wine: Any) -> None:
    classifier, X, _ = noisy_wine
    weights, scores = dense(classifier, X)
    tested = 0
    for i, contrast in enumerate(classifier.contrast(X, 1)):
        predicted = int(np.argmax(weights[i] @ scores))
        assert contrast.behind == pytest.approx(
            float((weights[i] @ scores)[predicted] - (weights[i] @ scores)[1]), abs=1e-4
        )
        for rival in contrast.rivals:
            j = rival.prototype.index
            assert rival.prototype.label == 1
            assert rival.prototype.weight == pytest.approx(weights[i, j], abs=1e-5)
            if np.isfinite(rival.needed) and rival.needed > 0 and weights[i, j] < 0.9:
                others = np.delete(weights[i], j) / np.delete(weights[i], j).sum()
                turned = (1 - rival.needed) * others @ np.delete(scores, j, axis=0) + rival.needed * scores[j]
                assert turned[predicted] == pytest.approx(turned[1], abs=1e-3)
                tested += 1
    assert tested > 10
    best = classifier.contrast(X[:1], 1, top=1)[0].rivals[0].prototype.index
    queries, rows = classifier._encode(X[:1]).queries, classifier.database_.rows
    of_label = np.flatnonzero((classifier.database_.labels == 1) & classifier.database_.deciding.numpy())
    assert best == of_label[int((queries @ rows.keys[of_label].T).argmax())]
    assert "not" in repr(classifier.contrast(X[:1], 1)[0])
    assert classifier.contrast(X[:1], 1)[0].plot() is not None
    with pytest.raises(UserError, match="not among"):
        classifier.contrast(X, 99)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_contrast_of_rounded_keys(noisy_wine: Any, dtype: str) -> None:
    classifier, X, _ = noisy_wine
    rounded = copy.copy(classifier)
    rounded.database_ = classifier.database_.quantize_keys(dtype)
    of_label = np.flatnonzero((classifier.database_.labels == 1) & classifier.database_.deciding.numpy())
    for query, contrast in zip(classifier._encode(X).queries, rounded.contrast(X, 1, top=3), strict=True):
        scores = rounded.database_.scores(query).numpy()
        best = np.sort(scores[of_label])[::-1][:3]
        np.testing.assert_allclose([rival.score_gap for rival in contrast.rivals], scores.max() - best, atol=1e-4)
        assert scores[[rival.prototype.index for rival in contrast.rivals]].tolist() == best.tolist()


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_diversity_of_rounded_keys_is_in_the_scale_of_values(noisy_wine: Any, dtype: str) -> None:
    classifier, X, _ = noisy_wine
    rounded = copy.copy(classifier)
    rounded.database_ = classifier.database_.quantize_keys(dtype)
    np.testing.assert_allclose(rounded.database_.keys, classifier.database_.rows.keys, atol=0.02)
    features = torch.cat([rounded.database_.keys, rounded.database_.rows.values], dim=1)
    found = rounded.database_.attend(classifier._encode(X).queries).per_query()
    for explanation, (positions, weights) in zip(rounded.explain_diverse(X, top=3), found, strict=True):
        chosen = positions[diverse(weights, features[positions], 3)]
        assert [prototype.index for prototype in explanation.prototypes] == chosen.tolist()


def test_weight_that_is_needed() -> None:
    assert needed_weight(0.0, 1.0, 0.3) == pytest.approx(0.3)
    assert needed_weight(1.0, -1.0, 0.0) == np.inf
    assert needed_weight(3.0, 1.0, 0.0) == pytest.approx(0.75)


def test_diverse_prototypes_are_no_copies() -> None:
    weights = torch.tensor([0.3, 0.29, 0.28, 0.1, 0.03])
    features = torch.tensor([[0.0, 0], [0, 0], [0, 1e-3], [1, 0], [0, 2]])
    assert diverse(weights, features, 3).tolist() == [0, 3, 4]
    assert sorted(diverse(weights, features, 9).tolist()) == [0, 1, 2, 3, 4]
    assert diverse(weights, torch.zeros(5, 2), 3).tolist() == [0, 1, 2]


def test_diverse_explanations(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    for plain, other in zip(
        classifier.explain(X[:10], top=1000), classifier.explain_diverse(X[:10], top=4), strict=True
    ):
        by_index = {p.index: p.weight for p in plain.prototypes}
        shown = [p.index for p in other.prototypes]
        assert len(set(shown)) == len(shown) == min(4, len(by_index))
        assert by_index[shown[0]] == pytest.approx(max(by_index.values()))
        assert all(p.weight == pytest.approx(by_index[p.index]) for p in other.prototypes)
        assert other.prediction == plain.prediction
