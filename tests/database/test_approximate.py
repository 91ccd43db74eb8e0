"""Attention to what another engine finds is exact among it, and bounds what it misses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.database.approximate import FaissNeighbours, MilvusNeighbours, Neighbours, missed_mass
from protoattend.errors import UserError


class AllCompared:
    """An engine in plain numpy: the interface is no more than `search`."""

    def __init__(self, database: CandidateDatabase) -> None:
        self.ids, self.keys = database.rows.ids, database.rows.keys.numpy()

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = queries @ self.keys.T
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return self.ids[order], np.take_along_axis(scores, order, 1)


@pytest.fixture(params=["softmax", "sparsemax"])
def database(request: Any, wine_classifier: ProtoAttendClassifier) -> CandidateDatabase:
    """Weighted, with indices that are not positions."""
    base = copy.deepcopy(wine_classifier.database_)
    base.model.normalize = request.param
    if request.param == "softmax":
        base.readings = None  # as fit leaves it: all candidates decide
    base.remove([0, 1, 70])
    rows = base.rows
    weights = torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0]).repeat(len(rows) // 5)
    return base._with(
        type(rows)(rows.ids, rows.labels, rows.keys, rows.class_scores, rows.edited, weights, rows.blocks)
    )


@pytest.fixture(params=["numpy", "faiss", "milvus"])
def engine(request: Any, database: CandidateDatabase, tmp_path: Path) -> Iterator[Neighbours]:
    if request.param == "numpy":
        yield AllCompared(database)
    elif request.param == "faiss":
        pytest.importorskip("faiss", reason="pip install 'protoattend-torch[ann]'")
        yield FaissNeighbours.build(database)
    else:
        pytest.importorskip("milvus_lite", reason="pip install 'protoattend-torch[milvus]'")
        made = MilvusNeighbours.build(database, tmp_path / "keys.db")
        yield made
        made.close()


def test_all_candidates_found_is_exact_attention(database: CandidateDatabase, engine: Neighbours) -> None:
    queries, own = database.rows.queries, torch.arange(len(database))
    approximate = database.approximate(engine, k=len(database))
    for exclude in (None, own):
        found, exact = approximate.decide(queries, own=exclude), database.decide(queries, own=exclude)
        assert not found.exact
        assert exact.exact
        torch.testing.assert_close(found.logits, exact.logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.class_mass, exact.class_mass, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.largest_score, exact.largest_score, atol=1e-4, rtol=1e-4)
        assert found.missed is not None
        assert float(found.missed.max()) == 0
        dense = torch.zeros(2, len(database), len(database))
        for whole, search in zip(dense, (approximate, database), strict=True):
            attended = search.attend(queries, own=exclude)
            whole[attended.rows, attended.positions] = attended.weights
        torch.testing.assert_close(dense[0], dense[1], atol=1e-4, rtol=0)
        torch.testing.assert_close(dense.sum(2), torch.ones(2, len(database)), atol=1e-4, rtol=0)


def test_what_is_missed_is_bounded(database: CandidateDatabase, engine: Neighbours) -> None:
    queries = database.rows.queries[::7]
    bounds = []
    for k in (1, 5, 20, 60, len(database)):
        bound = database.approximate(engine, k).decide(queries).missed
        true = missed_mass(database, engine, queries, k=k)
        assert bound is not None
        assert bool((true <= bound + 1e-4).all())
        bounds.append(float(bound.mean()))
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > 0.3  # one candidate is not enough
    assert bounds[-1] == 0


def test_rows_do_not_depend_on_their_batch(database: CandidateDatabase) -> None:
    approximate = database.approximate(AllCompared(database), k=9)
    queries = database.rows.queries[:20]
    alone = torch.cat([approximate.decide(query[None]).logits for query in queries])
    torch.testing.assert_close(approximate.decide(queries).logits, alone, atol=1e-6, rtol=0)


def test_what_the_database_no_longer_has_is_left_out(database: CandidateDatabase) -> None:
    engine = AllCompared(database)  # made before the edit
    smaller = database.without(database.indices[:100])
    found = smaller.approximate(engine, k=len(database)).decide(smaller.rows.queries)
    torch.testing.assert_close(found.logits, smaller.decide(smaller.rows.queries).logits, atol=1e-4, rtol=1e-4)
    with pytest.raises(UserError, match="found none"):
        database.without(database.indices[3:]).approximate(engine, k=1).decide(database.rows.queries[100:])


def test_edits_go_back_to_exact_search(database: CandidateDatabase) -> None:
    approximate = database.approximate(AllCompared(database), k=2)
    approximate.remove([5])
    assert approximate.decide(database.rows.queries[:3]).exact
    assert 5 in database.indices


def test_a_classifier_decides_and_explains_with_an_engine(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    classifier = copy.copy(wine_classifier)
    classifier.database_ = wine_classifier.database_.approximate(AllCompared(wine_classifier.database_), k=64)
    assert classifier.score(X, y) > 0.9
    assert sum(p.weight for p in classifier.explain(X[:1], top=100)[0].prototypes) == pytest.approx(1, abs=1e-4)


def test_faiss_cells_find_most(database: CandidateDatabase) -> None:
    pytest.importorskip("faiss", reason="pip install 'protoattend-torch[ann]'")
    queries = database.rows.queries
    few, all_cells = (FaissNeighbours.build(database, "IVF8,Flat", n_probe=n) for n in (1, 8))
    missed = [float(missed_mass(database, engine, queries, k=100).mean()) for engine in (few, all_cells)]
    exact = float(missed_mass(database, AllCompared(database), queries, k=100).mean())
    assert missed[1] == pytest.approx(exact, abs=1e-3)
    assert missed[0] >= missed[1]
    with pytest.raises(UserError, match="'cake' does not"):
        FaissNeighbours.build(database, "cake")


def test_milvus_keeps_its_file(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason="pip install 'protoattend-torch[milvus]'")
    database = wine_classifier.database_
    MilvusNeighbours.build(database, tmp_path / "keys.db").close()
    with pytest.raises(UserError, match="'candidates' exists"):
        MilvusNeighbours.build(database, tmp_path / "keys.db")
    opened = MilvusNeighbours(tmp_path / "keys.db")
    indices, scores = opened.search(database.rows.queries[:2].numpy(), 3)
    opened.close()
    expected = AllCompared(database).search(database.rows.queries[:2].numpy(), 3)
    np.testing.assert_allclose(scores, expected[1], rtol=1e-5)
    assert indices.shape == (2, 3)


def test_bad_k(database: CandidateDatabase) -> None:
    with pytest.raises(UserError, match="k must be an integer of at least 1, but got 0"):
        database.approximate(AllCompared(database), k=0)
