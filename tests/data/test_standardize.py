"""Numbers of any size are standardised, and a few far out do not hide what the others are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.data.standardize import mean_and_scale
from protoattend.data.tables import TableInputs

NUMBERS = np.random.default_rng(0).normal(40, 12, 200)


def test_numbers_as_they_mostly_are() -> None:
    assert mean_and_scale(NUMBERS) == (NUMBERS.mean(), NUMBERS.std())
    skewed = np.exp(NUMBERS / 12)
    assert mean_and_scale(skewed) == (skewed.mean(), skewed.std())
    mostly_zero = np.where(np.arange(200) % 10, 0.0, 99_999.0)
    assert mean_and_scale(mostly_zero) == (mostly_zero.mean(), mostly_zero.std())


@pytest.mark.parametrize("outlier", [1e9, -1e12, 1e30, 1e308])
def test_one_value_far_out_leaves_the_others_apart(outlier: float) -> None:
    numbers = np.where(np.arange(200) == 7, outlier, NUMBERS)[:, None]
    encoded = TableInputs.fit(numbers).source(numbers)[:, 0]
    assert np.isfinite(encoded).all()
    others = np.delete(encoded, 7)
    assert len(np.unique(others)) == 199
    assert 0.5 < others.std() < 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e-19, 1e154, 1e307])
def test_the_size_of_numbers_does_not_matter(size: float, tmp_path: Path) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    y = (X[:, 0] > 0).astype(int)
    classifier = ProtoAttendClassifier(random_state=0, verbose=0, max_epochs=2).fit(X * size, y)
    classifier.explain(X[:3] * size).to_html()
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X * size), classifier.predict_proba(X * size))
    expected = TableInputs.fit(X).source(X)
    np.testing.assert_allclose(TableInputs.fit(X * size).source(X * size), expected, atol=1e-5)


@pytest.mark.filterwarnings("error")
def test_later_numbers_may_be_too_large_to_be_standardised() -> None:
    inputs = TableInputs.fit(NUMBERS[:, None])
    later = inputs.source(np.array([[1e300], [-1e300], [np.nan]]))
    assert np.isfinite(later[:2]).all()
    assert np.isnan(later[2]).all()
    assert len(inputs.preview(later[0])["0"]) < 20
