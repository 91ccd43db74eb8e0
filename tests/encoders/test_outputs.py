"""Which features are taken out of what a module gives."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from protoattend.encoders.outputs import Reader, choose_output, pool
from protoattend.errors import UserError

POOLED, HIDDEN, LOGITS, OTHER = torch.zeros(2, 3), torch.zeros(2, 4, 5), torch.zeros(2, 7), torch.zeros(2, 9)
Pair = namedtuple("Pair", ["hidden", "pooler_output"])


@pytest.mark.parametrize(
    ("given", "output", "expected"),
    [
        (OTHER, None, OTHER),
        ({"other": OTHER, "last_hidden_state": HIDDEN, "pooler_output": POOLED}, None, POOLED),
        ({"logits": LOGITS, "last_hidden_state": HIDDEN, "pooler_output": None}, None, HIDDEN),
        ({"loss": None, "other": OTHER, "logits": LOGITS}, None, LOGITS),
        ({"loss": 0.5, "other": OTHER, "more": LOGITS}, None, OTHER),
        (SimpleNamespace(hidden=OTHER, pooler_output=POOLED), None, POOLED),
        (Pair(OTHER, POOLED), None, POOLED),
        (Pair(OTHER, POOLED), 0, OTHER),
        ((OTHER, POOLED), None, OTHER),
        ([None, POOLED], None, POOLED),
        ((OTHER, POOLED), 1, POOLED),
        ({"other": OTHER, "logits": LOGITS}, "other", OTHER),
        ({"other": OTHER, "logits": LOGITS}, 0, OTHER),
        (SimpleNamespace(deep=SimpleNamespace(features=POOLED)), lambda given: given.deep.features, POOLED),
    ],
)
def test_the_rule_and_the_choice(given: Any, output: Any, expected: Tensor) -> None:
    assert choose_output(given, output) is expected


@pytest.mark.parametrize(
    ("given", "output", "message"),
    [
        ({"loss": 0.5}, None, r"there is none in dict with \['loss'\]"),
        (None, None, "there is none in NoneType"),
        ((OTHER, POOLED), 2, r"among \[0, 1\], but got output=2"),
        ({"other": OTHER}, "logits", r"among \['other'\], but got output='logits'"),
        (OTHER, lambda given: given.tolist(), "what output= returned"),
    ],
)
def test_no_such_tensor(given: Any, output: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_output(given, output)


def test_pooling_against_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(2, 3, 4, 5, generator=generator)
    for b in range(2):
        for c in range(3):
            places = [float(maps[b, c, h, w]) for h in range(4) for w in range(5)]
            assert float(pool(maps)[b, c]) == pytest.approx(sum(places) / 20, abs=1e-6)
    tokens, mask = torch.randn(2, 4, 3, generator=generator), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    for b in range(2):
        kept = [tokens[b, t] for t in range(4) if mask[b, t]]
        torch.testing.assert_close(pool(tokens, mask)[b], torch.stack(kept).mean(0))
    torch.testing.assert_close(pool(tokens), tokens.mean(1))
    torch.testing.assert_close(pool(tokens, mask[:, :3]), tokens.mean(1))
    assert pool(tokens, torch.zeros(2, 4)).abs().max() == 0, "a text without tokens has features 0, not NaN"
    assert pool(POOLED) is POOLED


class Given(nn.Module):
    """Gives what it is told to, whatever it is called with."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given
        self.called_with: Any = None

    def forward(self, *args: Any, **named: Any) -> Any:
        self.called_with = args or named
        return self.given


def test_named_arguments_and_their_mask() -> None:
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1]])
    hidden = torch.arange(40.0).view(2, 4, 5)
    module = Given({"last_hidden_state": hidden})
    features = Reader(module)({"input_ids": mask, "attention_mask": mask})
    torch.testing.assert_close(features, torch.stack([hidden[0, 0], hidden[1].mean(0)]))
    assert set(module.called_with) == {"input_ids", "attention_mask"}


def test_a_callable_is_not_pooled_and_half_precision_becomes_float() -> None:
    features = Reader(Given(torch.ones(2, 3, 4, 4).half()), output=lambda given: given)(torch.zeros(2, 1))
    assert features.shape == (2, 48)
    assert features.dtype == torch.float32
    assert Reader(Given(torch.ones(2, 3, 4, 4)))(torch.zeros(2, 1)).shape == (2, 3)


@pytest.mark.parametrize("given", [torch.tensor(1.0), torch.ones(2), torch.ones(3, 4), torch.ones(1, 2, 4)])
def test_wrong_shapes(given: Tensor) -> None:
    with pytest.raises(UserError, match=r"batch of 2 samples to features \(2, F\), but Given gave a tensor of shape"):
        Reader(Given(given))(torch.zeros(2, 1))
