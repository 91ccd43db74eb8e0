"""What-if questions leave the database alone, and flips are real and, where they say so, the smallest."""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.explain.counterfactuals import Counterfactual, counterfactuals

LEAD = 1.6


@pytest.fixture(params=["softmax", "sparsemax"])
def random_database(request: Any, wine_classifier: ProtoAttendClassifier) -> CandidateDatabase:
    """Twelve candidates of a class with a small lead, near and far, so that few removals flip a decision."""
    generator = torch.Generator().manual_seed(3)
    database = copy.deepcopy(wine_classifier.database_)
    database.remove(database.indices[12:])
    database.model.normalize = request.param
    database.readings = None  # of twelve made at random, hardly any argues for its label
    rows = database.rows
    keys = torch.rand(12, rows.keys.shape[1], generator=generator)
    scores = torch.randn(12, 3, generator=generator) + torch.tensor([LEAD, 0.0, 0.0])
    weights = torch.tensor([1.0, 2.0, 0.5] * 4)
    return database._with(type(rows)(rows.ids, rows.labels, keys, scores, rows.edited, weights, rows.blocks))


def queries_of_all_lengths(count: int) -> torch.Tensor:
    """From nearly flat scores, which many candidates share, to steep ones."""
    return torch.linspace(0.1, 4, count)[:, None] * torch.rand(count, 26, generator=torch.Generator().manual_seed(1))


def smallest_by_brute_force(database: CandidateDatabase, query: torch.Tensor, most: int) -> int | None:
    before = database.decide(query[None]).logits.argmax()
    for size in range(1, most + 1):
        for removed in combinations(database.indices.tolist(), size):
            if database.without(list(removed)).decide(query[None]).logits.argmax() != before:
                return size
    return None


def test_flips_are_the_smallest(random_database: CandidateDatabase) -> None:
    queries = queries_of_all_lengths(16)
    sizes = []
    for query, flip in zip(queries, counterfactuals(random_database, queries, at_most=3), strict=True):
        assert (flip and len(flip.indices)) == smallest_by_brute_force(random_database, query, 3)
        assert flip is None or flip.smallest
        sizes.append(0 if flip is None else len(flip.indices))
    assert len(set(sizes)) > 1  # the inputs are not all alike


def test_without_a_proof_a_flip_is_irreducible(
    random_database: CandidateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protoattend.explain.counterfactuals.TRIES", 0)
    queries = queries_of_all_lengths(30)
    several = 0
    for query, flip in zip(queries, counterfactuals(random_database, queries, at_most=8), strict=True):
        if flip is None or len(flip.indices) < 2:
            continue
        several += 1
        assert flip.smallest == (random_database.model.normalize == "softmax")
        for needed in flip.indices:
            fewer = [index for index in flip.indices if index != needed]
            decided = random_database.without(fewer).decide(query[None]).logits.argmax()
            assert random_database.classes.values[decided] == flip.before.prediction
    assert several > 2


def test_flips_of_a_trained_classifier_are_real(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    rows = classifier.database_.rows
    some = X[:6]
    found = 0
    for i, flip in enumerate(classifier.counterfactuals(some, at_most=100)):
        if flip is None:
            continue
        found += 1
        assert isinstance(flip, Counterfactual)
        assert flip.before.prediction == classifier.predict(some[i : i + 1])[0]
        edited = copy.deepcopy(classifier)
        edited.database_.remove(flip.indices)
        assert edited.predict(some[i : i + 1])[0] == flip.after.prediction != flip.before.prediction
        assert edited.confidence(some[i : i + 1])[0] == pytest.approx(flip.after.confidence, abs=1e-4)
    assert found
    assert classifier.database_.rows is rows


def test_nothing_flips_what_all_candidates_agree_on(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, _ = wine
    classifier = copy.deepcopy(wine_classifier)
    classifier.database_.relabel(classifier.database_.indices, 1)
    assert classifier.counterfactuals(X[:3]) == [None] * 3
    with pytest.raises(UserError, match="at_most must be an integer of at least 1"):
        classifier.counterfactuals(X[:3], at_most=0)
    classifier.database_.remove(classifier.database_.indices[1:])
    assert classifier.counterfactuals(X[:3]) == [None] * 3


def test_suppositions_equal_edits_and_leave_the_database_alone(any_kind: Any) -> None:
    classifier, X, y = any_kind
    some, rows = X[:9], classifier.database_.rows
    now = classifier.explain(some)
    gone = sorted({p.index for e in now for p in e.prototypes if p.label == e.prediction})
    other = {index: classifier.classes_[index % 2].item() for index in range(len(y))}
    for supposition, edit in (
        ({"without": gone}, lambda database: database.remove(gone)),
        ({"with_labels": other}, lambda database: database.relabel(list(other), list(other.values()))),
    ):
        edited = copy.deepcopy(classifier)
        edit(edited.database_)
        for e, real, old in zip(classifier.explain(some, **supposition), edited.explain(some), now, strict=True):
            assert (e.prediction, e.confidence) == (real.prediction, real.confidence)
            assert [p.index for p in e.prototypes] == [p.index for p in real.prototypes]
            assert [p.label for p in e.prototypes] == [p.label for p in real.prototypes]
            assert (e.before.prediction, e.before.confidence) == (old.prediction, old.confidence)
            assert e.changed == (e.prediction != old.prediction)
            assert ("before" in repr(e)) == e.changed
    assert classifier.database_.rows is rows
    assert [e.before for e in now] == [None] * 9
    assert not any(e.changed for e in now)


def test_suppositions_about_the_rows_themselves(wine_classifier: ProtoAttendClassifier) -> None:
    """X=None leaves each row out of its own decision, in what is and in what is supposed."""
    now = wine_classifier.explain(None)
    supposed = wine_classifier.explain(None, without=[0, 3])
    assert len(supposed) == len(now) - 2
    kept = [e for i, e in enumerate(now) if i not in (0, 3)]
    assert [e.before.prediction for e in supposed] == [e.prediction for e in kept]
    assert [e.before.confidence for e in supposed] == [e.confidence for e in kept]


@pytest.mark.parametrize(
    ("supposition", "message"),
    [
        ({"without": [9999]}, "9999"),
        ({"without": np.arange(178)}, "at least one candidate"),
        ({"with_labels": {0: "red"}}, "'red' is not among"),
        ({"with_labels": {9999: 0}}, "9999"),
    ],
)
def test_bad_suppositions(wine_classifier: ProtoAttendClassifier, wine: Any, supposition: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        wine_classifier.explain(wine[0][:1], **supposition)


def test_supposing_nothing_changes_nothing(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    e = wine_classifier.explain(wine[0][:1], without=[], with_labels={})[0]
    assert e.before is not None
    assert (e.prediction, e.confidence) == (e.before.prediction, e.before.confidence)
