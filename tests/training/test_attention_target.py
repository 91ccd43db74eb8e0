"""What the prototype and joint terms are to reach: the decision by the input's own value, or the label."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from protoattend import ProtoAttendClassifier
from protoattend.core.mixup import Mix
from protoattend.core.model import ProtoAttend
from protoattend.errors import UserError
from protoattend.training.batches import Batch
from protoattend.training.candidates import InBatchStrategy
from protoattend.training.config import TrainingConfig
from protoattend.training.losses import prototype_terms

BATCH = Batch(torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3, torch.arange(6))
RELABELLED = replace(BATCH, y=BATCH.y.flip(0).contiguous())


class Blending(nn.Module):
    def forward(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        return x if mix is None else mix(x)


def losses(batch: Batch, row_weights: Tensor | None = None, **config: str) -> dict[str, float]:
    torch.manual_seed(0)
    model = ProtoAttend(Blending(), n_classes=3, in_features=4)
    terms = prototype_terms(TrainingConfig(**config), InBatchStrategy(), row_weights=row_weights)  # type: ignore[arg-type]
    return {name: float(term.detach()) for name, term in terms(model, batch, 0.5).items()}


def changed(before: dict[str, float], after: dict[str, float]) -> set[str]:
    return {name for name in before if before[name] != pytest.approx(after[name])}


def test_towards_its_own_decision_only_the_self_term_knows_the_labels() -> None:
    own = {"attention_target": "own"}
    assert changed(losses(BATCH, **own), losses(RELABELLED, **own)) == {"self"}
    assert changed(losses(BATCH), losses(RELABELLED)) == {"self", "prototype", "joint"}


@pytest.mark.parametrize("class_weight", [None, torch.tensor([9.0, 1.0, 1.0])])
def test_attention_that_decides_as_the_own_value_does_is_at_its_best(class_weight: Tensor | None) -> None:
    torch.manual_seed(0)
    model = ProtoAttend(nn.Flatten(), n_classes=3, in_features=4)
    batch = replace(BATCH, x=BATCH.x[:1].expand(6, 4))  # each attends to copies of itself
    terms = prototype_terms(TrainingConfig(attention_target="own"), InBatchStrategy(), class_weight)(model, batch, 0.5)
    (gradient,) = torch.autograd.grad(terms["prototype"], model.decision.weight)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("objective", ["prototype", "joint"])
def test_where_labels_teach_nothing_else_they_teach_attention(objective: str) -> None:
    params = {"objective": objective, "attention_target": "own"}
    assert changed(losses(BATCH, **params), losses(RELABELLED, **params)) == {objective}


@pytest.mark.parametrize("mix", [None, Mix.draw(6, 1.0, torch.Generator().manual_seed(3))])
def test_rows_count_as_often_as_their_weights_say(mix: Mix | None) -> None:
    batch = replace(BATCH, mix=mix)
    weights = torch.tensor([3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    own = {"attention_target": "own"}
    assert changed(losses(batch, **own), losses(batch, weights, **own)) == {"self", "prototype", "joint"}
    assert losses(batch, 2 * weights, **own) == pytest.approx(losses(batch, weights, **own))


def test_unknown_name() -> None:
    with pytest.raises(UserError, match="attention_target must be one of 'own', 'label', but got 'labels'"):
        ProtoAttendClassifier(attention_target="labels", verbose=0).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
