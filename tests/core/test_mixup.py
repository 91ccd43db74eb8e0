"""Blended inputs: shares, targets, and that nothing attends to a part of itself."""

from __future__ import annotations

import pytest
import torch

from protoattend.core.mixup import Mix
from protoattend.core.model import Encoded
from protoattend.encoders.build import build_encoder
from protoattend.training.batches import Batch
from protoattend.training.candidates import Bank, InBatch


def draw(size: int = 12, blended: float = 1.0, seed: int = 0) -> Mix:
    return Mix.draw(size, blended, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("blended", [0.1, 0.5, 1.0])
def test_shares_of_what_is_blended_lie_between_a_half_and_one(blended: float) -> None:
    mix = draw(4000, blended)
    pure = mix.partner == torch.arange(4000)
    assert pure.float().mean() == pytest.approx(1 - blended, abs=0.03)
    assert (mix.share[pure] == 1).sum() >= pure.sum() - 5, "one that is blended may have drawn itself"
    others = mix.share[~pure]
    assert (float(others.min()) >= 0.5, float(others.max()) <= 1) == (True, True)
    assert others.mean() == pytest.approx(0.75, abs=0.03)


def test_what_is_pure_may_attend_to_all_others() -> None:
    mix = draw(12, 0.0)
    batch = Batch(torch.arange(12), torch.arange(12) % 3, torch.arange(12), mix)
    assert InBatch().draw(batch, 0.0).exclude(batch.parents).tolist() == torch.eye(12, dtype=torch.bool).tolist()


def test_blending_by_hand() -> None:
    mix = Mix(torch.tensor([1, 0]), torch.tensor([0.75, 1.0]))
    features = torch.tensor([[4.0, 0.0], [0.0, 8.0]])
    assert mix(features).tolist() == [[3.0, 2.0], [0.0, 8.0]]
    targets = Batch(torch.zeros(2, 1), torch.tensor([2, 0]), torch.arange(2), mix).targets(3)
    assert targets.tolist() == [[0.25, 0.0, 0.75], [1.0, 0.0, 0.0]]


def test_draws_come_from_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second, other = draw(seed=1), draw(seed=1), draw(seed=2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.share, second.share)
    assert not torch.equal(first.share, other.share)


@pytest.mark.parametrize("seed", range(5))
def test_no_input_may_attend_to_a_part_of_itself(seed: int) -> None:
    rows = torch.arange(100, 112)
    mix = draw(seed=seed)
    parts = [{int(rows[i]), int(rows[mix.partner[i]])} for i in range(12)]
    batch = Batch(rows, rows % 3, rows, mix)
    excluded = InBatch().draw(batch, 0.0).exclude(batch.parents)
    assert excluded.tolist() == [[bool(parts[i] & parts[j]) for j in range(12)] for i in range(12)]


def test_a_bank_knows_what_its_blends_are_mostly_made_of() -> None:
    first = Batch(
        torch.zeros(3, 1), torch.zeros(3), torch.tensor([1, 2, 3]), Mix(torch.tensor([1, 2, 0]), torch.ones(3))
    )
    bank = Bank(8)
    bank.remember(Encoded(torch.zeros(3, 2), torch.zeros(3, 2), torch.zeros(3, 2)), first)
    pure = Batch(torch.zeros(2, 1), torch.zeros(2), torch.tensor([3, 9]))
    excluded = bank.draw(pure, 0.5).exclude(pure.parents)
    # The batch itself first, then blends mostly of 1, 2 and 3.
    assert excluded.tolist() == [[True, False, False, False, True], [False, True, False, False, False]]


@pytest.mark.parametrize(
    ("kind", "form", "x"),
    [
        ("images", {"channels": 1, "height": 8, "width": 8}, torch.rand(12, 1, 8, 8)),
        ("table", {"n_numbers": 2, "cardinalities": [3]}, torch.tensor([[0.5, 1.0, 2.0]] * 11 + [[0.0, 0.0, 1.0]])),
        ("text", {"length": 32}, torch.randint(0, 70, (12, 32), dtype=torch.uint8)),
    ],
)
def test_every_kind_of_encoder_blends(kind: str, form: dict[str, object], x: torch.Tensor) -> None:
    encoder = build_encoder("auto", kind, form).eval()
    assert encoder.can_mix
    pure = Mix(torch.randperm(12), torch.ones(12))
    torch.testing.assert_close(encoder(x, pure), encoder(x))
    assert not torch.allclose(encoder(x, draw()), encoder(x))
