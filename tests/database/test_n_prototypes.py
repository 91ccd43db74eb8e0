"""How many prototypes decide: set in fit, changed by set_n_prototypes, and counted as copies of rows would be."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

from protoattend import ProtoAttendClassifier
from protoattend.core.candidates import stored
from protoattend.core.sparsemax import sparsemax
from protoattend.database.n_prototypes import MOST, STEP, temperature_for
from protoattend.database.searchable import Searchable
from protoattend.errors import UserError
from protoattend.explain.ranking import DatabaseRanker

X, y = load_wine(return_X_y=True)


def fitted(**params: object) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(max_epochs=6, random_state=0, verbose=0, **params).fit(X, y)


def typical(classifier: ProtoAttendClassifier) -> float:
    return float(np.median([e.n_prototypes(0.95) for e in classifier.explain(X)]))


def naive_count(queries: torch.Tensor, keys: torch.Tensor) -> float:
    weights = sparsemax(queries.double() @ keys.double().T / queries.shape[1] ** 0.5).sort(1, descending=True).values
    return float(((weights.cumsum(1) < 0.95 - 1e-9).sum(1) + 1).sort().values[math.ceil(MOST * len(weights)) - 1])


def counted(keys: torch.Tensor, sample_weight: torch.Tensor | None = None) -> Searchable:
    """Return candidates of one class: what they decide does not matter here."""
    return Searchable(keys, torch.zeros(len(keys), 1), torch.zeros(len(keys), dtype=torch.long), sample_weight)


@pytest.fixture
def some() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(300, 4), torch.nn.functional.normalize(torch.rand(300, 4))


@pytest.mark.parametrize("most", [1, 3, 10, 50])
def test_the_temperature_is_the_highest_that_suffices(some: tuple[torch.Tensor, torch.Tensor], most: int) -> None:
    queries, keys = some
    temperature = temperature_for(queries, counted(keys), most)
    assert naive_count(queries / temperature, keys) <= most < naive_count(queries / (STEP * temperature), keys)


def test_held_out_rows_are_counted_where_there_are_enough(some: tuple[torch.Tensor, torch.Tensor]) -> None:
    queries, keys = some
    queries = queries.clone()
    queries[:150] *= 4  # rows that training has seen, and that find fewer prototypes

    def temperature(held_out: torch.Tensor | None) -> float:
        return temperature_for(queries, counted(keys), 5, held_out=held_out)

    new, too_few = torch.arange(150, 300), torch.arange(290, 300)
    assert naive_count(queries[new] / temperature(new), keys) <= 5 < naive_count(queries[new] / temperature(None), keys)
    assert temperature(too_few) == temperature(None)


def test_candidates_that_take_no_part_in_decisions_are_not_counted(some: tuple[torch.Tensor, torch.Tensor]) -> None:
    queries, keys = some
    labels = torch.arange(300) % 2
    scores = torch.nn.functional.one_hot(labels, 2).float()
    scores[::3] = scores[::3].flip(1)  # these argue for the other label
    typical = Searchable(keys, scores, labels, typical_only=True)
    assert len(typical.atypical) == 100
    taking_part = torch.ones(300, dtype=torch.bool)
    taking_part[typical.atypical] = False
    temperature = temperature_for(queries, typical, 8)
    assert naive_count(queries / temperature, keys[taking_part]) <= 8.5
    assert temperature > temperature_for(queries, counted(keys), 8), "among fewer, flatter weights are as few"


def test_a_row_of_weight_two_counts_like_the_row_twice(some: tuple[torch.Tensor, torch.Tensor]) -> None:
    queries, keys = (part[:200] for part in some)
    counts = torch.ones(200)
    counts[::3] = 2
    twice = torch.arange(200).repeat_interleave(counts.long())
    repeated = temperature_for(queries[twice], counted(keys[twice]), 7)
    assert temperature_for(queries, counted(keys, counts), 7) == repeated


def test_no_temperature_is_above_the_highest_allowed(some: tuple[torch.Tensor, torch.Tensor]) -> None:
    queries, keys = some
    assert temperature_for(1000 * queries, counted(keys), 50) > 1
    assert temperature_for(1000 * queries, counted(keys), 50, at_most=1.0) == 1.0


def test_fit_sharpens_until_few_prototypes_decide() -> None:
    many, few = fitted(n_prototypes=30), fitted(n_prototypes=3)
    assert typical(few) <= 3.5 < typical(many)
    first = [[e.prototypes[0].index for e in classifier.explain(X)] for classifier in (many, few)]
    assert first[0] == first[1], "the order of candidates stays as learned"


def test_the_number_changes_both_ways_and_goes_into_files(tmp_path: Path) -> None:
    classifier = fitted(n_prototypes=4)
    before, queries = typical(classifier), classifier._encode(X).queries
    for n, low, high in ((40, 20, 44), (4, 1, before)):
        classifier.database_.set_n_prototypes(n)
        assert low < typical(classifier) <= high
    classifier.database_.set_n_prototypes(40)
    assert torch.equal(classifier._encode(X).queries, queries), "a number of the model, and no rewriting of weights"
    classifier.save(tmp_path / "after")
    again = ProtoAttendClassifier.load(tmp_path / "after")
    assert again.model_.temperature == classifier.model_.temperature != 1
    np.testing.assert_allclose(again.predict_proba(X), classifier.predict_proba(X), atol=1e-6)


def test_nothing_goes_stale_and_the_folder_stays_home(tmp_path: Path) -> None:
    classifier = fitted(n_prototypes=4)
    classifier.save(tmp_path / "saved")
    loaded = ProtoAttendClassifier.load(tmp_path / "saved")
    loaded.database_.set_n_prototypes(40)
    loaded.database_.remove([3])
    assert loaded.database_.save_edits() == 1
    again = type(loaded.database_).open(
        tmp_path / "saved" / "database", loaded.model_, inputs=loaded.inputs_, classes=loaded.database_.classes
    )
    assert torch.equal(again.decide(again.rows.queries).logits, loaded.database_.decide(again.rows.queries).logits)
    reread = ProtoAttendClassifier.load(tmp_path / "saved")
    assert reread.model_.temperature == classifier.model_.temperature, "to be kept, it is saved with the model"


def test_all_that_is_decided_heeds_the_temperature() -> None:
    classifier = fitted(n_prototypes=4)
    database = classifier.database_
    queries = database.rows.queries[:9]
    logits = []
    for temperature in (1.0, 0.2):
        database.model.temperature.fill_(temperature)
        found = database.decide(queries)
        weights = sparsemax(torch.stack([database.scores(query) for query in queries]))
        torch.testing.assert_close(
            found.logits.double(), weights @ database.class_scores.double(), atol=1e-4, rtol=1e-4
        )
        kept = DatabaseRanker(database)._decide(queries, torch.full((9, 1), -1), keep=False)
        torch.testing.assert_close(kept, found.probabilities, atol=1e-4, rtol=1e-4)
        source = stored(database.rows.keys, database.rows.values)
        model = database.model
        with torch.no_grad():
            output = model(model_input(classifier)[:9], source)
        torch.testing.assert_close(output.prototype_logits, found.logits, atol=1e-4, rtol=1e-4)
        (why_not,) = classifier.contrast(X[:1], label=y[100], top=1)
        own = (database.rows.labels == database.classes.number(y[100])).nonzero().squeeze(1)
        best = database.scores(classifier._encode(X[:1]).queries[0])
        assert why_not.rivals[0].score_gap == pytest.approx(float(best.max() - best[own].max()), abs=1e-4)
        logits.append(found.logits)
    assert not torch.allclose(*logits)


def model_input(classifier: ProtoAttendClassifier) -> torch.Tensor:
    return classifier.inputs_.tensor(classifier.inputs_.source(X))


def test_a_database_with_rounded_keys_can_be_set_too() -> None:
    classifier = fitted(n_prototypes=20)
    rounded = classifier.database_.quantize_keys("int8")
    rounded.set_n_prototypes(4)
    queries = classifier._encode(X).queries
    assert rounded.attend(queries).sizes.median() < 8


def test_alike_rows_are_not_told_apart_at_any_price() -> None:
    keys = torch.nn.functional.normalize(torch.rand(10, 4, generator=torch.Generator().manual_seed(0)))
    alike = keys.repeat_interleave(20, 0)  # of 20 copies, 19 are needed for 95 %
    temperature = temperature_for(alike, counted(alike), 8)
    assert naive_count(alike / temperature, alike) == 19
    assert temperature > STEP**-47


def test_databases_of_one_model_follow_its_temperature(tmp_path: Path) -> None:
    database = fitted().database_
    before = database.decide(database.rows.queries).logits
    database.condense(60).set_n_prototypes(30)
    assert not torch.allclose(database.decide(database.rows.queries).logits, before)
    database.save(tmp_path / "saved")


@pytest.mark.parametrize("bad", [0, -1, 2.5, "ten"])
def test_a_number_that_is_none_is_refused(bad: object) -> None:
    with pytest.raises(UserError, match="n_prototypes must be None or an integer of at least 1"):
        fitted(n_prototypes=bad)
    with pytest.raises(UserError, match="n_prototypes must be an integer of at least 1"):
        fitted().database_.set_n_prototypes(bad)  # type: ignore[arg-type]


def test_softmax_gives_all_candidates_weight() -> None:
    with pytest.raises(UserError, match="sparsemax"):
        fitted(normalize="softmax").database_.set_n_prototypes(5)
