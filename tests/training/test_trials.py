"""Tables are trained with and without mixup, and the held-out rows say which is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_classification

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.training import trials

EPOCHS = 3


@pytest.fixture(scope="module")
def table() -> Any:
    return make_classification(1200, 6, n_informative=4, n_clusters_per_class=4, random_state=0)


def fitted(table: Any, recipe: Any = "auto", **fit: Any) -> np.ndarray:
    clf = ProtoAttendClassifier(recipe=recipe, max_epochs=EPOCHS, random_state=0, verbose=0)
    return clf.fit(*table, **fit).predict_proba(table[0][:50])


def test_the_one_that_is_kept_is_as_if_it_had_been_asked_for(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {}
    original = trials._try
    monkeypatch.setattr(trials, "_try", lambda mixup, *rest: losses.setdefault(mixup, original(mixup, *rest)))
    chosen = fitted(table)
    assert set(losses) == {1.0, 0.0}
    best = min(losses, key=lambda mixup: losses[mixup].loss)
    asked = {mixup: fitted(table, Recipe(mixup=mixup)) for mixup in losses}
    np.testing.assert_array_equal(chosen, asked[best])
    assert not np.array_equal(asked[1.0], asked[0.0])


def test_held_out_labels_decide(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in (0.0, 1.0):
        monkeypatch.setattr(trials, "smoothed_loss", lambda logs, **rest: 0.0)  # all are level
        monkeypatch.setattr(trials, "MIXUPS", (kept, 1.0 - kept))
        np.testing.assert_array_equal(fitted(table), fitted(table, Recipe(mixup=kept)), "then the first is kept")


def test_with_checkpoints_it_is_the_same(table: Any, tmp_path: Path) -> None:
    np.testing.assert_array_equal(fitted(table), fitted(table, checkpoint_to=tmp_path / "run"))


def test_too_few_held_out_rows_or_a_given_mixup_leave_nothing_to_try(table: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(trials, "_try", lambda *rest: pytest.fail("nothing is to be tried"))
    fitted(load_wine(return_X_y=True))
    fitted(table, Recipe(mixup=1.0))
    ProtoAttendClassifier("lstm", max_epochs=1, random_state=0, verbose=0).fit(*table)
    ProtoAttendClassifier(max_epochs=1, validation_fraction=0.0, random_state=0, verbose=0).fit(*table)
