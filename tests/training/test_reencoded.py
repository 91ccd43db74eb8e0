"""Re-encoding the union of supports gives the gradients of encoding all candidates with gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from protoattend.core.candidates import CandidateSource, fresh, reencoded, settled
from protoattend.core.model import ProtoAttend
from protoattend.training.batches import Batch, Labelled
from protoattend.training.candidates import Sampled
from protoattend.training.losses import prototype_terms

from ..plans import plan
from .strategies import strategy_over

B, D, WIDTH = 6, 200, 5
DATA = Labelled(
    torch.randn(300, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(300) % 3
)


def make_model() -> ProtoAttend:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.LayerNorm(16))
        model = ProtoAttend(encoder, 3, in_features=16, d_att=8, d_out=6).double()
    with torch.no_grad():  # sharp scores: few prototypes each
        model.query[0].weight.mul_(4)
        model.key[0].weight.mul_(4)
    return model


def sampled(n_candidates: int, normalize: str) -> Sampled:
    strategy = strategy_over("sampled", DATA, batch_size=B, n_candidates=n_candidates, normalize=normalize)
    assert isinstance(strategy, Sampled)
    return strategy


def gradients(
    source: Callable[[Tensor], CandidateSource], weights: Tensor | None = None
) -> tuple[dict[str, Tensor], int]:
    model = make_model()
    strategy = sampled(D, "sparsemax")
    strategy.source = source
    encoded = 0

    def count(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal encoded
        encoded += len(output) if output.requires_grad else 0

    model.encoder.register_forward_hook(count)
    rows = torch.arange(B)
    batch = Batch(DATA.samples[rows], DATA.labels[rows], rows, None, torch.Generator().manual_seed(3))
    config = plan(lambda_sparse=0.1, lambda_conf=0.1)
    terms = prototype_terms(config, strategy, None, weights)(model, batch, 0.5)
    torch.stack(list(terms.values())).sum().backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found, encoded


@pytest.mark.parametrize("weights", [None, torch.arange(1.0, 301.0).double()])
def test_same_gradients_through_few_candidates(weights: Tensor | None) -> None:
    (whole, all_rows), (few, some_rows) = (gradients(source, weights) for source in (fresh, reencoded))
    assert all_rows == B + D
    assert some_rows < B + D / 2, "most candidates get no weight, and were encoded without gradient"
    assert whole.keys() == few.keys()
    for name, gradient in whole.items():
        assert gradient.any() or name.startswith("query"), name
        torch.testing.assert_close(few[name], gradient, rtol=1e-9, atol=1e-12)


def test_the_strategy_chooses_it_where_it_pays() -> None:
    assert sampled(32 * B, "sparsemax").source is reencoded
    assert sampled(32 * B - 1, "sparsemax").source is fresh
    assert sampled(32 * B, "softmax").source is fresh, "softmax gives every candidate weight, and gradient"


def test_batch_norm_goes_by_its_running_statistics_for_candidates_alone() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(WIDTH)
    model = ProtoAttend(nn.Sequential(norm, nn.Dropout(0.5)), 3, in_features=WIDTH)
    model.train()
    x, candidates = torch.randn(4, WIDTH), 5 + torch.randn(40, WIDTH)
    model(x, reencoded(candidates, at_once=16))
    assert norm.num_batches_tracked == 1, "the inputs' pass, and no other, is learned from"
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(0))
    assert norm.training
    with settled(model.encoder):
        assert not norm.training
        torch.testing.assert_close(model.encode(candidates).keys[:1], model.encode(candidates[:1]).keys)
    assert all(module.training for module in model.modules())
