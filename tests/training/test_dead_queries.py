"""Queries that are all zero ask for nothing in particular: they are counted, and warned of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.datasets import load_wine

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.training.evaluation import dead_share
from protoattend.training.loop import watch_queries


def test_a_query_is_dead_if_all_of_it_is_zero() -> None:
    assert dead_share(torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [2.0, 3.0]])) == 0.5


def test_few_dead_queries_are_no_reason_to_worry(recwarn: Any) -> None:
    watch_queries(0.5)
    assert not recwarn.list


class Silent(torch.nn.Module):
    """Features that are all zero, so that queries are the biases of their layer, cut at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(13, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0 * self.linear(x)


def test_training_without_validation_is_watched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_wine(return_X_y=True)
    start = torch.nn.Linear.reset_parameters

    def below_zero(layer: torch.nn.Linear) -> None:
        start(layer)
        if layer.bias is not None:
            torch.nn.init.constant_(layer.bias, -1.0)

    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", below_zero)
    clf = ProtoAttendClassifier(
        encoder=Silent(), validation_fraction=0.0, max_epochs=1, recipe=Recipe(mixup=0.0), random_state=0, verbose=0
    )
    with pytest.warns(UserWarning, match="100% of the queries are all zero"):
        clf.fit(X, y)
