"""The weight of the prototype and joint terms beside the self term."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from protoattend import ProtoAttendClassifier
from protoattend.core.model import ProtoAttend
from protoattend.errors import UserError
from protoattend.training.batches import Batch
from protoattend.training.candidates import InBatchStrategy
from protoattend.training.config import TrainingConfig
from protoattend.training.losses import prototype_terms


def losses(attention_weight: float) -> dict[str, float]:
    torch.manual_seed(0)
    model = ProtoAttend(nn.Flatten(), n_classes=3, in_features=4)
    batch = Batch(torch.randn(6, 4), torch.arange(6) % 3, torch.arange(6), None)
    terms = prototype_terms(TrainingConfig(attention_weight=attention_weight), InBatchStrategy())
    return {name: float(term.detach()) for name, term in terms(model, batch, 0.5).items()}


def test_it_scales_all_terms_but_self() -> None:
    paper, ours = losses(1.0), losses(0.25)
    assert ours == pytest.approx(
        {"self": paper["self"], "prototype": paper["prototype"] / 4, "joint": paper["joint"] / 4}
    )


def test_zero_would_leave_attention_untrained() -> None:
    with pytest.raises(UserError, match="attention_weight must be a number above 0, but got attention_weight=0"):
        ProtoAttendClassifier(attention_weight=0, verbose=0).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
