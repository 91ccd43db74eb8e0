"""The model, its losses and their gradients against the same mathematics in plain Python loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from protoattend.core.attention import (
    class_mass,
    confidence,
    confidence_loss,
    label_votes,
    prototype_counts,
    sparsity_loss,
)
from protoattend.core.candidates import CandidateSource, batch_and_stored, fresh, in_batch, stored
from protoattend.core.model import Output, ProtoAttend
from protoattend.core.objectives import OBJECTIVES, TERM_NAMES
from protoattend.database.search import attend
from protoattend.database.searchable import Searchable
from protoattend.training.batches import Batch
from protoattend.training.candidates import Draw, InBatch
from protoattend.training.losses import prototype_terms

from ..plans import plan
from . import naive

B, D, WIDTH, N_CLASSES = 5, 7, 6, 3
SOURCES = ("in-batch", "fresh", "stored", "batch and stored")
NORMALIZE = ("softmax", "sparsemax")
LAMBDA_SPARSE, LAMBDA_CONF = 0.3, 0.7


def make_model(normalize: str, seed: int = 0) -> ProtoAttend:
    """A small model in double precision; every parameter is random, also gain and shift of the layer norm."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, 5), nn.ReLU())
    model = ProtoAttend(encoder, N_CLASSES, in_features=5, d_att=4, d_out=6, normalize=normalize).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.8 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def make_data(seed: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs and candidates with their labels; x has extra dimensions that the encoder flattens."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(B, 2, WIDTH // 2, generator=generator, dtype=torch.float64)
    candidate_x = torch.randn(D, 2, WIDTH // 2, generator=generator, dtype=torch.float64)
    y = torch.randint(N_CLASSES, (B,), generator=generator)
    return x, y, candidate_x, torch.randint(N_CLASSES, (D,), generator=generator)


def naive_of(model: ProtoAttend) -> Any:
    parameters = {name: value.tolist() for name, value in model.state_dict().items()}
    return naive.NaiveProtoAttend(parameters, model.normalize)


def rows_of(x: Tensor) -> list[list[float]]:
    return x.flatten(1).tolist()


def random_exclude(n_candidates: int, seed: int = 2) -> Tensor:
    exclude = torch.rand(B, n_candidates, generator=torch.Generator().manual_seed(seed)) < 0.3
    exclude[:, 1] = False
    return exclude


def both(model: ProtoAttend, source: str) -> tuple[Output, Any, Tensor]:
    """Return ours, the naive output and the labels of the candidates, for one source of candidates."""
    x, y, candidate_x, labels = make_data()
    reference = naive_of(model)
    batch, others = reference.encode(rows_of(x)), reference.encode(rows_of(candidate_x))
    with torch.no_grad():
        kept = model.encode(candidate_x)
    choices: dict[str, tuple[CandidateSource, Any, Any, Tensor]] = {
        "in-batch": (in_batch, batch.keys, batch.values, y),
        "fresh": (fresh(candidate_x), others.keys, others.values, labels),
        "stored": (stored(kept.keys, kept.values), others.keys, others.values, labels),
        "batch and stored": (
            batch_and_stored(kept.keys, kept.values),
            batch.keys + others.keys,
            batch.values + others.values,
            torch.cat([y, labels]),
        ),
    }
    candidates, keys, values, candidate_labels = choices[source]
    exclude = random_exclude(len(keys))
    expected = reference.forward(rows_of(x), keys, values, exclude.tolist())
    return model(x, candidates, exclude), expected, candidate_labels


def assert_same(ours: Tensor, expected: Any, tolerance: float = 1e-9) -> None:
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("source", SOURCES)
def test_forward(normalize: str, source: str) -> None:
    model = make_model(normalize)
    ours, expected, _ = both(model, source)
    assert_same(ours.encoded.queries, expected.encoded.queries)
    assert_same(ours.encoded.keys, expected.encoded.keys)
    assert_same(ours.encoded.values, expected.encoded.values)
    assert_same(ours.weights, expected.weights)
    assert_same(ours.mixture, expected.mixture)
    assert_same(ours.self_logits, expected.logits[0.0])
    assert_same(ours.joint_logits, expected.logits[0.5])
    assert_same(ours.prototype_logits, expected.logits[1.0])
    for alpha, logits in expected.logits.items():
        assert_same(ours.logits(alpha), logits)
    assert_same(model.self_logits(make_data()[0]), expected.logits[0.0])


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("source", SOURCES)
def test_what_follows_from_the_weights(normalize: str, source: str) -> None:
    ours, expected, labels = both(make_model(normalize), source)
    y, known = make_data()[1], labels.tolist()
    mass = class_mass(ours.weights, label_votes(labels, N_CLASSES, ours.weights.dtype))
    expected_mass = [naive.class_mass(row, known, N_CLASSES) for row in expected.weights]
    assert_same(mass, expected_mass)
    prediction = [naive.argmax(row) for row in expected.logits[1.0]]
    assert ours.prototype_logits.argmax(1).tolist() == prediction
    assert_same(
        confidence(mass, ours.prototype_logits.argmax(1)),
        [row[c] for row, c in zip(expected_mass, prediction, strict=True)],
    )
    for share in (0.01, 0.5, 0.9, 0.95, 1.0):
        counts = [naive.prototype_count(row, share) for row in expected.weights]
        assert prototype_counts(ours.weights, share).tolist() == counts
    assert_same(sparsity_loss(ours.weights), naive.sparsity_loss(expected.weights))
    assert_same(confidence_loss(ours.weights, labels, y), naive.confidence_loss(expected.weights, known, y.tolist()))


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("progress", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_every_term_of_the_loss(normalize: str, objective: str, progress: float) -> None:
    model, (x, y, _, _) = make_model(normalize), make_data()
    config = plan(objective, lambda_sparse=LAMBDA_SPARSE, lambda_conf=LAMBDA_CONF)
    class_weight = torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64)
    terms = prototype_terms(config, InBatch(), class_weight)(model, Batch(x, y, torch.arange(B), None), progress)

    reference = naive_of(model)
    encoded = reference.encode(rows_of(x))
    itself = [[i == j for j in range(B)] for i in range(B)]
    output = reference.forward(rows_of(x), encoded.keys, encoded.values, itself)
    entropies = naive.objective_loss(
        output, y.tolist(), objective=objective, progress=progress, class_weight=class_weight.tolist()
    )
    expected = {TERM_NAMES[alpha]: value for alpha, value in entropies.items()}
    expected["sparse"] = LAMBDA_SPARSE * naive.sparsity_loss(output.weights)
    expected["conf"] = LAMBDA_CONF * naive.confidence_loss(output.weights, y.tolist(), y.tolist())
    assert set(terms) == set(expected)
    for name, value in expected.items():
        assert_same(terms[name], value)


class _Always(InBatch):
    """Always the same candidates, the first of which are rows of the batch itself."""

    def __init__(self, candidate_x: Tensor, labels: Tensor) -> None:
        self.candidate_x = candidate_x
        self.labels = labels

    def draw(self, batch: Batch, progress: float) -> Draw:
        rows = torch.arange(len(self.labels)) + 3
        return Draw(fresh(self.candidate_x), self.labels, torch.stack([rows, rows], dim=1))


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("source", ["in-batch", "fresh"])
def test_gradient_of_every_parameter(normalize: str, source: str) -> None:
    """Our backward against central differences of the naive loss, through both sides of the attention."""
    model, (x, y, candidate_x, labels) = make_model(normalize), make_data()
    config = plan(lambda_sparse=LAMBDA_SPARSE, lambda_conf=LAMBDA_CONF)
    strategy = InBatch() if source == "in-batch" else _Always(candidate_x, labels)
    terms = prototype_terms(config, strategy)(model, Batch(x, y, torch.arange(B), None), 0.0)
    torch.stack(list(terms.values())).sum().backward()

    inputs = rows_of(x)
    candidate_inputs, known = (inputs, y.tolist()) if source == "in-batch" else (rows_of(candidate_x), labels.tolist())
    first = 0 if source == "in-batch" else 3
    exclude = [[i == j + first for j in range(len(known))] for i in range(B)]

    def loss(parameters: dict[str, Any]) -> float:
        reference = naive.NaiveProtoAttend(parameters, normalize)
        candidates = reference.encode(candidate_inputs)
        output = reference.forward(inputs, candidates.keys, candidates.values, exclude)
        entropies = naive.objective_loss(output, y.tolist(), objective=config.objective, progress=0.0)
        sparse = naive.sparsity_loss(output.weights)
        agreement = naive.confidence_loss(output.weights, known, y.tolist())
        return sum(entropies.values()) + LAMBDA_SPARSE * sparse + LAMBDA_CONF * agreement

    step = 1e-6
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.any(), name
        for k in range(0, parameter.numel(), 3):  # every third entry: all layers, a third of the time
            ends = []
            for sign in (1, -1):
                state = {key: value.clone() for key, value in model.state_dict().items()}
                state[name].view(-1)[k] += sign * step
                ends.append(loss({key: value.tolist() for key, value in state.items()}))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert parameter.grad.view(-1)[k].item() == pytest.approx(slope, abs=2e-7, rel=1e-5), (name, k)


@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_streamed_decisions(normalize: str, chunk: int) -> None:
    model, (x, _, candidate_x, labels) = make_model(normalize), make_data()
    reference = naive_of(model)
    others = reference.encode(rows_of(candidate_x))
    itself = [[i == j for j in range(D)] for i in range(B)]
    expected = reference.forward(rows_of(x), others.keys, others.values, itself)
    with torch.no_grad():
        queries, stored = model.encode(x).queries, model.encode(candidate_x)
        searchable = Searchable(stored.keys, model.decision(stored.values), labels)
    found = attend(queries, searchable, normalize=normalize, own=torch.arange(B), chunk=chunk)
    assert_same(found.logits, expected.logits[1.0])
    assert_same(found.class_mass, [naive.class_mass(row, labels.tolist(), N_CLASSES) for row in expected.weights])
    allowed = [
        [naive.score(query, key) for j, key in enumerate(others.keys) if j != i]
        for i, query in enumerate(expected.encoded.queries)
    ]
    assert_same(found.largest_score, [max(row) for row in allowed])


@pytest.mark.parametrize(
    "scores", [[0.0], [1.0, 1.0], [3.0, 2.5, 2.5, -1.0], [0.1, 0.2, 0.3, 0.4, 0.5], [1e4, 0.0, 9999.5]]
)
def test_the_two_naive_sparsemaxes_agree(scores: list[float]) -> None:
    assert naive.sparsemax(scores) == pytest.approx(naive.sparsemax_by_enumeration(scores), abs=1e-12)


def test_the_models_here_have_supports_of_several_sizes() -> None:
    """Guards the other tests: a degenerate model (all ReLU off, one prototype only) would prove little."""
    sizes = {n for source in SOURCES for n in (both(make_model("sparsemax"), source)[0].weights > 0).sum(1).tolist()}
    assert len(sizes) >= 3
    assert max(sizes) < D + B
