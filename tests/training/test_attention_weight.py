"""How much of the gradient that comes through attention reaches the encoder."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.core.candidates import CandidateSource, fresh, in_batch, reencoded
from protoattend.core.model import Output, ProtoAttend
from protoattend.errors import UserError

X, OTHERS = (torch.randn(n, 4, generator=torch.Generator().manual_seed(n)).double() for n in (6, 9))
SOURCES = [(in_batch, torch.eye(6, dtype=torch.bool)), (fresh(OTHERS), None), (reencoded(OTHERS), None)]


def gradients(
    attention_weight: float, term: str, source: CandidateSource, exclude: Tensor | None
) -> tuple[Output, Tensor, Tensor]:
    """Return the forward and the gradients of the encoder and of all heads together, of one term."""
    torch.manual_seed(0)
    encoder = nn.Linear(4, 5)
    model = ProtoAttend(encoder, n_classes=3, in_features=5, attention_weight=attention_weight).double()
    output = model(X, source, exclude)
    getattr(output, term)[:, 0].sum().backward()
    heads = [p.grad.flatten() for name, p in model.named_parameters() if "encoder" not in name and p.grad is not None]
    assert encoder.weight.grad is not None
    return output, encoder.weight.grad, torch.cat(heads)


@pytest.mark.parametrize(("source", "exclude"), SOURCES)
def test_only_the_encoders_gradient_is_scaled(source: CandidateSource, exclude: Tensor | None) -> None:
    paper, encoder, heads = gradients(1.0, "prototype_logits", source, exclude)
    output, encoder_scaled, heads_scaled = gradients(0.25, "prototype_logits", source, exclude)
    assert torch.equal(output.prototype_logits, paper.prototype_logits)
    assert torch.equal(heads_scaled, heads)
    torch.testing.assert_close(encoder_scaled, encoder / 4)


def test_the_self_term_teaches_the_encoder_in_full() -> None:
    _, encoder, _ = gradients(1.0, "self_logits", *SOURCES[0])
    _, encoder_scaled, _ = gradients(0.25, "self_logits", *SOURCES[0])
    assert torch.equal(encoder_scaled, encoder)
    assert encoder.any()


@pytest.mark.parametrize(("objective", "weight"), [("self+prototype", 0.1), ("prototype", 1.0), ("joint", 1.0)])
def test_without_a_self_term_attention_is_the_only_teacher(objective: str, weight: float) -> None:
    clf = ProtoAttendClassifier(objective=objective, max_epochs=1, verbose=0, random_state=0)
    assert clf.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]).model_.attention_weight == weight


def test_zero_is_refused() -> None:
    with pytest.raises(UserError, match="attention_weight must be a number above 0, but got attention_weight=0"):
        Recipe(attention_weight=0)
