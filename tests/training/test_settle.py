"""Queries and keys learn on while all else stands still: prototypes come to decide as own values do."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_classification
from torch import nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.config import Settings
from protoattend.core.candidates import in_batch
from protoattend.database.judges import Judges
from protoattend.errors import UserError
from protoattend.training import fit
from protoattend.training import settle as settling
from protoattend.training.batches import Labelled
from protoattend.training.evaluation import judges_of
from protoattend.training.settle import settle, settle_where_it_helps
from protoattend.training.setup import Setup, seeded, set_up


def table(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(n, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0)


def trained_to_decide(n: int, weights: np.ndarray | None = None, **settings: Any) -> Setup:
    """Return a setup whose model was taught its own decisions, and whose attention was taught nothing."""
    recipe = Recipe(settle=True, mixup=0.0, refit=False)
    given = Settings(recipe=recipe, batch_size=32, max_epochs=20, **settings)
    with seeded(0) as generator:
        setup = set_up(given, *table(n), weights, generator)
        data, optimizer = setup.prepared.train, torch.optim.Adam(setup.model.parameters(), lr=1e-2)
        for _ in range(60):
            optimizer.zero_grad()
            nn.functional.cross_entropy(setup.model.self_logits(data.samples), data.labels).backward()
            optimizer.step()
    return setup


def agreement(setup: Setup) -> float:
    """Return how often prototypes decide as the own value does."""
    data = setup.prepared.train
    with torch.no_grad():
        output = setup.model.eval()(data.samples, in_batch, exclude=torch.eye(len(data), dtype=torch.bool))
    return float((output.prototype_logits.argmax(1) == output.self_logits.argmax(1)).float().mean())


def test_prototypes_come_to_decide_as_own_values_do() -> None:
    setup = trained_to_decide(600)
    before, parameters = agreement(setup), copy.deepcopy(setup.model.state_dict())
    settle(setup, seed=0)
    assert agreement(setup) > max(0.9, before + 0.1)
    changed = {name for name, value in setup.model.state_dict().items() if not torch.equal(value, parameters[name])}
    assert changed
    assert all(name.startswith(("query.", "key.")) for name in changed)
    assert all(parameter.requires_grad for parameter in setup.model.parameters())


def test_the_same_seed_settles_in_the_same_way() -> None:
    setup = trained_to_decide(200)
    models = [copy.deepcopy(setup.model) for _ in range(2)]
    for model in models:
        settle(replace(setup, model=model), seed=3)
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True))


def test_weights_of_rows_and_classes_and_the_regularisers_count() -> None:
    def queries(**given: Any) -> torch.Tensor:
        setup = replace(trained_to_decide(200, given.pop("weights", None), **given), model=copy.deepcopy(model))
        settle(setup, seed=0)
        return setup.model.query[0].weight

    model, y = trained_to_decide(200).model, table(200)[1]
    once = queries()
    assert torch.allclose(queries(weights=np.full(200, 3.0)), once, atol=1e-4), "three times each is once each"
    for other in (
        queries(weights=np.where(y == 0, 5.0, 1.0)),
        queries(class_weight={0: 5.0, 1: 1.0, 2: 1.0}),
        queries(lambda_sparse=0.1),
        queries(lambda_conf=0.5),
    ):
        assert not torch.allclose(other, once, atol=1e-3)


def test_few_rows_many_rows_and_undersampled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(trained_to_decide(30), seed=0)
    settle(trained_to_decide(300, undersample={0: 0.2}), seed=0)
    monkeypatch.setattr(settling, "ROWS", 100)
    monkeypatch.setattr(settling, "BATCH", 64)
    settle(trained_to_decide(300), seed=0)


def test_of_very_wide_features_fewer_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    setup, read = trained_to_decide(300), []
    monkeypatch.setattr(settling, "BATCH", 64)
    monkeypatch.setattr(settling, "FEATURES", 100 * settling.width_of(setup.model))
    together = settling.features_together
    monkeypatch.setattr(settling, "features_together", lambda *given: read.append(together(*given)) or read[-1])
    settle(setup, seed=0)
    assert [len(each) for each in read] == [100]


def test_the_scale_of_weights_changes_nothing_that_judges_say() -> None:
    setup = trained_to_decide(300)
    rows = setup.prepared.validation_rows(None)
    light = Labelled(rows.samples, rows.labels, torch.full((len(rows),), 0.01))
    torch.testing.assert_close(judges_of(light).weights, judges_of(rows).weights)


@pytest.mark.parametrize("helps", [True, False])
def test_held_out_rows_say_whether_it_stays(helps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = trained_to_decide(300)
    monkeypatch.setattr(Judges, "prefer", lambda self, logs, to: helps)
    before = copy.deepcopy(setup.model.state_dict())
    known = setup.prepared.validation_candidates(torch.Generator().manual_seed(0))
    assert settle_where_it_helps(setup, known, seed=0) == helps
    same = all(torch.equal(value, before[name]) for name, value in setup.model.state_dict().items())
    assert same != helps


def test_all_rows_settle_where_held_out_ones_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for helps in (True, False):
        rows: list[int] = []
        monkeypatch.setattr(fit, "settle", lambda setup, seed: rows.append(len(setup.prepared.train)))  # noqa: B023
        monkeypatch.setattr(fit, "settle_where_it_helps", lambda *rest: helps)  # noqa: B023
        clf = ProtoAttendClassifier(recipe=Recipe(mixup=1.0), max_epochs=2, random_state=0, verbose=0).fit(*table(1200))
        assert clf.history_.refitted
        assert rows == [1200] * helps
        assert clf.history_.settled == helps


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"recipe": Recipe(settle=False)}, False),
        ({"recipe": Recipe(attention_target="label")}, False),
        ({"recipe": "paper"}, False),
        ({"objective": "self"}, False),
        ({"objective": "prototype", "recipe": Recipe(settle=True)}, False),
        ({"objective": "self", "recipe": Recipe(settle=True)}, False),
    ],
)
def test_who_settles(settings: Any, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(settling, "settle", lambda setup, seed: asked.append(seed))
    ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0, **settings).fit(*table(100))
    assert len(asked) == int(expected)


def test_without_held_out_rows_nothing_would_say_whether_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "settle", lambda *rest: pytest.fail("nothing is held out"))
    clf = ProtoAttendClassifier(max_epochs=1, validation_fraction=0.0, random_state=0, verbose=0).fit(*table(100))
    with pytest.raises(UserError, match="settle=True is left at what held-out rows find better"):
        clf.set_params(recipe=Recipe(settle=True)).fit(*table(100))


@pytest.mark.parametrize("normalize", ["sparsemax", "softmax"])
def test_own_decisions_are_what_they_were(normalize: str) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:400].reshape(-1, 8, 8).astype(np.float32), y[:400]
    clfs = [
        ProtoAttendClassifier(
            normalize=normalize, recipe=Recipe(settle=settle), max_epochs=4, random_state=0, verbose=0
        ).fit(X[:300], y[:300])
        for settle in (False, True)
    ]
    values = [clf.database_.class_scores for clf in clfs]
    torch.testing.assert_close(values[0], values[1])
    assert clfs[0].score(X[300:], y[300:]) - 0.03 < clfs[1].score(X[300:], y[300:])
    assert not np.array_equal(*(clf.confidence(X[300:]) for clf in clfs))
