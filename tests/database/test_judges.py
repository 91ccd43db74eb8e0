"""Judges against sums written out, and how often they prefer what is better or only happens to be."""

from __future__ import annotations

import math

import pytest
import torch

from protoattend.database.judges import Judges


def shares(n: int, right: float, seed: int = 0, noise: float = 0.0) -> torch.Tensor:
    """Return logarithms of the shares of two classes, the first of which has about this share."""
    g = torch.Generator().manual_seed(seed)
    odds = math.log(right / (1 - right)) + noise * torch.randn(n, generator=g, dtype=torch.float64)
    return torch.stack([odds, torch.zeros(n, dtype=torch.float64)], dim=1).log_softmax(1)


def test_loss_by_hand() -> None:
    judges = Judges(torch.tensor([0, 1]), torch.tensor([3.0, 1.0]))
    logs = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], dtype=torch.float64).log()
    wrong = 1 / 6  # four rows are counted
    each = -(5 / 6) * math.log(0.5) - wrong * (math.log(0.25) + math.log(0.25)) / 2
    assert judges.losses(logs).tolist() == pytest.approx([each, each])
    assert judges.loss(logs) == pytest.approx(each)
    other = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]], dtype=torch.float64).log()
    assert judges.loss(other) > judges.loss(logs)


def test_certainty_is_no_better_than_many_rows_can_show() -> None:
    losses = {
        n: [Judges(torch.zeros(n, dtype=torch.long), torch.ones(n)).loss(shares(n, p)) for p in (0.9, 0.99, 0.9999)]
        for n in (8, 1000)
    }
    assert losses[8][0] < losses[8][2]
    assert losses[1000][0] > losses[1000][1]


def test_what_is_better_is_preferred() -> None:
    judges = Judges(torch.zeros(200, dtype=torch.long), torch.ones(200))
    better, worse = shares(200, 0.8, 1, noise=0.3), shares(200, 0.7, 2, noise=0.3)
    assert judges.prefer(better, to=worse)
    assert not judges.prefer(worse, to=better)
    assert not judges.prefer(better, to=better)


@pytest.mark.parametrize("n", [1, 3, 10, 300])
def test_chance_is_seldom_preferred(n: int) -> None:
    judges = Judges(torch.zeros(n, dtype=torch.long), torch.ones(n))
    pairs = [(shares(n, 0.8, 2 * i, noise=1.0), shares(n, 0.8, 2 * i + 1, noise=1.0)) for i in range(200)]
    assert sum(judges.prefer(one, to=other) for one, other in pairs) < 16, "about five are to be expected"


def test_rows_that_count_for_nothing_have_no_say() -> None:
    labels = torch.zeros(60, dtype=torch.long)
    weights = torch.where(torch.arange(60) < 30, 1.0, 0.0)
    one, other = (torch.cat([shares(30, a), shares(30, b)]) for a, b in ((0.8, 0.1), (0.7, 0.9)))
    assert Judges(labels, weights).prefer(one, to=other)
    assert not Judges(labels, torch.ones(60)).prefer(one, to=other)
