"""Tables are trained in two ways, held-out rows say which is better, and then all rows are learned so."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.exceptions import NotFittedError

from protoattend import PlainClassifier, ProtoAttendClassifier, Recipe, frozen
from protoattend.baselines import plain
from protoattend.config import Settings
from protoattend.database.judges import Judges
from protoattend.errors import UserError
from protoattend.training import fit, trials
from protoattend.training.checkpoint import FileCheckpointer
from protoattend.training.history import History, Metrics
from protoattend.training.setup import seeded, set_up

EPOCHS = 4


@pytest.fixture(scope="module")
def table() -> Any:
    return make_classification(1200, 6, n_informative=4, n_clusters_per_class=4, random_state=0)


def fitted(table: Any, recipe: Any = "auto", **fit: Any) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(recipe=recipe, max_epochs=EPOCHS, random_state=0, verbose=0).fit(*table, **fit)


def told(table: Any, recipe: Any = "auto", **fit: Any) -> np.ndarray:
    return fitted(table, recipe, **fit).predict_proba(table[0][:50])


def asked_for(way: trials.Way) -> dict[str, Any]:
    """Return the settings of a classifier that is trained in one of the ways because it is told to."""
    return {
        "recipe": Recipe(mixup=way.mixup),
        "max_epochs": round(way.epochs * EPOCHS),
        "random_state": 0,
        "verbose": 0,
    }


def test_the_one_that_is_kept_is_as_if_it_had_been_asked_for(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {}
    original = fit._tried

    def watched(settings: Settings, setup: Any, **more: Any) -> Any:
        trial = original(settings, setup, **more)
        losses[trials.Way(setup.plan.recipe.mixup, setup.plan.max_epochs / EPOCHS)] = trial.loss
        return trial

    with monkeypatch.context() as patched:
        patched.setattr(fit, "_tried", watched)
        chosen = told(table)
    assert set(losses) == set(trials.WAYS)
    asked = {
        way: ProtoAttendClassifier(**asked_for(way)).fit(*table).predict_proba(table[0][:50])
        for way in sorted(losses, key=losses.__getitem__)
    }
    best, other = asked.values()
    np.testing.assert_array_equal(chosen, best)
    assert not np.array_equal(best, other)


def test_held_out_labels_decide(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for first, second in itertools.permutations(trials.WAYS):
        monkeypatch.setattr(Judges, "loss", lambda *rest: 0.0)  # all are level
        monkeypatch.setattr(trials, "WAYS", (first, second))
        asked = ProtoAttendClassifier(**asked_for(first)).fit(*table).predict_proba(table[0][:50])
        np.testing.assert_array_equal(told(table), asked, "then the first is kept")


@pytest.mark.parametrize("refit", [True, False])
def test_with_checkpoints_it_is_the_same(table: Any, tmp_path: Path, refit: bool) -> None:
    recipe = Recipe(refit=refit)
    np.testing.assert_array_equal(told(table, recipe), told(table, recipe, checkpoint_to=tmp_path / "run"))


def rows_of_each_training(monkeypatch: pytest.MonkeyPatch, where: Any) -> list[int]:
    rows: list[int] = []
    train = where.train

    def counted(model: Any, data: Any, *rest: Any, **more: Any) -> Any:
        rows.append(len(data))
        return train(model, data, *rest, **more)

    monkeypatch.setattr(where, "train", counted)
    return rows


@pytest.fixture
def last_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metrics, "good_enough", lambda *rest: True)


@pytest.mark.usefixtures("last_is_best")
def test_held_out_rows_are_learned_in_the_end(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of_each_training(monkeypatch, fit)
    fitted(table)
    fitted(table, Recipe(mixup=1.0))
    fitted(table, Recipe(mixup=1.0, refit=False))
    assert rows == [1080, 1080, 1200, 1080, 1200, 1080]


@pytest.mark.usefixtures("last_is_best")
def test_the_plain_encoder_learns_as_many_rows(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of_each_training(monkeypatch, plain)
    clf = PlainClassifier(max_epochs=EPOCHS, random_state=0, verbose=0).fit(*table)
    assert rows == [1080, 1080, 1200], "in two ways, and then all rows"
    assert clf.history_[0].metrics is not None


def test_the_plain_encoder_keeps_the_way_that_held_out_rows_prefer(table: Any, monkeypatch: Any) -> None:
    for first, second in itertools.permutations(trials.WAYS):
        monkeypatch.setattr(Judges, "loss", lambda *rest: 0.0)  # all are level
        monkeypatch.setattr(trials, "WAYS", (first, second))
        chosen = PlainClassifier(max_epochs=EPOCHS, random_state=0, verbose=0).fit(*table)
        asked = PlainClassifier(**asked_for(first)).fit(*table)
        np.testing.assert_array_equal(chosen.predict_proba(table[0]), asked.predict_proba(table[0]))


def test_what_was_best_before_the_last_epoch_stays(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = rows_of_each_training(monkeypatch, fit), rows_of_each_training(monkeypatch, plain)
    epoch = itertools.cycle(range(EPOCHS))
    monkeypatch.setattr(Metrics, "good_enough", lambda metrics, best: next(epoch) == 0)
    for recipe in (Recipe(mixup=1.0), Recipe(mixup=1.0, refit=True)):
        clf = fitted(table, recipe)
        assert not clf.history_.refitted
        assert clf.history_.best_epoch == 0
        np.testing.assert_array_equal(clf.predict_proba(table[0][:50]), told(table, Recipe(mixup=1.0, refit=False)))
    encoder = PlainClassifier(max_epochs=EPOCHS, random_state=0, verbose=0).fit(*table)
    assert not encoder.history_.refitted
    assert set(ours + theirs) == {1080}
    assert encoder.score(*table) > 0.5


@pytest.mark.usefixtures("last_is_best")
def test_readings_are_those_that_held_out_rows_chose(table: Any) -> None:
    again, earlier = (fitted(table, Recipe(mixup=1.0, refit=refit)) for refit in (True, False))
    found, chosen = again.database_, earlier.database_
    assert found.readings.probability_temperature == chosen.readings.probability_temperature
    ratios = [each.readings.flat_temperature / each.temperature for each in (found, chosen)]
    assert ratios[0] == pytest.approx(ratios[1])
    assert again.history_[-1].metrics == earlier.history_[-1].metrics, "what held-out rows said is kept"
    assert (again.history_.refitted, earlier.history_.refitted) == (True, False)


@pytest.mark.parametrize("encoder", ["auto", "module"])
def test_other_kinds_are_refitted_where_that_is_asked_for(encoder: str) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:300].reshape(-1, 8, 8).astype(np.float32), y[:300]
    own: Any = frozen(torch.nn.Flatten()) if encoder == "module" else encoder
    clf = ProtoAttendClassifier(own, recipe=Recipe(refit=True), max_epochs=3, random_state=0, verbose=0).fit(X, y)
    assert clf.history_.refitted
    assert clf.score(X, y) > 0.5


def test_an_occupied_folder_is_refused_before_anything_is_trained(table: Any, tmp_path: Path, monkeypatch: Any) -> None:
    fitted(table, checkpoint_to=tmp_path / "run")
    monkeypatch.setattr(fit, "_tried", lambda *rest, **more: pytest.fail("the folder is occupied"))
    with pytest.raises(UserError, match="holds a checkpoint already"):
        fitted(table, checkpoint_to=tmp_path / "run")


def test_a_refit_goes_on_where_it_was_stopped(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(table)
    after_epoch = FileCheckpointer.after_epoch

    def stop(checkpointer: FileCheckpointer, state: Any) -> None:
        after_epoch(checkpointer, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpointer, "after_epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            fitted(table, checkpoint_to=tmp_path / "run")
    again = fitted(table, resume_from=tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(table[0][:50]), whole)


def test_a_training_that_chose_otherwise_is_not_gone_on_with(table: Any, tmp_path: Path, monkeypatch: Any) -> None:
    fitted(table, checkpoint_to=tmp_path / "run")
    monkeypatch.setattr(History, "last_is_best", False)
    with pytest.raises(UserError, match=r"made with mixup=\S+, refit=True and now it is mixup=\S+, refit=False"):
        fitted(table, resume_from=tmp_path / "run")


def test_an_encoder_whose_refit_was_interrupted_is_not_fitted(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    train = plain.train

    def interrupted(model: Any, data: Any, *rest: Any, **named: Any) -> History:
        if len(data) == 1200:
            raise KeyboardInterrupt
        return train(model, data, *rest, **named)

    monkeypatch.setattr(plain, "train", interrupted)
    encoder = PlainClassifier(max_epochs=EPOCHS, random_state=0, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        encoder.fit(*table)
    with pytest.raises(NotFittedError):
        encoder.predict(table[0])


def test_a_frozen_front_is_not_copied() -> None:
    X, y = load_digits(return_X_y=True)
    given = Settings(encoder=frozen(torch.nn.Flatten()), recipe=Recipe(refit=True))
    with seeded(0) as generator:
        setup = set_up(given, X[:300].reshape(-1, 8, 8).astype(np.float32), y[:300], None, generator)
    own = trials.untrained_copy(setup)
    assert own.encoder.front is setup.encoder.front
    assert own.model is not setup.model


def test_patience_and_a_refit_contradict_each_other(table: Any) -> None:
    with pytest.raises(UserError, match="pass one of the two"):
        fitted(table, Recipe(refit=True, patience=3))
    assert not fitted(table, Recipe(patience=3)).history_.refitted


@pytest.mark.parametrize("given", [{"normalize": "softmax"}, {"n_prototypes": None}, {"objective": "self"}], ids=str)
@pytest.mark.usefixtures("last_is_best")
def test_all_kinds_of_attention_are_refitted(table: Any, given: dict[str, Any]) -> None:
    clf = ProtoAttendClassifier(**given, max_epochs=EPOCHS, random_state=0, verbose=0)
    clf.fit(*table, sample_weight=np.where(np.arange(1200) % 3, 1.0, 2.0))
    assert clf.history_.refitted
    assert clf.score(*table) > 0.6


def test_too_few_held_out_rows_or_a_given_mixup_leave_nothing_to_try(table: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(fit, "_tried", lambda *rest, **more: pytest.fail("nothing is to be tried"))
    fitted(load_wine(return_X_y=True))
    fitted(table, Recipe(mixup=1.0, refit=False))
    ProtoAttendClassifier("lstm", max_epochs=1, random_state=0, verbose=0).fit(*table)
    ProtoAttendClassifier(max_epochs=1, validation_fraction=0.0, random_state=0, verbose=0).fit(*table)


def test_a_line_says_that_both_ways_are_tried_and_all_of_them_count(table: Any, capsys: Any) -> None:
    clf = ProtoAttendClassifier(max_epochs=EPOCHS, random_state=0, verbose=1).fit(*table)
    assert (
        "adam, mixup of all rows or of half, as held-out ones choose, then with all rows, 4 ep"
        in capsys.readouterr().err
    )
    with seeded(0) as generator:
        setup = set_up(clf._settings(), *table, None, generator)
    assert trials.rounds_of(setup, trials.WAYS) == pytest.approx(0.5 + 1 + 1200 / 1080)
    assert trials.rounds_of(setup, ()) == pytest.approx(1 + 1200 / 1080)
