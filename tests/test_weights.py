"""sample_weight and undersample through the whole classifier, in its database and in its files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_sample_weight

from protoattend import CandidateDatabase, ProtoAttendClassifier, Recipe
from protoattend.baselines.plain import PlainClassifier
from protoattend.errors import UserError
from protoattend.training.candidates import Sampled

QUICK: dict[str, Any] = {"max_epochs": 3, "random_state": 0, "verbose": 0}


def rebuilt(classifier: ProtoAttendClassifier, X: Any, y: Any, weights: Any = None) -> CandidateDatabase:
    database = classifier.database_
    return CandidateDatabase.build(
        classifier.model_, X, y, inputs=database.inputs, classes=database.classes, sample_weight=weights
    )


@pytest.mark.parametrize("make", [ProtoAttendClassifier, PlainClassifier])
def test_weights_of_one_are_no_weights(make: Any, wine: Any) -> None:
    X, y = wine
    expected = make(**QUICK).fit(X, y).predict_proba(X)
    for ones in (np.ones(len(y)), [1] * len(y), pd.Series(np.ones(len(y)))):
        np.testing.assert_array_equal(make(**QUICK).fit(X, y, sample_weight=ones).predict_proba(X), expected)


@pytest.mark.parametrize("make", [ProtoAttendClassifier, PlainClassifier])
@pytest.mark.parametrize("kind", ["array", "frame", "images", "texts"])
def test_weight_zero_is_left_out(make: Any, kind: str, wine: Any, few_digits: Any, texts: Any) -> None:
    X, y = {
        "array": wine,
        "frame": (pd.DataFrame(wine[0]).assign(colour=["red", "blue"] * 89), wine[1]),
        "images": (few_digits[0][:120], few_digits[1][:120]),
        "texts": texts,
    }[kind]
    keep = np.arange(len(y)) % 3 != 1
    rows = np.flatnonzero(keep)
    kept = X.iloc[rows] if kind == "frame" else [X[i] for i in rows] if kind == "texts" else X[rows]
    params = {**QUICK, "max_epochs": 1} if kind in ("images", "texts") else QUICK
    weighted = make(**params).fit(X, y, sample_weight=keep)
    left_out = make(**params).fit(kept, y[keep])
    np.testing.assert_array_equal(weighted.predict_proba(X), left_out.predict_proba(X))
    if make is ProtoAttendClassifier:
        np.testing.assert_array_equal(weighted.database_.indices, rows)
        assert {p.index for e in weighted.explain(X[:5]) for p in e.prototypes} <= set(rows)


def test_what_is_left_out_may_be_anything(wine: Any) -> None:
    X, y = wine[0].copy(), [str(label) for label in wine[1]]
    X[5], y[5] = np.inf, "never"
    weights = np.ones(len(y))
    weights[5] = 0
    classifier = ProtoAttendClassifier(**QUICK).fit(X, y, sample_weight=weights)
    assert list(classifier.classes_) == ["0", "1", "2"]
    with pytest.raises(UserError, match="infinity at row 5"):
        ProtoAttendClassifier(**QUICK).fit(X, y)


def test_rows_added_later_never_get_the_number_of_a_row_left_out(wine: Any) -> None:
    X, y = wine
    weights = np.ones(len(y))
    weights[-3:] = 0
    classifier = ProtoAttendClassifier(**QUICK).fit(X, y, sample_weight=weights)
    assert classifier.database_.add(X[:1], y[:1]).tolist() == [len(y)]
    assert classifier.database_.sample_weight[-1] == 1


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_a_weighted_database_decides_as_its_copies_do(normalize: str, wine: Any) -> None:
    """Up to rounding: decisions, class mass and confidence, and the weight of every prototype."""
    X, y = wine
    classifier = ProtoAttendClassifier(normalize=normalize, **QUICK).fit(X, y)
    counts = np.random.default_rng(0).integers(0, 5, len(y))
    copies = np.repeat(np.arange(len(y)), counts)
    weighted, repeated = rebuilt(classifier, X, y, counts), rebuilt(classifier, X[copies], y[copies])
    queries = classifier.database_.rows.queries
    ours, theirs = weighted.decide(queries), repeated.decide(queries)
    np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-5)
    np.testing.assert_allclose(ours.class_mass, theirs.class_mass, atol=1e-5)
    classifier.database_ = repeated
    expected = classifier.explain(X[:20], top=10_000)
    confidence = classifier.confidence(X)
    classifier.database_ = weighted
    np.testing.assert_allclose(classifier.confidence(X), confidence, atol=1e-5)
    for one, other in zip(classifier.explain(X[:20], top=10_000), expected, strict=True):
        assert one.prediction == other.prediction
        together: dict[int, float] = {}
        for p in other.prototypes:
            together[copies[p.index]] = together.get(copies[p.index], 0.0) + p.weight
        assert {p.index: pytest.approx(p.weight, abs=1e-5) for p in one.prototypes if p.weight > 1e-5} == {
            index: weight for index, weight in together.items() if weight > 1e-5
        }


def test_a_row_never_argues_for_itself_however_heavy(wine: Any) -> None:
    X, y = wine
    classifier = ProtoAttendClassifier(**QUICK).fit(X, y)
    weights = np.ones(len(y))
    weights[::7] = 1000
    classifier.database_ = rebuilt(classifier, X, y, weights)
    for i, explanation in enumerate(classifier.explain(None, top=10_000)):
        assert i not in [p.index for p in explanation.prototypes]
        assert explanation.weights.sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("candidates", ["in-batch", "sampled", "bank"])
@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_every_strategy_learns_with_weights(candidates: str, normalize: str, wine: Any) -> None:
    X, y = wine
    weights = 10 ** np.random.default_rng(0).uniform(-1, 1, len(y))
    classifier = ProtoAttendClassifier(
        candidates=candidates, normalize=normalize, max_epochs=8, random_state=0, verbose=0
    ).fit(X, y, sample_weight=weights)
    assert classifier.score(X, y, sample_weight=weights) > 0.9


@pytest.mark.parametrize("candidates", ["in-batch", "sampled"])
def test_everything_at_once(candidates: str, wine: Any) -> None:
    X, y = wine
    weights = 10 ** np.random.default_rng(0).uniform(-1, 1, len(y))
    classifier = ProtoAttendClassifier(
        candidates=candidates,
        undersample={1: 0.5},
        class_weight="balanced",
        lambda_conf=0.1,
        lambda_sparse=1e-3,
        max_epochs=12,
        random_state=0,
        verbose=0,
    ).fit(X, y, sample_weight=weights)
    assert classifier.score(X, y) > 0.9
    assert {"sparse", "conf"} <= set(classifier.history_[0].losses)


@pytest.mark.filterwarnings("ignore:sample_weight counts rows")
@pytest.mark.parametrize("candidates", ["in-batch", "sampled", "bank"])
@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_weights_of_any_size_do_no_harm_but_their_own(candidates: str, normalize: str, wine: Any) -> None:
    """Over twelve orders of magnitude: some batches, and the whole database, are one heavy row among light ones."""
    X, y = wine
    weights = 10 ** np.random.default_rng(0).uniform(-6, 6, len(y))
    classifier = ProtoAttendClassifier(candidates=candidates, normalize=normalize, **QUICK)
    classifier.fit(X, y, sample_weight=weights)
    assert np.isfinite(classifier.predict_proba(X)).all()
    np.testing.assert_allclose(classifier.class_mass(X).sum(1), 1, atol=1e-4)


def test_score_heeds_weights(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    wrong = np.where(np.arange(len(y)) < 50, (y + 1) % 3, y)
    right = wine_classifier.predict(X) == wrong
    weights = np.linspace(0, 2, len(y))
    expected = (right * weights).sum() / weights.sum()
    assert wine_classifier.score(X, wrong, sample_weight=weights) == pytest.approx(expected)


@pytest.mark.parametrize("n_rows", [2, 3])
def test_two_or_three_rows_can_be_learned(n_rows: int) -> None:
    X, y = np.arange(2.0 * n_rows).reshape(n_rows, 2), np.arange(n_rows) % 2
    classifier = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
    assert classifier.predict(X).shape == (n_rows,)


@pytest.mark.parametrize("make", [ProtoAttendClassifier, PlainClassifier])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), r"\(178,\), but its shape is \(5,\)"),
        (-np.ones(178), "row 0 has -1.0"),
        (np.full(178, np.nan), "row 0 has nan"),
        (np.zeros(178), "all 178 weights are zero"),
    ],
)
def test_bad_weights(make: Any, weights: np.ndarray, message: str, wine: Any) -> None:
    with pytest.raises(UserError, match=message):
        make(**QUICK).fit(*wine, sample_weight=weights)


@pytest.mark.parametrize("make", [ProtoAttendClassifier, PlainClassifier])
@pytest.mark.parametrize(
    ("undersample", "message"),
    [({0: 2}, "0 has 2"), ({7: 0.5}, "undersample must name classes of y, .* but got 7"), (1, "got 1")],
)
def test_bad_shares(make: Any, undersample: Any, message: str, wine: Any) -> None:
    with pytest.raises(UserError, match=message):
        make(undersample=undersample, **QUICK).fit(*wine)


def test_weights_that_add_up_to_one_are_warned_of(wine: Any) -> None:
    X, y = wine
    ratios = np.full(len(y), 1 / len(y))
    with pytest.warns(UserWarning, match="sample_weight counts rows"):
        ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y, sample_weight=ratios)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ProtoAttendClassifier(normalize="softmax", max_epochs=1, random_state=0, verbose=0).fit(X, y, ratios)


def test_undersampling_thins_the_database_for_good(wine: Any) -> None:
    X, y = wine
    classifier = ProtoAttendClassifier(undersample={1: 0.3}, **QUICK).fit(X, y)
    database = classifier.database_
    np.testing.assert_array_equal(database.labels, y[database.indices])
    assert np.bincount(y[database.indices]).tolist() == [59, round(0.3 * 71), 48]
    again, other = (
        ProtoAttendClassifier(undersample={1: 0.3}, **{**QUICK, "random_state": seed}).fit(X, y) for seed in (0, 1)
    )
    np.testing.assert_array_equal(again.database_.indices, database.indices)
    assert not np.array_equal(other.database_.indices, database.indices)


def test_sampled_candidates_are_undersampled_in_training(wine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = wine
    drawn: list[list[int]] = []
    draw = Sampled.draw

    def spy(self: Sampled, *args: Any) -> Any:
        made = draw(self, *args)
        drawn.append(np.bincount(made.labels, minlength=3).tolist())
        return made

    monkeypatch.setattr(Sampled, "draw", spy)
    ProtoAttendClassifier(candidates="sampled", undersample={1: 0.1}, validation_fraction=0.0, **QUICK).fit(X, y)
    whole = np.array([59, round(0.1 * 71), 48])  # of which one is left to the next draw
    assert drawn
    assert all(((whole - counts) >= 0).all() and sum(counts) == whole.sum() - 1 for counts in drawn)


def test_files_keep_weights_shares_and_edits(wine: Any, tmp_path: Path) -> None:
    X, y = wine
    weights = np.random.default_rng(0).uniform(0, 3, len(y)) * (np.arange(len(y)) % 5 > 0)
    classifier = ProtoAttendClassifier(
        undersample={np.int64(1): 0.5}, class_weight={np.int64(0): np.float64(2.0)}, **QUICK
    ).fit(X, y, sample_weight=weights)
    gone = int(classifier.database_.indices[3])
    classifier.database_.remove([gone])
    added = classifier.database_.add(X[:2], y[:2])
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    assert loaded.get_params() == classifier.get_params()
    np.testing.assert_array_equal(loaded.database_.indices, classifier.database_.indices)
    np.testing.assert_array_equal(loaded.database_.sample_weight, classifier.database_.sample_weight)
    from_training = ~np.isin(loaded.database_.indices, added)
    np.testing.assert_array_equal(
        loaded.database_.sample_weight[from_training],
        weights[loaded.database_.indices[from_training]].astype(np.float32),
    )
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert loaded.history_ == classifier.history_


@pytest.mark.slow
@pytest.mark.parametrize("make", [ProtoAttendClassifier, PlainClassifier])
def test_each_tool_raises_the_recall_of_a_rare_class(make: Any) -> None:
    """One in twenty, in two overlapping clouds: left alone, few of the rare ones are found."""
    X, y = make_classification(3000, 6, n_informative=4, weights=[0.95], class_sep=0.7, flip_y=0.02, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

    def recall(weights: Any = None, max_epochs: int = 12, **params: Any) -> float:
        recipe = Recipe(mixup=1.0)  # which is else tried, and may differ from one weighting to the other
        classifier = make(recipe=recipe, max_epochs=max_epochs, random_state=0, verbose=0, **params)
        classifier.fit(X, y, sample_weight=weights)
        return float(classifier.predict(X_test)[y_test == 1].mean())

    nothing = recall()
    assert recall(class_weight="balanced") > nothing + 0.2
    assert recall(compute_sample_weight("balanced", y)) > nothing + 0.2
    assert recall(undersample={0: 0.1}, max_epochs=40) > nothing + 0.2, "an epoch has fewer steps"
