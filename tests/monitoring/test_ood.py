"""Out-of-distribution scores and their metrics, against naive references and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.monitoring import ood
from protoattend.monitoring.ood import METHODS
from protoattend.monitoring.ood_curves import ConfidenceRatios, OodCurve
from protoattend.monitoring.ood_detector import OodDetector, TailScore, encoder_features


@pytest.mark.parametrize("seed", range(5))
def test_metrics_against_scikit_learn_and_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inside, outside = np.round(rng.normal(size=60), 1), np.round(rng.normal(1, 2, size=40), 1)  # many ties
    curve = OodCurve.from_scores(inside, outside)
    truth, scores = np.repeat([0, 1], [60, 40]), np.concatenate([inside, outside])
    assert curve.auroc == pytest.approx(roc_auc_score(truth, scores))
    assert curve.aupr == pytest.approx(average_precision_score(truth, scores))
    wins = [1.0 if s > u else 0.5 if s == u else 0.0 for s in outside for u in inside]
    assert curve.auroc == pytest.approx(np.mean(wins))
    lowest = min(t for t in inside if (inside <= t).mean() >= 0.95)
    assert curve.fpr95 == pytest.approx((outside <= lowest).mean())


def test_scores_that_tell_nothing_and_everything() -> None:
    nothing = OodCurve.from_scores(np.ones(5), np.ones(3))
    assert (nothing.auroc, nothing.fpr95) == (0.5, 1.0)
    assert nothing.aupr == pytest.approx(3 / 8)
    everything = OodCurve.from_scores([0.0], [1.0])
    assert (everything.auroc, everything.aupr, everything.fpr95) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("inside", "outside"), [([], [1.0]), ([1.0], []), ([np.nan], [1.0]), ([1.0], [np.inf]), ([[1.0]], [1.0])]
)
def test_bad_scores(inside: Any, outside: Any) -> None:
    with pytest.raises(UserError, match="scores must be"):
        OodCurve.from_scores(inside, outside)


def test_ratios_above_confidence() -> None:
    ratios = ConfidenceRatios.from_confidences({"test": [0.2, 1.0, 0.7, 0.7], "noise": [0.0]})
    for level, share in zip(ratios.levels, ratios.above["test"], strict=True):
        assert share == np.mean(np.array([0.2, 1.0, 0.7, 0.7]) >= level - 1e-9)
    assert ratios.above["noise"][0] == 1.0
    assert ratios.above["noise"][1] == 0.0
    with pytest.raises(UserError, match="at least one set"):
        ConfidenceRatios.from_confidences({})


def test_energy_and_divergence_by_hand() -> None:
    logits = np.array([[0.0, 0.0], [1.0, -1.0], [800.0, 0.0]])
    np.testing.assert_allclose(ood.energy(logits), [-np.log(2), -np.log(np.e + 1 / np.e), -800])
    p, q = np.array([0.9, 0.1]), np.array([0.3, 0.7])
    m = (p + q) / 2
    by_hand = (p @ np.log(p / m) + q @ np.log(q / m)) / 2
    assert ood.value_disagreement(np.log([p]), np.log([q]) + 5)[0] == pytest.approx(by_hand)
    assert ood.value_disagreement(logits, logits).tolist() == [0, 0, 0]


def test_neighbour_distance_against_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    reference, features = torch.randn(50, 3, generator=generator), torch.randn(300, 3, generator=generator)
    for k in (1, 4, 50, 99):
        nearest = NearestNeighbors(n_neighbors=min(k, 50)).fit(reference).kneighbors(features)[0][:, -1]
        np.testing.assert_allclose(ood.neighbour_distance(features, reference, k), nearest, rtol=1e-5)
    with pytest.raises(UserError, match="at least one reference"):
        ood.neighbour_distance(features, reference[:0])


def test_tail_score_rises_with_the_score_and_has_a_tail() -> None:
    reference = np.random.default_rng(0).exponential(size=2000)
    tail = TailScore.fit(reference)
    at = tail(np.linspace(-1, 30, 500))
    assert (np.diff(at) >= -1e-9).all()
    assert at[0] == pytest.approx(0, abs=1e-3)
    assert tail(np.array([20.0]))[0] == pytest.approx(20, rel=0.15)  # -log P(exponential > 20) = 20
    constant = TailScore.fit(np.ones(9))
    assert constant(np.array([0.0, 1.0, 2.0])) == pytest.approx([0, 0, np.log(10)])


def test_every_method_on_every_kind(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    for method in (*METHODS, "combined"):
        scores = classifier.ood_score(X[:20], method)
        assert scores.shape == (20,)
        assert np.isfinite(scores).all()
    np.testing.assert_allclose(classifier.ood_score(X[:20], "disagreement"), 1 - classifier.confidence(X[:20]))
    np.testing.assert_array_equal(classifier.ood_score(X[:20]), classifier.ood_score(X[:20], "combined"))
    with pytest.raises(UserError, match="did you mean 'energy'"):
        classifier.ood_score(X[:20], "enrgy")


@pytest.mark.parametrize("dtype", [None, "float16", "int8"])
def test_key_neighbours_against_scikit_learn(wine_classifier: ProtoAttendClassifier, wine: Any, dtype: Any) -> None:
    database = wine_classifier.database_ if dtype is None else wine_classifier.database_.quantize_keys(dtype)
    keys = wine_classifier._encode(wine[0]).keys
    tenth = NearestNeighbors(n_neighbors=10).fit(keys).kneighbors(keys)[0][:, -1]
    found = ood.ood_score(database, wine[0], "key-neighbours")
    np.testing.assert_allclose(found, tenth, atol=1e-4 if dtype is None else 0.1)
    own = ood.Seen(database, wine_classifier._encode(wine[0]), own=torch.arange(len(database)))
    eleventh = NearestNeighbors(n_neighbors=11).fit(keys).kneighbors(keys)[0][:, -1]
    np.testing.assert_allclose(METHODS["key-neighbours"](own), eleventh, atol=1e-4 if dtype is None else 0.1)


def test_distances_part_by_part_are_those_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    features, reference = torch.randn(300, 5, generator=generator), torch.randn(100, 5, generator=generator)
    expected = NearestNeighbors(n_neighbors=10).fit(reference).kneighbors(features)[0][:, -1]
    monkeypatch.setattr(ood, "REFERENCE_ROWS", 7)  # fewer than the neighbours asked for
    np.testing.assert_allclose(ood.neighbour_distance(features, reference, 10), expected, atol=1e-6)


def test_noise_is_found_by_the_combination(digit_classifier: ProtoAttendClassifier, few_digits: Any) -> None:
    from sklearn.datasets import load_digits

    unseen = load_digits().images[400:1000]
    noise = np.random.default_rng(0).uniform(0, 16, (200, 8, 8))
    detector = digit_classifier.ood_detector(unseen[:300])
    curve = OodCurve.from_scores(detector.score(unseen[300:]), detector.score(noise))
    assert curve.auroc > 0.99
    assert np.mean(detector.p_value(unseen[300:]) <= 0.1) < 0.2
    assert np.mean(detector.p_value(noise) <= 0.1) > 0.9
    parts = detector.parts(noise)
    np.testing.assert_allclose(sum(parts.values()), detector.score(noise))
    assert set(parts) == {"features", "classes", "inputs"}


def test_distances_by_naive_references(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    database = wine_classifier.database_
    source = database.inputs.source(wine[0])
    detector = OodDetector.fit(database, wine[0])
    found = detector.anchors.distances(source)
    features = encoder_features(database.model, database.inputs.tensor(source)).numpy()
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    third = NearestNeighbors(n_neighbors=3).fit(unit).kneighbors(unit)[0][:, -1]
    np.testing.assert_allclose(found["features"], third, atol=1e-6)
    third = NearestNeighbors(n_neighbors=3).fit(source).kneighbors(source)[0][:, -1]
    np.testing.assert_allclose(found["inputs"], third, atol=1e-5)
    labels = database.rows.labels.numpy()
    means = np.stack([features[labels == c].mean(0) for c in range(3)])
    within = (features - means[labels]).T @ (features - means[labels]) / len(features)
    shrunk = 0.9 * within + 0.1 * np.trace(within) / len(within) * np.eye(len(within))
    apart = features[:, None] - means[None]
    mahalanobis = np.sqrt(np.einsum("ncd,de,nce->nc", apart, np.linalg.inv(shrunk), apart).min(1))
    np.testing.assert_allclose(found["classes"], mahalanobis, rtol=1e-6)


def test_the_database_as_reference_is_never_its_own_neighbour(wine_classifier: ProtoAttendClassifier) -> None:
    detector = OodDetector.fit_on_database(wine_classifier.database_)
    assert len(detector.reference) + len(detector.anchors.features) == len(wine_classifier.database_)
    assert detector.tails["inputs"].reference.min() > 0


def test_texts_have_no_input_distances(text_classifier: ProtoAttendClassifier, texts: Any) -> None:
    assert set(text_classifier.ood_detector(texts[0]).parts(texts[0][:3])) == {"features", "classes"}


def test_plots(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    ax = OodCurve.from_scores(rng.normal(size=50), rng.normal(1, 1, 50), name="energy").plot()
    same = OodCurve.from_scores(rng.normal(size=50), rng.normal(2, 1, 50), name="combined").plot(ax)
    assert same is ax
    assert len(ax.get_legend().get_texts()) == 2
    ax.figure.savefig(tmp_path / "roc.png")
    ratios = ConfidenceRatios.from_confidences({"test": rng.uniform(size=9), "noise": rng.uniform(size=9) / 2})
    assert len(ratios.plot().lines) == 2


@pytest.mark.parametrize("column", [0, 1])
def test_one_number_far_out_is_out_of_distribution(column: int) -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "c": rng.choice(list("xyz"), 300)})
    y = (table["a"] + (table["c"] == "x") > 0).to_numpy()
    clf = ProtoAttendClassifier(max_epochs=4, random_state=0, verbose=0).fit(table[:200], y[:200])
    usual, far = table[200:], table[200:].copy()
    far.iloc[:, column] += 8.0
    assert clf.ood_curve(usual, far).auroc > 0.99


def test_the_detector_is_learned_once_until_the_database_changes() -> None:
    X, y = load_iris(return_X_y=True)
    clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
    clf.ood_score(X[:2])
    known = clf._detector[1]
    clf.ood_score(X[:2])
    assert clf._detector[1] is known
    clf.database_.remove([0])
    clf.ood_score(X[:2])
    assert clf._detector[1] is not known
