"""Keys in fewer bits: scores are off by no more than is stated."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.core.attention import attention_scores
from protoattend.database.quantize import Quantization
from protoattend.errors import BadFile, UserError

from .folders import open_again

SIZES = {"float16": 2, "int8": 1}


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("spread", [1e-4, 1.0, 300.0])
def test_scores_are_off_by_no_more_than_stated(dtype: str, spread: float) -> None:
    generator = torch.Generator().manual_seed(0)
    keys = spread * torch.randn(500, 16, generator=generator).relu() * torch.logspace(-2, 1, 16)
    keys[:, 3] = 0  # a dimension that is never used
    queries = torch.randn(40, 16, generator=generator)
    rounding = Quantization.of(keys, dtype)
    rounded = rounding.round(keys)
    assert rounded.element_size() == SIZES[dtype]
    off = attention_scores(rounding.scaled(queries), rounded.float()) - attention_scores(queries, keys)
    eps = rounding.score_error(queries)
    assert bool((off.abs().amax(1) <= 1.01 * eps + 1e-6).all())
    assert float((off.abs().amax(1) / eps).max()) > 0.1  # and the bound is not a wild one
    again = Quantization.from_state(rounding.state())
    assert again is not None
    assert torch.equal(again.round(keys), rounded)


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
@pytest.mark.parametrize("dtype", SIZES)
def test_weights_change_as_stated(wine_classifier: ProtoAttendClassifier, normalize: str, dtype: str) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    database.model.normalize = normalize
    rounded = database.quantize_keys(dtype)
    queries = database.rows.queries
    assert rounded.rows.keys.element_size() == SIZES[dtype]
    assert not rounded.decide(queries).exact
    assert database.decide(queries).exact
    assert rounded.rounding is not None
    weights = torch.zeros(2, len(queries), len(database))
    for whole, search in zip(weights, (database, rounded), strict=True):
        found = search.attend(queries)
        whole[found.rows, found.positions] = found.weights
    eps = rounded.rounding.score_error(queries, database.temperature)[:, None]
    before, after = weights
    if normalize == "sparsemax":
        assert bool(((after - before).abs() <= 2.01 * eps + 1e-4).all())
    else:
        assert bool((after <= before * torch.exp(2.01 * eps) + 1e-5).all())
        assert bool((before <= after * torch.exp(2.01 * eps) + 1e-5).all())
    mass = torch.zeros(len(queries), len(database.classes)).index_add_(1, database.rows.labels, after)
    torch.testing.assert_close(rounded.decide(queries).class_mass, mass, atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", SIZES)
def test_rounded_databases_are_kept_and_edited(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path, dtype: str
) -> None:
    X, y = wine
    database = wine_classifier.database_.quantize_keys(dtype)
    database.save(tmp_path / "database")
    opened = open_again(database, tmp_path / "database")
    for one in (database, opened):
        one.add(X[:3], y[:3])
        one.remove([2])
    opened.save_edits()
    again = open_again(database, tmp_path / "database")
    queries = database.rows.queries
    for one in (opened, again):
        assert one.rows.keys.dtype == database.rows.keys.dtype
        assert torch.equal(one.decide(queries).logits, database.decide(queries).logits)
        assert not one.decide(queries).exact
    assert torch.equal(database.without([5]).decide(queries).logits, again.without([5]).decide(queries).logits)


def test_bad_roundings(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    database = wine_classifier.database_
    with pytest.raises(UserError, match="did you mean 'int8'"):
        database.quantize_keys("int")
    rounded = database.quantize_keys("int8")
    with pytest.raises(UserError, match="rounded once, but they are int8"):
        rounded.quantize_keys("float16")
    before = rounded.rows
    rounded.rounding = Quantization.of(database.rows.keys / 100, "int8")
    with pytest.raises(UserError, match="within the range"):
        rounded.add(wine[0][:5], wine[1][:5])
    assert rounded.rows is before
    with pytest.raises(UserError, match="within the range"):
        Quantization.of(torch.full((2, 2), 1e5), "float16").round(torch.full((2, 2), 1e5))
    database.quantize_keys("int8").save_shard(tmp_path / "shards", 0, 1)
    with pytest.raises(BadFile, match="unrounded keys"):
        CandidateDatabase.merge(tmp_path / "shards", tmp_path / "database")
