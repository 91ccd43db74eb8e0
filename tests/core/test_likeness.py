"""Likeness: a fixed part of the score, by which alike candidates come first among those that attention holds equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.core.likeness import Likeness
from protoattend.data.characters import encode_text
from protoattend.encoders.sketch import ImageSketch, NgramSketch, TableSketch, TextSketch, make_sketch


def made(width: int = 5, rank: int = 3) -> tuple[Likeness, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sketches = torch.randn(200, width, generator=generator) * torch.arange(width, 0, -1)
    sketch = nn.Identity()
    sketch.width = width
    likeness = Likeness(sketch, rank)
    likeness.learn_from(sketches, torch.rand(200, 8, generator=generator), torch.rand(200, 8, generator=generator), 0.5)
    return likeness, sketches


def test_products_are_minus_half_the_squared_distance() -> None:
    likeness, sketches = made()
    of_queries, of_keys = likeness(sketches)
    points = (sketches - likeness.centre) @ likeness.projection
    torch.testing.assert_close(of_queries @ of_keys.T, -torch.cdist(points, points).square() / 2, atol=1e-3, rtol=1e-4)


def test_the_projection_keeps_what_varies_most() -> None:
    likeness, sketches = made()
    kept = ((sketches - likeness.centre) @ likeness.projection).std(0)
    assert kept.shape == (3,)
    assert (kept.diff() < 0).all()
    largest = likeness.projection.abs().argmax(0).tolist()
    assert largest == [0, 1, 2]


def test_its_weight_is_in_units_of_what_is_learned() -> None:
    light, sketches = made()
    sketch = nn.Identity()
    sketch.width = 5
    heavy = Likeness(sketch, 3)
    generator = torch.Generator().manual_seed(0)
    torch.randn(200, 5, generator=generator)
    heavy.learn_from(sketches, torch.rand(200, 8, generator=generator), torch.rand(200, 8, generator=generator), 2.0)
    torch.testing.assert_close(heavy.projection.abs(), 2 * light.projection.abs(), atol=1e-3, rtol=1e-3)


def test_sketches() -> None:
    images = torch.arange(2 * 3 * 28 * 28).reshape(2, 3, 28, 28) % 256
    assert ImageSketch(3, 28, 28)(images.to(torch.uint8)).shape == (2, 3 * 64)
    rows = TableSketch(1, [3])(torch.tensor([[90.0, 2.0], [float("nan"), 0.0]]))
    assert rows.tolist() == [[5.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    codes = encode_text(["a hammer and nails", "hammers and nails", "an apple pie", "", "ab"], 40)
    texts = TextSketch()
    texts.learn_from(codes)
    overlap = texts(codes) @ texts(codes).T
    assert overlap[0, 1] > overlap[0, 2]
    assert overlap[3, 3] == overlap[4, 4] == 0
    assert make_sketch("text", {"names": ("ids",)}) is None
    numbers = torch.tensor([[1, 2, 3, 0], [2, 1, 4, 0], [5, 6, 0, 0], [0, 0, 0, 0]])
    grams = NgramSketch()
    grams.learn_from(numbers)
    overlap = grams(numbers) @ grams(numbers).T
    assert overlap[0, 1] > overlap[0, 2]
    assert overlap[3, 3] == 0
    parted = NgramSketch(4)
    parted.idf.fill_(1.0)
    alike = parted(torch.tensor([[5, 6, 0, 0]])) @ parted(torch.tensor([[1, 5, 0, 0]])).T
    assert alike.item() == pytest.approx(0.25 / (0.5 * 1.25) ** 0.5)


@pytest.mark.slow
def test_prototypes_become_alike_and_decisions_stay_as_good(few_digits: Any) -> None:
    X, y = few_digits
    alike, scores = [], []
    for likeness in (0.0, 0.1):
        clf = ProtoAttendClassifier(recipe=Recipe(likeness=likeness), max_epochs=15, random_state=0, verbose=0)
        clf.fit(X[:300], y[:300])
        heaviest = [e.prototypes[0].index for e in clf.explain(X[300:], top=1)]
        scores.append(clf.score(X[300:], y[300:]))
        alike.append(np.linalg.norm(X[heaviest] - X[300:], axis=(1, 2)).mean())
    assert alike[1] < 0.9 * alike[0]
    assert scores[1] >= scores[0] - 0.02


@pytest.mark.filterwarnings("error")
def test_rows_that_are_all_alike_have_no_components_and_need_no_warning() -> None:
    sketch = nn.Identity()
    sketch.width = 4
    likeness = Likeness(sketch, 2)
    likeness.learn_from(torch.ones(30, 4), torch.rand(30, 8), torch.rand(30, 8), 0.5)
    assert torch.isfinite(likeness(torch.rand(3, 4))[0]).all()
