"""Prototype quality on rankings whose quality is known, and of a database against dense attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import NearestNeighbors

from protoattend import ProtoAttendClassifier
from protoattend.data.tables import TableInputs
from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError
from protoattend.explain import quality
from protoattend.explain.quality import TrainingSet, prototype_quality
from protoattend.explain.ranking import DatabaseRanker, database_quality, small_change


@dataclass(frozen=True)
class Neighbours:
    """A method of somebody else: the five nearest training samples, weighing the same."""

    train: np.ndarray

    def rank(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = NearestNeighbors(n_neighbors=5).fit(self.train).kneighbors(X)[1]
        return rows, np.ones(rows.shape)


def test_any_method_that_ranks(wine: Any) -> None:
    X, y = wine
    X = (X - X.mean(0)) / X.std(0)
    train = TrainingSet(y[::2], features=X[::2])
    report = prototype_quality(Neighbours(X[::2]), X[1::2], y[1::2], train=train, perturb=quality.small_noise)
    rows = Neighbours(X[::2]).rank(X[1::2])[0]
    assert report.same_class == pytest.approx((y[::2][rows] == y[1::2][:, None]).mean())
    assert report.used == len(np.unique(rows)) / len(X[::2])
    assert 0.5 < report.stability < 1
    assert 0 < report.diversity < 1, "nearest neighbours are closer to one another than random ones"
    unknown = [report.deletion, report.insertion, report.comprehensiveness, report.learned, report.same_subclass]
    assert np.isnan(unknown).all()
    with pytest.raises(UserError, match="no curve"):
        report.plot()
    assert "same_class" in str(report)
    assert set(report.to_dict()) >= {"same_class", "diversity"}


def test_overlap_by_dense_vectors() -> None:
    rng = np.random.default_rng(0)
    rankings, vectors = [], []
    for _ in range(2):
        rows = np.stack([rng.permutation(12)[:6] for _ in range(20)])
        weights = rng.dirichlet(np.ones(6), size=20)
        weights[:, -2:] = 0
        full = np.zeros((20, 12))
        np.put_along_axis(full, rows, weights, axis=1)
        rankings.append((rows, weights))
        vectors.append(full)
    assert quality.overlap(*rankings) == pytest.approx(np.minimum(*vectors).sum(1).mean())


def test_diversity_of_copies_and_of_the_class() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3))
    features[:10] = 1.0
    train = TrainingSet(np.zeros(200, dtype=int), features=features)
    weights = np.full((50, 10), 0.1)
    assert quality.diversity(np.tile(np.arange(10), (50, 1)), weights, train) == 0
    random = np.stack([rng.permutation(200)[:10] for _ in range(50)])
    assert quality.diversity(random, weights, train) == pytest.approx(1, abs=0.1)
    assert np.isnan(quality.diversity(random[:, :1], np.ones((50, 1)), train))


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        (np.zeros((2, 3)), np.ones((2, 3)), "rows of the"),
        (np.full((2, 3), 99), np.ones((2, 3)), "rows of the 9 training samples, from 0 to 8, but got 99"),
        (np.full((2, 3), -1), np.ones((2, 3)), "from 0 to 8, but got -1"),
        (np.zeros((2, 3), int), np.zeros((2, 3)), "not all 0"),
        (np.zeros((2, 3), int), np.full((2, 3), np.nan), "finite"),
        (np.zeros((2, 3), int), np.ones((2, 2)), "two arrays"),
    ],
)
def test_bad_rankings(rows: np.ndarray, weights: np.ndarray, message: str) -> None:
    class Bad:
        def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
            return rows, weights

    with pytest.raises(UserError, match=message):
        prototype_quality(Bad(), np.zeros((2, 1)), [0, 1], train=TrainingSet(np.zeros(9, int)))


@pytest.mark.parametrize(
    ("y", "subclasses", "message"),
    [([], None, "y is empty"), ([0], None, "one length"), ([0, 1], [0], "one for each of the 2 inputs")],
)
def test_bad_labels(y: Any, subclasses: Any, message: str) -> None:
    train = TrainingSet(np.zeros(9, int), subclasses=np.zeros(9, int))
    with pytest.raises(UserError, match=message):
        prototype_quality(Neighbours(np.eye(9)), np.eye(9)[:2], y, train=train, subclasses=subclasses)


def test_deciding_without_and_by_some_rows(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X = wine[0][:40]
    ranker = DatabaseRanker(wine_classifier.database_)
    np.testing.assert_allclose(ranker.probabilities(X), wine_classifier.predict_proba(X), atol=1e-6)
    nothing = np.full((40, 2), -1)
    np.testing.assert_allclose(ranker.probabilities(X, without=nothing), ranker.probabilities(X), atol=1e-5)
    one = np.arange(40)[:, None]
    alone = ranker.probabilities(X, only=one)
    database = wine_classifier.database_
    scores = (database.class_scores.double() / database.readings.probability_temperature).softmax(1).numpy()
    np.testing.assert_allclose(alone, scores[:40], atol=1e-5)
    import copy

    edited = copy.deepcopy(wine_classifier)
    edited.database_.remove([3, 7])
    without = ranker.probabilities(X, without=np.tile([3, 7], (40, 1)))
    np.testing.assert_allclose(without, edited.predict_proba(X), atol=1e-5)


def test_terms_that_nothing_replaces(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, database = wine[0][:40], wine_classifier.database_
    ranker = DatabaseRanker(database)
    rows, weights = ranker.rank(X)
    first = rows[:, :1]
    readings, scores = database.readings, database.class_scores.double().numpy()
    for i, found in enumerate(ranker.probabilities_less(X, first)):
        logits = sum(w * scores[row] for row, w in zip(rows[i][1:], weights[i][1:], strict=True))
        expected = np.exp(logits / readings.probability_temperature)
        np.testing.assert_allclose(found, np.broadcast_to(expected / np.sum(expected), 3), atol=1e-5)
    nothing = np.full((40, 2), -1)
    np.testing.assert_allclose(ranker.probabilities_less(X, nothing), ranker.probabilities(X), atol=1e-5)
    np.testing.assert_allclose(ranker.probabilities_less(X, rows), 1 / 3, atol=1e-6, err_msg="of nothing, nothing")


def test_comprehensiveness_is_what_the_explanation_covers(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine[0][:40], wine[1][:40]
    report = database_quality(wine_classifier.database_, X, y)
    assert report.comprehensiveness > 0.1 > report.deletion, "a database has others; the sum itself has not"


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_report_of_rounded_keys(wine_classifier: ProtoAttendClassifier, wine: Any, dtype: str) -> None:
    X, y = wine[0][:40], wine[1][:40]
    rounded = wine_classifier.database_.quantize_keys(dtype)
    ranker = DatabaseRanker(rounded)
    nothing = np.full((40, 1), -1)
    np.testing.assert_allclose(ranker.probabilities(X, without=nothing), ranker.probabilities(X), atol=1e-5)
    exact, close = (database_quality(database, X, y) for database in (wine_classifier.database_, rounded))
    for name, figure in exact.to_dict().items():
        assert close.to_dict()[name] == pytest.approx(figure, abs=0.1, nan_ok=True)


def mixed(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table whose label is told by a code, with a number, a date and some missing values beside it."""
    rng = np.random.default_rng(0)
    code, number = rng.integers(0, 4, n), rng.normal(1000, 50, n)
    number[::7] = np.nan
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    colour = rng.choice(["red", "blue"], n)
    return pd.DataFrame({"code": code, "number": number, "day": day, "colour": colour}), code % 2


def test_noise_reaches_numbers_only() -> None:
    X, _ = mixed(400)
    inputs = TableInputs.fit(X, categorical=["code"])
    change = small_change(inputs, X)
    assert change is not None
    before, after = inputs.source(X), change(X, np.random.default_rng(0)).source
    numeric = [column.kind != "category" for column in inputs.columns]
    assert numeric == [True, True, False, False]
    np.testing.assert_array_equal(after[:, 2:], before[:, 2:])
    np.testing.assert_array_equal(np.isnan(after), np.isnan(before))
    np.testing.assert_allclose(np.nanstd(after - before, axis=0)[:2], quality.NOISE, rtol=0.2)
    assert after.dtype == before.dtype
    assert small_change(TableInputs.fit(X[["colour"]]), X[["colour"]]) is None


def test_tables_of_codes_are_stable() -> None:
    X, y = mixed(120)
    classifier = ProtoAttendClassifier(categorical_features=["code"], max_epochs=10, random_state=0, verbose=0)
    report = classifier.fit(X, y).prototype_quality(X[:40], y[:40])
    assert report.stability > 0.3
    codes = X[["code"]].to_numpy()
    classifier = ProtoAttendClassifier(categorical_features=[0], max_epochs=4, random_state=0, verbose=0)
    assert np.isnan(classifier.fit(codes, y).prototype_quality(codes[:20], y[:20]).stability)


def test_ranking_is_the_explanation(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    rows, weights = DatabaseRanker(classifier.database_).rank(X[:70])
    for i, e in enumerate(classifier.explain(X[:70], top=100)):
        used = weights[i] > 0
        assert rows[i][used].tolist() == [p.index for p in e.prototypes]
        np.testing.assert_allclose(weights[i][used], [p.weight for p in e.prototypes], rtol=1e-6)


def test_report_of_a_classifier(digit_classifier: ProtoAttendClassifier, few_digits: Any, tmp_path: Any) -> None:
    X, y = few_digits
    report = digit_classifier.prototype_quality(X[:60], y[:60], subclasses=y[:60], candidate_subclasses=y)
    assert report.same_class > 0.8
    assert report.same_subclass == pytest.approx(report.same_class)
    assert report.insertion > 0.3, "the top prototypes alone decide as all do, random ones do not"
    assert report.deletion >= -0.01
    assert report.stability > report.same_class / 10
    assert report.learned > 0.3, "all but what likeness adds, which is no parameter"
    assert 0 < report.effective <= report.used <= 1
    assert 0 < report.busiest < 1
    ax = report.plot()
    ax.figure.savefig(tmp_path / "quality.png")
    with pytest.raises(UserError, match="one for each of the 400 candidates"):
        digit_classifier.prototype_quality(X[:9], y[:9], subclasses=y[:9], candidate_subclasses=y[:9])


def test_likeness_counts_beside_shuffled_scores_as_beside_learned_ones(digit_classifier: ProtoAttendClassifier) -> None:
    database = digit_classifier.database_
    width = database.model.d_att

    def parts(database: CandidateDatabase) -> tuple[float, float]:
        queries, keys = database.rows.queries, database.keys
        learned = queries[:, :width] @ keys[:, :width].T
        likeness = queries[:, width:] @ keys[:, width:].T
        return float(learned.std(1).mean()), float(likeness.std(1).mean())

    learned, likeness = parts(database)
    shuffled, beside = parts(DatabaseRanker(database).shuffled().database)
    assert shuffled < learned / 2, "nothing is learned that would tell candidates apart"
    assert beside / shuffled == pytest.approx(likeness / learned, rel=0.1)


def test_texts_have_a_report(text_classifier: ProtoAttendClassifier, texts: Any) -> None:
    report = text_classifier.prototype_quality(texts[0][:20], texts[1][:20])
    assert np.isnan(report.stability)
    assert report.same_class > 0.8


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_small_noise_keeps_type_and_size(dtype: Any) -> None:
    X = np.random.default_rng(0).integers(0, 255, (9, 4, 4)).astype(dtype)
    noisy = quality.small_noise(X, np.random.default_rng(0))
    assert noisy.dtype == dtype
    assert noisy.shape == X.shape
    assert 0 < np.abs(noisy.astype(float) - X).mean() < 10
    with pytest.raises(UserError, match="array of numbers"):
        quality.small_noise(np.array(["a"]), np.random.default_rng(0))
