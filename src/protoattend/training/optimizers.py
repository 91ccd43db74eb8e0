"""What takes the steps: Adam throughout, or SGD for the encoder and Adam for the heads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from protoattend.config import TrainingPlan
from protoattend.core.model import ProtoAttend
from protoattend.encoders.pretrained import FineTuned

# Of the encoder by SGD, as in airbench (Jordan, 2024) at batches of 256: its rate beside Adam's, momentum, the decay of
# its weights (not of biases and norms), and the rate of batch norms' shifts beside that of all else.
RATE, MOMENTUM, DECAY, SHIFT = 150.0, 0.85, 1.3e-3, 64.0
# The rate of queries and keys by Adam beside it: at Adam's own they fall behind an encoder that changes so fast.
ATTENTION = 10.0


class Optimizers:
    """Several optimizers that step together; `rates` are those of their parameter groups before any schedule."""

    def __init__(self, parts: Iterable[torch.optim.Optimizer]) -> None:
        self.parts = tuple(parts)
        self.rates = [group["lr"] for part in self.parts for group in part.param_groups]

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def scale(self, factor: float) -> None:
        """Set every rate to `factor` times what it is before the schedule."""
        groups = (group for part in self.parts for group in part.param_groups)
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = factor * rate

    def step(self) -> None:
        for part in self.parts:
            part.step()


def make_optimizers(model: ProtoAttend, plan: TrainingPlan) -> Optimizers:
    """Return the optimizers called `plan.recipe.optimizer`.

    "sgd" trains the encoder, where it has weights of our own to train, by SGD with Nesterov momentum. The heads stay
    with Adam, since attention gives them gradients of any size, those of queries and keys at a higher rate.
    """
    groups = parameter_groups(model, plan.learning_rate)
    if plan.recipe.weight_decay_on == "filters":
        groups = _decaying_filters_alone(model, groups)
    own = _trained_from_scratch(model.encoder) if plan.recipe.optimizer == "sgd" else []
    if not own:
        return Optimizers([_by_adam(groups, plan)])
    attention = [*model.query.parameters(), *model.key.parameters()]
    taken = {*own, *attention}
    rest = [group | {"params": [p for p in group["params"] if p not in taken]} for group in groups]
    faster = {"params": attention, "lr": ATTENTION * plan.learning_rate}
    by_sgd = _by_sgd(model.encoder, own, RATE * plan.learning_rate, DECAY + plan.recipe.weight_decay)
    return Optimizers([_by_adam([*rest, faster], plan), by_sgd])


def _by_adam(groups: list[dict[str, Any]], plan: TrainingPlan) -> torch.optim.Optimizer:
    return torch.optim.Adam(groups, weight_decay=plan.recipe.weight_decay, fused=True)


def _decaying_filters_alone(model: nn.Module, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups with all that is no filter of a convolution in groups of its own, which do not decay."""
    filters = {module.weight for module in model.modules() if isinstance(module, nn.modules.conv._ConvNd)}
    split = []
    for group in groups:
        split += [
            group | {"params": [p for p in group["params"] if p in filters]},
            group | {"params": [p for p in group["params"] if p not in filters], "weight_decay": 0.0},
        ]
    return [group for group in split if group["params"]]


def _by_sgd(encoder: nn.Module, own: list[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    norms = (module for module in encoder.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm))
    shifts = {norm.bias for norm in norms}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in own if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in own if p.ndim <= 1 and p not in shifts]},
        {"params": [p for p in own if p in shifts], "lr": SHIFT * rate},
    ]
    return torch.optim.SGD(groups, lr=rate, momentum=MOMENTUM, nesterov=True)


def parameter_groups(model: nn.Module, learning_rate: float) -> list[dict[str, Any]]:
    """Return what an optimizer trains at which rate: fine-tuned modules at their own, all else at `learning_rate`."""
    tuned = [module for module in model.modules() if isinstance(module, FineTuned)]
    apart = {parameter for module in tuned for parameter in module.parameters()}
    common = [parameter for parameter in model.parameters() if parameter not in apart]
    own = [{"params": list(module.parameters()), "lr": module.learning_rate} for module in tuned]
    return [{"params": common, "lr": learning_rate}, *own]


def _trained_from_scratch(encoder: nn.Module) -> list[nn.Parameter]:
    tuned = {p for module in encoder.modules() if isinstance(module, FineTuned) for p in module.parameters()}
    return [parameter for parameter in encoder.parameters() if parameter.requires_grad and parameter not in tuned]
