"""Who trains what, at which rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from protoattend import Recipe
from protoattend.core.model import ProtoAttend
from protoattend.encoders.image import FastCNN
from protoattend.errors import UserError
from protoattend.training.optimizers import ATTENTION, DECAY, RATE, SHIFT, make_optimizers

from ..plans import plan


def names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[set[str]]:
    by_id = {id(parameter): name for name, parameter in model.named_parameters()}
    return [{by_id[id(parameter)] for parameter in group["params"]} for group in optimizer.param_groups]


def test_adam_trains_everything() -> None:
    model = ProtoAttend(FastCNN(1, (4, 8)), 3)
    (adam,) = make_optimizers(model, plan(learning_rate=0.01)).parts
    assert isinstance(adam, torch.optim.Adam)
    assert names(model, adam) == [{name for name, _ in model.named_parameters()}]


def test_filters_alone_decay() -> None:
    model = ProtoAttend(FastCNN(1, (4, 8)), 3)
    recipe = {"weight_decay": 0.1, "weight_decay_on": "filters"}
    (adam,) = make_optimizers(model, plan(learning_rate=0.01, **recipe)).parts
    filters, others = names(model, adam)
    assert [group["weight_decay"] for group in adam.param_groups] == [0.1, 0.0]
    assert filters == {name for name, parameter in model.named_parameters() if parameter.ndim == 4}
    assert filters | others == {name for name, _ in model.named_parameters()}
    (adam,) = make_optimizers(ProtoAttend(nn.Linear(4, 4), 3, in_features=4), plan(**recipe)).parts
    assert [group["weight_decay"] for group in adam.param_groups] == [0.0]


def test_sgd_trains_the_encoder_and_decays_only_its_matrices() -> None:
    model = ProtoAttend(FastCNN(1, (4, 8)), 3)
    optimizers = make_optimizers(model, plan(learning_rate=0.01, optimizer="sgd"))
    adam, sgd = optimizers.parts
    (values, attention), (matrices, others, shifts) = names(model, adam), names(model, sgd)
    assert attention == {name for name, _ in model.named_parameters() if name.startswith(("query.", "key."))}
    assert values == {name for name, _ in model.named_parameters() if name.startswith(("value.", "decision."))}
    assert {len(group) > 0 for group in (values, attention, matrices, others, shifts)} == {True}
    assert all(model.get_parameter(name).ndim > 1 for name in matrices)
    assert all(model.get_parameter(name).ndim == 1 for name in others | shifts)
    assert {name.rpartition(".")[2] for name in shifts} == {"bias"}
    assert [group["weight_decay"] for group in sgd.param_groups] == [DECAY, 0.0, 0.0]
    optimizers.scale(0.5)
    assert [group["lr"] for part in optimizers.parts for group in part.param_groups] == pytest.approx(
        [0.005, 0.005 * ATTENTION, 0.005 * RATE, 0.005 * RATE, 0.005 * RATE * SHIFT]
    )


def test_an_encoder_without_weights_leaves_sgd_nothing() -> None:
    assert len(make_optimizers(ProtoAttend(nn.Flatten(), 3, in_features=4), plan(optimizer="sgd")).parts) == 1


def test_unknown_name() -> None:
    with pytest.raises(UserError, match="optimizer must be one of 'auto', 'adam', 'sgd', but got 'adamw'"):
        Recipe(optimizer="adamw")
