"""How many prototypes decide: set in fit, changed by set_n_prototypes, and counted as copies of rows would be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

from protoattend import ProtoAttendClassifier
from protoattend.core.normalize import sparsemax
from protoattend.database.n_prototypes import STEP, sharpening
from protoattend.errors import StaleDatabase, UserError

X, y = load_wine(return_X_y=True)


def fitted(**params: object) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(max_epochs=6, random_state=0, verbose=0, **params).fit(X, y)


def typical(classifier: ProtoAttendClassifier) -> float:
    return float(np.median([e.n_prototypes(0.95) for e in classifier.explain(X)]))


def naive_median(queries: torch.Tensor, keys: torch.Tensor) -> float:
    weights = sparsemax(queries.double() @ keys.double().T / queries.shape[1] ** 0.5).sort(1, descending=True).values
    return float(((weights.cumsum(1) < 0.95 - 1e-9).sum(1) + 1).sort().values[(len(weights) - 1) // 2])


@pytest.fixture
def some() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(300, 4), torch.nn.functional.normalize(torch.rand(300, 4))


@pytest.mark.parametrize("most", [1, 3, 10, 50])
def test_the_factor_is_the_least_that_suffices(some: tuple[torch.Tensor, torch.Tensor], most: int) -> None:
    queries, keys = some
    factor = sharpening(queries, keys, torch.ones(len(keys)), most)
    assert naive_median(factor * queries, keys) <= most < naive_median(factor / STEP * queries, keys)


def test_a_row_of_weight_two_counts_like_the_row_twice(some: tuple[torch.Tensor, torch.Tensor]) -> None:
    queries, keys = (part[:200] for part in some)
    weights = torch.ones(200)
    weights[::3] = 2
    twice = torch.arange(200).repeat_interleave(weights.long())
    repeated = sharpening(queries[twice], keys[twice], torch.ones(len(twice)), 7)
    assert sharpening(queries, keys, weights, 7) == repeated


def test_nothing_gets_flatter_than_asked(some: tuple[torch.Tensor, torch.Tensor]) -> None:
    queries, keys = some
    assert sharpening(1000 * queries, keys, torch.ones(len(keys)), 50, fewest_steps=0) == 1.0


def test_fit_sharpens_until_few_prototypes_decide() -> None:
    as_learned, few = fitted(n_prototypes=None), fitted(n_prototypes=3)
    assert typical(few) <= 3.5 < typical(as_learned)
    first = [[e.prototypes[0].index for e in classifier.explain(X)] for classifier in (as_learned, few)]
    assert first[0] == first[1], "the order of candidates stays as learned"


def test_refocus_changes_the_number_both_ways_and_goes_into_files(tmp_path: Path) -> None:
    classifier = fitted(n_prototypes=4)
    classifier.save(tmp_path / "before")
    classifier.database_.set_n_prototypes(40)
    assert 20 < typical(classifier) <= 44
    with pytest.raises(StaleDatabase):
        type(classifier.database_).open(
            tmp_path / "before" / "database",
            classifier.model_,
            inputs=classifier.inputs_,
            classes=classifier.database_.classes,
        )
    classifier.save(tmp_path / "after")
    again = ProtoAttendClassifier.load(tmp_path / "after")
    np.testing.assert_allclose(again.predict_proba(X), classifier.predict_proba(X), atol=1e-6)
    own = again._encode(X).queries
    np.testing.assert_allclose(again.database_.rows.queries, own, rtol=1e-4, atol=1e-4)


def test_a_database_with_rounded_keys_is_refocused_too() -> None:
    classifier = fitted(n_prototypes=20)
    rounded = classifier.database_.quantize_keys("int8")
    rounded.set_n_prototypes(4)
    queries = classifier._encode(X).queries
    assert np.median([len(found.weights) for found in rounded.prototypes(queries)]) < 8


def test_alike_rows_are_not_told_apart_at_any_price() -> None:
    keys = torch.nn.functional.normalize(torch.rand(10, 4, generator=torch.Generator().manual_seed(0)))
    alike = keys.repeat_interleave(20, 0)  # of 20 copies, 19 are needed for 95 %
    factor = sharpening(alike, alike, torch.ones(200), 8)
    assert naive_median(factor * alike, alike) == 19
    assert factor < STEP**47


def test_a_database_that_shares_a_refocused_model_is_not_saved_as_if_current(tmp_path: Path) -> None:
    database = fitted().database_
    database.condense(60).set_n_prototypes(30)
    with pytest.raises(StaleDatabase):
        database.save(tmp_path / "stale")


@pytest.mark.parametrize("bad", [0, -1, 2.5, "ten"])
def test_a_number_that_is_none_is_refused(bad: object) -> None:
    with pytest.raises(UserError, match="n_prototypes must be None or an integer of at least 1"):
        fitted(n_prototypes=bad)
    with pytest.raises(UserError, match="n_prototypes must be an integer of at least 1"):
        fitted().database_.set_n_prototypes(bad)  # type: ignore[arg-type]


def test_softmax_is_not_refocused() -> None:
    with pytest.raises(UserError, match="sparsemax"):
        fitted(normalize="softmax").database_.set_n_prototypes(5)
