"""The candidate database: build, edit, save and open."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import ProtoAttendClassifier
from protoattend.errors import BadFile, StaleDatabase, UserError

from .folders import open_again


@pytest.fixture
def classifier(wine_classifier: ProtoAttendClassifier) -> ProtoAttendClassifier:
    return copy.deepcopy(wine_classifier)


def test_added_rows_are_used_and_named(classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, _ = wine
    heaviest = classifier.explain(X[:1])[0].prototypes[0].index
    new = classifier.database_.add(X[[heaviest] * 5], [2] * 5)  # copies of what already attracts this input
    assert new.tolist() == list(range(len(X), len(X) + 5))
    e = classifier.explain(X[:1], top=100)[0]
    assert {p.label for p in e.prototypes if p.index in new} == {2}


def test_a_correction_changes_the_decision_without_training(classifier: ProtoAttendClassifier, wine: Any) -> None:
    """The encoder thinks this row is class 0; a person relabels all its prototypes to class 1."""
    X, _ = wine
    before = classifier.explain(X[:1], top=1000)[0]
    assert before.prediction == 0
    classifier.database_.relabel([p.index for p in before.prototypes], 1)
    after = classifier.explain(X[:1], top=1000)[0]
    assert after.prediction == 1
    assert after.agreement == 1
    assert after.confidence > 1 - before.confidence, "they count among all candidates, too"
    np.testing.assert_allclose(after.weights, before.weights)


def test_relabelling_to_what_the_row_already_argues_for_changes_no_logits(
    classifier: ProtoAttendClassifier, wine: Any
) -> None:
    X, y = wine
    before = classifier.decision_function(X)
    sure = np.flatnonzero(classifier.database_.rows.labels.numpy() == y)
    argued = (classifier.database_.rows.values @ classifier.model_.decision.weight.T).argmax(1).numpy()
    agree = sure[argued[sure] == y[sure]]
    classifier.database_.relabel(agree, y[agree])
    np.testing.assert_array_equal(classifier.decision_function(X), before)


def test_removed_rows_are_gone_and_their_indices_stay_unused(classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    gone = [int(i) for i in np.flatnonzero(y == 0)]
    classifier.database_.remove(gone)
    assert 0 not in classifier.predict(X)
    assert classifier.database_.add(X[:1], y[:1]).tolist() == [len(X)]
    with pytest.raises(UserError, match=r"\[0\] are not"):
        classifier.database_.remove(0)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d, X: d.remove([9999]), "9999"),
        (lambda d, X: d.remove([0, 9999]), "9999"),
        (lambda d, X: d.remove(d.indices), "at least one"),
        (lambda d, X: d.remove([0.5]), "integers"),
        (lambda d, X: d.relabel([0], "red"), "'red' is not among"),
        (lambda d, X: d.relabel([0, 1, 2], [0, 1]), "one or 3"),
        (lambda d, X: d.add(X[:2, :3], [0, 1]), "3 features"),
        (lambda d, X: d.add(X[:2], [0]), "2 rows and y has 1"),
        (lambda d, X: d.add(X[:1], [7]), "7 is not among"),
        (lambda d, X: d.add(X[:0], []), "at least one row"),
    ],
)
def test_a_bad_edit_changes_nothing(classifier: ProtoAttendClassifier, wine: Any, edit: Any, message: str) -> None:
    before = classifier.database_.rows
    with pytest.raises(UserError, match=message):
        edit(classifier.database_, wine[0])
    assert classifier.database_.rows is before


def test_save_and_open_keep_edits(classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    X, y = wine
    classifier.database_.remove([3, 5])
    classifier.database_.relabel([7], 2)
    classifier.database_.add(X[:2], y[:2])
    classifier.database_.remove([len(X) + 1])
    classifier.database_.save(tmp_path / "database")
    opened = open_again(classifier.database_, tmp_path / "database")
    np.testing.assert_array_equal(opened.indices, classifier.database_.indices)
    np.testing.assert_array_equal(opened.labels, classifier.database_.labels)
    queries = classifier.database_.rows.queries
    assert torch.equal(opened.decide(queries).logits, classifier.database_.decide(queries).logits)
    assert opened.add(X[:1], y[:1]).tolist() == [len(X) + 2]  # an index is never given twice


def test_another_model_is_refused(classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    classifier.database_.save(tmp_path / "database")
    with torch.no_grad():
        classifier.model_.decision.weight += 1e-3
    with pytest.raises(StaleDatabase, match=r"rebuild it with\s+CandidateDatabase.build"):
        open_again(classifier.database_, tmp_path / "database")
    with pytest.raises(StaleDatabase, match="the model has changed"):
        classifier.database_.add(wine[0][:1], wine[1][:1])


def damage_meta(folder: Path) -> None:
    (folder / "meta.json").write_text("{")


def newer_version(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"version": 99}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "keys.npy").write_bytes((folder / "keys.npy").read_bytes()[:-8]),
            "truncated",
        ),
        (lambda folder: (folder / "labels.npy").unlink(), "labels.npy, but it is missing"),
        (damage_meta, "must be JSON"),
        (newer_version, "version 99"),
        (lambda folder: (folder / "meta.json").unlink(), "no meta.json"),
        (lambda folder: (folder / "meta.json").write_text('{"what": "cake"}'), "something else"),
    ],
)
def test_damaged_folders(classifier: ProtoAttendClassifier, tmp_path: Path, damage: Any, message: str) -> None:
    classifier.database_.save(tmp_path / "database")
    damage(tmp_path / "database")
    with pytest.raises(BadFile, match=message):
        open_again(classifier.database_, tmp_path / "database")
