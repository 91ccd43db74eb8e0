"""Label noise and label issues, against definitions spelled out and on real data with known noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.utils import check_random_state

from protoattend import ProtoAttendClassifier
from protoattend.data_quality.judges import stratified_folds
from protoattend.data_quality.label_errors import find_label_issues, inject_label_noise, label_error_scores
from protoattend.errors import UserError


@pytest.mark.parametrize("labels", [np.arange(3000) % 3, np.array(list("abc") * 1000)])
def test_noise_is_uniform_over_the_other_classes(labels: np.ndarray) -> None:
    noisy = inject_label_noise(labels, 0.4, random_state=0)
    assert noisy.flipped.sum() == 1200
    np.testing.assert_array_equal(noisy.labels != labels, noisy.flipped)
    for label in np.unique(labels):
        taken = noisy.labels[noisy.flipped & (labels == label)]
        _, counts = np.unique(taken, return_counts=True)
        assert len(counts) == 2
        assert counts.min() / counts.sum() > 0.4


def test_noise_leaves_the_labels_passed_alone() -> None:
    labels = np.arange(10) % 2
    inject_label_noise(labels, 1.0, random_state=0)
    np.testing.assert_array_equal(labels, np.arange(10) % 2)
    np.testing.assert_array_equal(inject_label_noise(labels, 1.0).labels, 1 - labels)
    np.testing.assert_array_equal(inject_label_noise(labels, 0.0).labels, labels)


@pytest.mark.parametrize(
    ("y", "rate", "message"), [([1, 1], 0.1, "two classes"), ([0, 1], 1.5, "from 0 to 1"), ([], 0.1, "two classes")]
)
def test_bad_noise(y: Any, rate: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        inject_label_noise(y, rate)


def test_scores_by_a_loop() -> None:
    rng = np.random.default_rng(0)
    support, labels = rng.dirichlet(np.ones(4), size=50), rng.integers(4, size=50)
    scores, suggested = label_error_scores(support, labels)
    for row, label, score, other in zip(support, labels, scores, suggested, strict=True):
        best = max((c for c in range(4) if c != label), key=lambda c: row[c])
        assert other == best
        assert score == pytest.approx(sum(row[c] for c in range(4) if c != label))


def test_score_is_about_the_given_label_and_dispute_about_another() -> None:
    support = np.array([[0.3, 0.35, 0.35], [0.4, 0.3, 0.3], [0.1, 0.9, 0.0]])
    found = find_label_issues(support, np.zeros(3, dtype=int), indices=np.arange(3), classes=np.arange(3))
    assert found.indices.tolist() == [2, 0]
    assert [issue.suggested_label for issue in found] == [1, 1]
    np.testing.assert_allclose(found.scores, [0.7, 0.6, 0.9])


def test_rows_without_dispute() -> None:
    found = find_label_issues(np.eye(2), np.array([0, 1]), indices=np.arange(2), classes=np.arange(2))
    assert len(found) == 0
    assert found.to_frame().shape == (0, 5)
    np.testing.assert_array_equal(found.scores, [0, 0])


@pytest.mark.parametrize("support", [np.ones((3, 1)), np.ones((2, 2)), np.array([[0.5, np.nan]] * 3)])
def test_bad_support(support: np.ndarray) -> None:
    with pytest.raises(UserError, match="support must be"):
        label_error_scores(support, np.zeros(3, dtype=int))


def test_folds_hold_every_class_evenly() -> None:
    labels = np.repeat([0, 1, 2], [20, 11, 2])
    folds = stratified_folds(labels, 5, check_random_state(0))
    counts = np.array([np.bincount(folds[labels == c], minlength=5) for c in range(3)])
    assert (counts.max(1) - counts.min(1) <= 1).all()
    for fold in range(5):
        assert set(labels[folds != fold]) == {0, 1, 2}
    with pytest.raises(UserError, match="have one row"):
        stratified_folds(np.array([0, 0, 1]), 2, check_random_state(0))
    for cv in (1, 4, 2.0):
        with pytest.raises(UserError, match="cv must be"):
            stratified_folds(np.array([0, 0, 1]), cv, check_random_state(0))  # type: ignore[arg-type]


def test_both_ways_find_flipped_labels(wine: Any) -> None:
    X, y = wine
    names = np.array(["red", "white", "rose"])[y]
    noisy = inject_label_noise(names, 0.1, random_state=0)
    classifier = ProtoAttendClassifier(max_epochs=8, random_state=0, verbose=0)
    crossed = classifier.find_label_issues(X, noisy.labels, cv=3)  # needs no fit
    left_out = classifier.fit(X, noisy.labels).find_label_issues()
    for found, least in ((crossed, 0.85), (left_out, 0.6)):
        np.testing.assert_array_equal(found.rows, np.arange(len(y)))
        assert average_precision_score(noisy.flipped, found.scores) > least
        assert [issue.score for issue in found] == sorted((issue.score for issue in found), reverse=True)
        assert set(found.indices) <= set(np.flatnonzero(found.scores > 0.5)), "a majority cannot be disputed"
        for issue in found:
            assert issue.given_label == noisy.labels[issue.index] != issue.suggested_label
            assert issue.explanation is not None
            assert issue.explanation.preview == classifier.database_.preview(issue.index)
            for p in issue.explanation.prototypes:
                assert p.index != issue.index
                assert p.label == noisy.labels[p.index]
                assert p.preview == classifier.database_.preview(p.index)
            assert all(p.label == issue.suggested_label for p in issue.prototypes)
        assert list(found.to_frame().columns) == ["index", "given_label", "suggested_label", "score", "odds"]
        assert (found.corrected(noisy.labels) == names).mean() > 0.93  # of which 90 % were right


@pytest.mark.parametrize("given", [{"normalize": "softmax"}, {"n_prototypes": None}], ids=str)
def test_without_a_flat_reading(wine: Any, given: dict[str, Any]) -> None:
    found = ProtoAttendClassifier(**given, max_epochs=2, random_state=0, verbose=0).fit(*wine).find_label_issues()
    assert found.certainty is not None
    assert len(found.certainty) == len(found.scores) == 178


def test_suggestions_take_the_place_of_disputed_labels() -> None:
    support = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.4, 0.6]])
    labels, rows = np.array([0, 0, 0, 1]), np.array([0, 3, 2, 5])
    found = find_label_issues(support, labels, indices=rows, classes=np.array(["a", "b"]))
    given = ["a", "b", "a", "a", "b", "b"]
    assert found.corrected(given).tolist() == ["a", "b", "b", "a", "b", "b"]
    assert given[2] == "a"
    with pytest.raises(UserError, match=r"its shape is \(5,\), and row 5 was judged"):
        found.corrected(given[:5])


def test_issues_are_drawn(wine: Any, tmp_path: Any) -> None:
    X, y = wine
    classifier = ProtoAttendClassifier(max_epochs=4, random_state=0, verbose=0)
    classifier.fit(X, inject_label_noise(y, 0.1, random_state=0).labels).find_label_issues().plot(
        tmp_path / "a.png", n=2
    )
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_bad_cross_fit(wine: Any) -> None:
    classifier = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0)
    with pytest.raises(UserError, match="one length"):
        classifier.find_label_issues(wine[0], wine[1][:-1])
    with pytest.raises(UserError, match="y is None"):
        classifier.find_label_issues(wine[0])
