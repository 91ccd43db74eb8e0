"""What the prototype and joint terms are to reach: the decision by the input's own value, or the label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.core.mixup import Mix
from protoattend.core.model import ProtoAttend
from protoattend.errors import UserError
from protoattend.training.batches import Batch
from protoattend.training.candidates import Bank, InBatch
from protoattend.training.losses import prototype_terms

from ..plans import plan

BATCH = Batch(torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3, torch.arange(6))
RELABELLED = replace(BATCH, y=BATCH.y.flip(0).contiguous())


class Blending(nn.Module):
    def forward(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        return x if mix is None else mix(x)


def losses(batch: Batch, row_weights: Tensor | None = None, **config: Any) -> dict[str, float]:
    torch.manual_seed(0)
    model = ProtoAttend(Blending(), n_classes=3, in_features=4)
    terms = prototype_terms(plan(**config), InBatch(), sample_weight=row_weights)
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
    terms = prototype_terms(plan(attention_target="own"), InBatch(), class_weight)(model, batch, 0.5)
    (gradient,) = torch.autograd.grad(terms["prototype"], model.decision.weight)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("objective", ["prototype", "joint"])
def test_where_labels_teach_nothing_else_they_teach_attention(objective: str) -> None:
    params = {"objective": objective, "attention_target": "own"}
    assert changed(losses(BATCH, **params), losses(RELABELLED, **params)) == {objective}


MIX = Mix.draw(6, 1.0, torch.Generator().manual_seed(3))


@pytest.mark.parametrize("mix", [None, MIX])
def test_rows_count_as_often_as_their_weights_say(mix: Mix | None) -> None:
    batch = replace(BATCH, mix=mix)
    weights = torch.tensor([3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    own = {"attention_target": "own", "agreement_weight": 1.0}
    everything = {"self", "prototype", "joint", "agreement"}
    assert changed(losses(batch, **own), losses(batch, weights, **own)) == everything
    assert losses(batch, 2 * weights, **own) == pytest.approx(losses(batch, weights, **own))


def test_attention_learns_doubt_from_blends() -> None:
    blends, own = replace(BATCH, mix=MIX), {"attention_target": "own", "agreement_weight": 1.0}
    assert "agreement" in losses(blends, **own)
    assert "agreement" not in losses(blends, agreement_weight=1.0)  # the paper's targets, and nothing else
    assert set(losses(blends, objective="self", **own)) == {"self"}  # attention is not trained at all
    grouped = replace(blends, y=torch.arange(6) // 2)  # who shares a label is another question than which label it is
    assert changed(losses(blends, **own), losses(grouped, **own)) == {"self", "agreement"}


def test_agreement_is_of_what_inputs_and_candidates_are_made_of() -> None:
    torch.manual_seed(0)
    model = ProtoAttend(Blending(), n_classes=3, in_features=4)
    batch = replace(BATCH, mix=MIX)
    draw = InBatch().draw(batch, 0.5)
    weights = model(batch.x, draw.source, draw.exclude(batch.parents), batch.mix).weights.tolist()
    votes = [[0.0] * 3 for _ in range(6)]
    for i, (partner, share) in enumerate(zip(MIX.partner.tolist(), MIX.share.tolist(), strict=True)):
        votes[i][int(BATCH.y[i])] += share
        votes[i][int(BATCH.y[partner])] += 1 - share
    expected = 0.0
    for i in range(6):
        for c in range(3):
            mass = sum(weights[i][j] * votes[j][c] for j in range(6))
            expected += (mass - votes[i][c]) ** 2 / 6
    found = losses(batch, attention_target="own", agreement_weight=2.0)["agreement"]
    assert found == pytest.approx(2 * expected, rel=1e-5)


@pytest.mark.parametrize(("shape", "mixup", "taught"), [((8, 8), 1, True), ((8, 8), 0, False), ((64,), 1, False)])
def test_blended_images_alone_teach_it(shape: tuple[int, ...], mixup: float, taught: bool) -> None:
    X = torch.randn(40, *shape, generator=torch.Generator().manual_seed(0)).numpy()
    clf = ProtoAttendClassifier(max_epochs=1, recipe=Recipe(mixup=mixup), random_state=0, verbose=0).fit(X, [0, 1] * 20)
    assert ("agreement" in clf.history_[0].losses) == taught


def test_candidates_of_past_steps_vote_for_their_own_label() -> None:
    bank, batch = Bank(size=6), replace(BATCH, mix=MIX)
    model = ProtoAttend(Blending(), n_classes=3, in_features=4)
    bank.remember(model.encode(BATCH.x), RELABELLED)
    votes = bank.draw(batch, 0.5).votes(3)
    torch.testing.assert_close(votes[:6], batch.votes(3))
    torch.testing.assert_close(votes[6:], RELABELLED.votes(3))


def test_unknown_name() -> None:
    with pytest.raises(UserError, match="attention_target must be one of 'own', 'label', but got 'labels'"):
        Recipe(attention_target="labels")
