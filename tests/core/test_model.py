"""The model: one forward for every source of candidates, eq. 2 at any alpha, gradients, compile, export."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from protoattend.core.candidates import CandidateSource, batch_and_stored, fresh, in_batch, stored
from protoattend.core.model import Encoded, ProtoAttend
from protoattend.errors import UserError

NORMALIZE = ("softmax", "sparsemax")
normalizations = pytest.mark.parametrize("normalize", NORMALIZE)


def make(normalize: str = "sparsemax", seed: int = 0) -> ProtoAttend:
    """A small model whose scores lie units apart, so that most candidates are out of sparsemax's reach."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = nn.Sequential(nn.Linear(8, 6), nn.Tanh())
        model = ProtoAttend(encoder, 3, in_features=6, d_att=4, d_out=5, normalize=normalize).double()
        with torch.no_grad():
            model.query[0].weight *= 4
            model.key[0].weight *= 4
        return model


def samples(n: int, seed: int = 1) -> Tensor:
    return 2 * torch.randn(n, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(ours: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(ours, expected, atol=tolerance, rtol=0)


def diagonal(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.bool)


def gradients(model: ProtoAttend, candidates: CandidateSource, exclude: Tensor | None) -> dict[str, Tensor]:
    output = model(samples(5), candidates, exclude)
    loss = (output.joint_logits**2).sum() + output.weights.square().sum()
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@normalizations
def test_every_source_gives_the_same_for_the_same_candidates(normalize: str) -> None:
    model, x = make(normalize), samples(5)
    encoded = model.encode(x)
    exclude = diagonal(5)
    reference = model(x, in_batch, exclude)
    kept = stored(encoded.keys.detach(), encoded.values.detach())
    parts = batch_and_stored(encoded.keys[3:].detach(), encoded.values[3:].detach())
    for candidates in (fresh(x), kept):
        close(model(x, candidates, exclude).weights, reference.weights)
        close(model(x, candidates, exclude).prototype_logits, reference.prototype_logits)
    front = torch.zeros(5, 7, dtype=torch.bool)
    front[:, :5] = exclude
    front[:, 3:5] = True  # the bank's copies of the last two stand in for them
    front[3, 5] = front[4, 6] = True
    close(model(x, parts, front).prototype_logits, reference.prototype_logits)


@normalizations
def test_in_batch_has_the_gradient_of_two_passes(normalize: str) -> None:
    """One encoder pass serves both sides: its gradient is that of encoding inputs and candidates apart."""
    model = make(normalize)
    once, twice = (gradients(model, source, diagonal(5)) for source in (in_batch, fresh(samples(5))))
    for name in once:
        close(once[name], twice[name], 1e-10)


@normalizations
def test_stored_candidates_carry_no_gradient(normalize: str) -> None:
    """Parameters that only candidates go through get none from the database, and the full one when fresh."""
    model, others = make(normalize), samples(7, seed=2)
    with torch.no_grad():
        encoded = model.encode(others)
    names, parameters = zip(*((n, p) for n, p in model.named_parameters() if n.startswith("key")), strict=True)
    for candidates, carry in ((stored(encoded.keys, encoded.values), False), (fresh(others), True)):
        logits = model(samples(5), candidates).prototype_logits
        found = torch.autograd.grad(logits.square().sum(), parameters, allow_unused=True)
        for name, gradient in zip(names, found, strict=True):
            assert (gradient is not None and bool(gradient.any())) == carry, name


def test_gradient_reaches_the_samples_of_fresh_candidates_but_not_the_excluded() -> None:
    model, candidate_x = make("softmax"), samples(4, seed=3).requires_grad_()
    exclude = torch.zeros(5, 4, dtype=torch.bool)
    exclude[:, 1] = True
    model(samples(5), fresh(candidate_x), exclude).prototype_logits.sum().backward()
    assert candidate_x.grad is not None
    assert candidate_x.grad.any(dim=1).tolist() == [True, False, True, True]


@normalizations
@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 1.0])
def test_logits_are_the_decision_on_the_convex_combination(normalize: str, alpha: float) -> None:
    model, x = make(normalize), samples(5)
    output = model(x, in_batch, diagonal(5))
    combined = (1 - alpha) * output.encoded.values + alpha * output.mixture
    close(output.logits(alpha), model.decision(combined))
    close(output.joint_logits, output.logits(0.5))
    close(output.mixture, output.weights @ output.encoded.values)


def test_self_logits_need_no_candidates() -> None:
    model, x = make(), samples(5)
    close(model.self_logits(x), model(x, in_batch).self_logits)
    close(model.self_logits(x), model(x, fresh(samples(9, seed=4))).logits(0.0))


@normalizations
def test_excluding_is_leaving_out(normalize: str) -> None:
    model, x, others = make(normalize), samples(5), samples(9, seed=4)
    exclude = torch.zeros(5, 9, dtype=torch.bool)
    exclude[:, [0, 4, 8]] = True
    kept = [1, 2, 3, 5, 6, 7]
    full, part = model(x, fresh(others), exclude), model(x, fresh(others[kept]))
    close(full.weights[:, kept], part.weights)
    close(full.prototype_logits, part.prototype_logits)
    assert not full.weights[:, [0, 4, 8]].any()


@normalizations
def test_the_order_of_candidates_does_not_matter(normalize: str) -> None:
    model, x, others = make(normalize), samples(5), samples(9, seed=4)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    one, other = model(x, fresh(others)), model(x, fresh(others[order]))
    close(one.weights[:, order], other.weights)
    close(one.prototype_logits, other.prototype_logits)


@normalizations
def test_rows_of_a_batch_do_not_meet(normalize: str) -> None:
    """The decision on an input must not depend on which others are asked about at the same time."""
    model, x, others = make(normalize), samples(5), fresh(samples(9, seed=4))
    apart = torch.cat([model(row[None], others).prototype_logits for row in x])
    close(model(x, others).prototype_logits, apart)


def test_heads_are_those_of_the_paper() -> None:
    model = make()
    encoded = model.encode(samples(50))
    assert isinstance(encoded, Encoded)
    assert encoded.queries.shape == encoded.keys.shape == (50, 4)
    assert encoded.values.shape == (50, 5)
    assert bool((encoded.queries >= 0).all())
    assert bool((encoded.keys >= 0).all())
    close(encoded.values.mean(1), torch.zeros(50, dtype=torch.float64), 1e-9)  # layer norm before it has learned
    assert model.decision.bias is None
    heads = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert heads == {"encoder", "query", "key", "value", "decision"}, "attention has no parameters of its own"


def test_a_single_input_and_a_single_candidate() -> None:
    model, candidate = make(), samples(1, seed=4)
    output = model(samples(1), fresh(candidate))
    assert output.weights.tolist() == [[1.0]]
    close(output.prototype_logits, model.self_logits(candidate))


@normalizations
def test_a_lone_sample_cannot_attend_to_itself(normalize: str) -> None:
    with pytest.raises(UserError, match="at least one candidate"):
        make(normalize)(samples(1), in_batch, diagonal(1))


def test_width_from_the_encoder_or_the_argument() -> None:
    class Convolutional(nn.Module):
        out_features = 12

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :3, :2, :2]  # (B, 3, 2, 2): the model flattens it

    model = ProtoAttend(Convolutional(), 2)
    assert model(torch.randn(4, 3, 5, 5), in_batch, diagonal(4)).prototype_logits.shape == (4, 2)


def test_an_encoder_of_unknown_width_is_the_users_error() -> None:
    with pytest.raises(UserError, match="Sequential has no out_features; pass in_features"):
        ProtoAttend(nn.Sequential(nn.Linear(8, 6), nn.ReLU()), 3)


def test_the_encoder_alone_may_train_in_bfloat16() -> None:
    seen: list[torch.dtype] = []
    torch.manual_seed(0)
    encoder = nn.Linear(8, 6)
    encoder.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    model = ProtoAttend(encoder, 3, in_features=6, precision="bfloat16")
    x = samples(5).float()
    output = model(x, in_batch, diagonal(5))
    output.self_logits.sum().backward()
    assert seen == [torch.bfloat16]
    assert output.weights.dtype == output.prototype_logits.dtype == encoder.weight.grad.dtype == torch.float32
    low = output.self_logits.detach()
    close(low, model.eval()(x, in_batch, diagonal(5)).self_logits, 0.05)
    assert seen == [torch.bfloat16, torch.float32], "what comes after training is exact"


def test_unknown_normalisation_fails_at_once() -> None:
    with pytest.raises(UserError, match="normalize must be one of"):
        ProtoAttend(nn.Flatten(), 2, in_features=3, normalize="sparsmax")


class Predictor(nn.Module):
    """What is deployed: encoder and stored database, from samples to the logits of their prototypes."""

    def __init__(self, model: ProtoAttend, candidate_x: Tensor) -> None:
        super().__init__()
        self.model = model
        with torch.no_grad():
            encoded = model.encode(candidate_x)
        self.register_buffer("keys", encoded.keys)
        self.register_buffer("values", encoded.values)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x, stored(self.keys, self.values)).prototype_logits


@normalizations
def test_export_of_a_predictor(normalize: str) -> None:
    predictor = Predictor(make(normalize), samples(40, seed=5)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(predictor, (samples(3),), dynamic_shapes={"x": {0: batch}})
    for n in (1, 3, 17):
        x = samples(n, seed=n)
        close(program.module()(x), predictor(x), 1e-10)


@normalizations
def test_export_keeps_up_with_an_all_zero_query(normalize: str) -> None:
    """All ReLU off: every candidate gets the same weight, in eager and exported form alike."""
    predictor = Predictor(make(normalize), samples(40, seed=5)).eval()
    with torch.no_grad():
        predictor.model.query[0].weight.zero_()
        predictor.model.query[0].bias.fill_(-1.0)
    x = samples(2)
    program = torch.export.export(predictor, (x,))
    mean = predictor.model.decision(predictor.values.mean(0)).expand(2, -1)
    close(program.module()(x), mean, 1e-10)
    close(predictor(x), mean, 1e-10)


@pytest.mark.slow
@normalizations
def test_training_step_compiles_as_one_graph(normalize: str) -> None:
    torch.compiler.reset()
    model, x = make(normalize), samples(5)

    def loss(x: Tensor, exclude: Tensor) -> Tensor:
        output = model(x, in_batch, exclude)
        return output.joint_logits.square().sum() + output.weights.square().sum()

    found = []
    for function in (torch.compile(loss, fullgraph=True, backend="aot_eager"), loss):
        value = function(x, diagonal(5))
        found.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    for compiled, eager in zip(*found, strict=True):
        close(compiled, eager, 1e-9)
