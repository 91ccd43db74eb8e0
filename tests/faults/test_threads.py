"""Threads that share a database: readers have the candidates of one moment, and no edit is lost."""

from __future__ import annotations

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.racing import race

from protoattend import CandidateDatabase, ProtoAttendClassifier


def test_explanations_beside_edits_name_the_right_rows(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    result = race(copy.deepcopy(wine_classifier), *wine, seconds=1.5)
    assert result.failures == ()
    assert result.shown > 50
    assert result.edits > 4
    assert result.wrong == 0


def test_threads_that_add_lose_no_row_and_double_no_index(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    database, (X, y) = copy.deepcopy(wine_classifier.database_), wine
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            given = list(pool.map(lambda row: database.add(X[row : row + 2], y[row : row + 2]), range(60)))
    finally:
        sys.setswitchinterval(interval)
    indices = np.concatenate(given)
    assert len(np.unique(indices)) == 120
    assert len(database) == len(X) + 120
    assert set(indices.tolist()) <= set(database.indices.tolist())


def test_edits_and_saving_from_many_threads(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    clf, (X, y) = wine_classifier, wine
    clf.database_.save(tmp_path / "database")
    read = {"inputs": clf.inputs_, "classes": clf.database_.classes}
    database = CandidateDatabase.open(tmp_path / "database", clf.model_, **read)

    def work(number: int) -> None:
        added = database.add(X[:1], y[:1])
        database.relabel(added, y[1])
        database.remove([number])
        database.compact() if number % 5 == 0 else database.save_edits()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(20)))
    again = CandidateDatabase.open(tmp_path / "database", clf.model_, **read)
    np.testing.assert_array_equal(again.indices, database.indices)
    assert len(again) == len(X)
    assert not set(range(20)) & set(again.indices.tolist())


def test_a_snapshot_stays(wine_classifier: ProtoAttendClassifier) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    before = database.snapshot()
    database.remove([0])
    before.remove([1])
    assert 0 in before.indices
    assert 1 in database.indices
