"""Sparsemax goes one of two ways by how many scores contend; both give the same weights and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from protoattend.core import sparsemax as inside
from protoattend.core.sparsemax import sparsemax

SHARP = 6 * torch.randn(5, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
WEIGHTS = torch.linspace(0.1, 4, 200, dtype=torch.float64)


def ways_taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    taken: list[str] = []
    for name in ("_AmongFew", "_AmongAll"):
        way = getattr(inside, name)

        class Watched:
            @staticmethod
            def apply(*args: Any, name: str = name, way: Any = way) -> Tensor:
                taken.append(name)
                return way.apply(*args)

        monkeypatch.setattr(inside, name, Watched)
    return taken


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_both_ways_agree(weights: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ways_taken(monkeypatch)
    found = []
    for few in (16, 10**9):
        monkeypatch.setattr(inside, "FEW", few)
        scores = SHARP.clone().requires_grad_()
        projected = sparsemax(scores, sample_weight=weights)
        (projected * torch.arange(200.0)).square().sum().backward()
        found.append((projected.detach(), scores.grad))
    assert taken == ["_AmongFew", "_AmongAll"]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_flat_scores_go_through_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ways_taken(monkeypatch)
    torch.testing.assert_close(sparsemax(torch.zeros(2, 50)), torch.full((2, 50), 0.02))
    assert taken == ["_AmongAll"]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_gradient_where_few_contend(weights: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ways_taken(monkeypatch)
    scores = SHARP.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: sparsemax(z, sample_weight=weights), scores)
    assert set(taken) == {"_AmongFew"}


def test_other_dimensions_and_shapes() -> None:
    scores = SHARP.view(5, 2, 100)
    expected = torch.stack([sparsemax(part.T) for part in scores.unbind(0)]).transpose(1, 2)
    torch.testing.assert_close(sparsemax(scores, dim=1), expected)
