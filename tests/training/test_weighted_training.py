"""Weighted rows train as so many copies would, in every term of the loss and with every strategy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.config import CANDIDATES
from protoattend.core.candidates import in_batch
from protoattend.core.mixup import Mix
from protoattend.core.model import ProtoAttend
from protoattend.core.objectives import OBJECTIVES
from protoattend.training.batches import Batch
from protoattend.training.candidates import InBatch
from protoattend.training.losses import plain_terms, prototype_terms

from ..plans import plan
from .strategies import strategy_over
from .weighted import ALL, COPIES, COUNTS, N, generator, make_data, make_model


def gradients(model: ProtoAttend, terms: dict[str, Tensor]) -> list[Tensor | None]:
    loss = torch.stack(list(terms.values())).sum()
    return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_forward_and_gradient_with_weights_are_those_of_copies(normalize: str) -> None:
    """The copies have the row number of what they copy: a row never argues for itself, however heavy."""
    data, model = make_data(), make_model(normalize)
    results = []
    for rows, counts, weights in ((ALL, COUNTS.double(), COUNTS.double()), (COPIES, None, torch.ones(len(COPIES)))):
        exclude = rows[:, None] == rows
        output = model(data.samples[rows], in_batch, exclude, None, counts)
        each = F.cross_entropy(output.joint_logits, data.labels[rows], reduction="none")
        loss = (each * weights).sum()
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loss_and_gradient_of_a_batch_are_those_of_its_copies(objective: str) -> None:
    data, model = make_data(), make_model("softmax")
    config = plan(objective=objective, lambda_conf=0.3)
    weighted = prototype_terms(config, InBatch(), None, COUNTS.double())
    repeated = prototype_terms(config, InBatch())
    ours = weighted(model, Batch(data.samples, data.labels, ALL, None), 0.4)
    theirs = repeated(model, Batch(data.samples[COPIES], data.labels[COPIES], COPIES, None), 0.4)
    assert ours.keys() == theirs.keys()
    for name, term in ours.items():
        torch.testing.assert_close(term, theirs[name])
    for one, other in zip(gradients(model, ours), gradients(model, theirs), strict=True):
        torch.testing.assert_close(one, other)


def test_the_plain_loss_is_that_of_copies() -> None:
    data, model = make_data(), make_model()
    ours = plain_terms(plan(), None, COUNTS.double())(model, Batch(data.samples, data.labels, ALL, None), 0.0)
    theirs = plain_terms(plan())(model, Batch(data.samples[COPIES], data.labels[COPIES], COPIES, None), 0.0)
    torch.testing.assert_close(ours["self"], theirs["self"])


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_training_goes_by_the_ratios_of_weights(normalize: str) -> None:
    """Batches stay as large as they are, so the same weight for all is no weight at all."""
    data, model = make_data(), make_model(normalize)
    batch = Batch(data.samples, data.labels, ALL, None)
    plain = prototype_terms(plan(), InBatch())(model, batch, 0.0)
    same = prototype_terms(plan(), InBatch(), None, torch.full((N,), 9.0).double())(model, batch, 0.0)
    for name, term in plain.items():
        torch.testing.assert_close(term, same[name])
    batch = Batch(data.samples, data.labels, ALL, None)
    losses = [prototype_terms(plan(), InBatch(), None, scale * COUNTS.double())(model, batch, 0.0) for scale in (1, 70)]
    for name, term in losses[0].items():
        torch.testing.assert_close(term, losses[1][name])


def test_regularisers_heed_the_weights_of_inputs() -> None:
    data, model = make_data(), make_model("softmax")
    config = plan(lambda_sparse=2.0)
    weights = COUNTS.double()
    terms = prototype_terms(config, InBatch(), None, weights)
    found = terms(model, Batch(data.samples, data.labels, ALL, None), 0.0)["sparse"]
    batch = Batch(data.samples, data.labels, ALL)
    draw = InBatch().draw(batch, 0.0)
    p = model(data.samples, draw.source, draw.exclude(batch.parents), None, weights / weights.mean()).weights
    entropy = -(p * (p + 1e-8).log()).sum(1)
    torch.testing.assert_close(found, 2 * (entropy * weights).sum() / weights.sum())


def test_class_weight_and_row_weights_multiply() -> None:
    data, model = make_data(), make_model()
    class_weight = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)
    weights = COUNTS.double()
    batch = Batch(data.samples, data.labels, ALL, None)
    found = plain_terms(plan(), class_weight, weights)(model, batch, 0.0)["self"]
    each = F.cross_entropy(model.self_logits(data.samples), data.labels, reduction="none")
    torch.testing.assert_close(found, (each * weights * class_weight[data.labels]).sum() / weights.sum())


def test_each_part_of_a_blend_weighs_what_its_row_weighs() -> None:
    mix = Mix(torch.tensor([2, 0, 1]), torch.tensor([0.75, 0.5, 1.0]))
    batch = Batch(torch.zeros(3, 1), torch.tensor([1, 0, 2]), torch.arange(3), mix)
    weights = torch.tensor([4.0, 10.0, 7.0])
    assert batch.targets(3, weights).tolist() == [[0.0, 0.75 * 4, 0.25 * 7], [0.5 * 10, 0.5 * 4, 0.0], [0.0, 0.0, 7.0]]
    pure = Batch(batch.x, batch.y, batch.rows, None)
    assert pure.targets(3, weights).tolist() == [[0.0, 4.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, 7.0]]


def test_smoothed_targets_are_those_of_torch_and_weigh_the_same() -> None:
    data, model = make_data(), make_model()
    batch = Batch(data.samples, data.labels, ALL)
    config = plan(label_smoothing=0.2)
    logits = model.self_logits(data.samples)
    expected = F.cross_entropy(logits, data.labels, label_smoothing=0.2, reduction="none")
    torch.testing.assert_close(plain_terms(config)(model, batch, 0.0)["self"], expected.mean())
    weighted = plain_terms(config, None, COUNTS.double())(model, batch, 0.0)["self"]
    torch.testing.assert_close(weighted, (expected * COUNTS).sum() / COUNTS.sum())
    attention = prototype_terms(config, InBatch())(model, batch, 0.0)
    torch.testing.assert_close(attention["self"], expected.mean())
    assert set(attention) == {"self", "prototype", "joint"}


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_of_every_strategy_weigh_what_their_rows_weigh(name: str) -> None:
    data, model = make_data(), make_model()
    weights = torch.arange(1.0, N + 1).double()
    strategy = strategy_over(name, data, batch_size=4, n_candidates=6)
    drawn: list[Tensor] = []
    seen: list[Tensor] = []
    draw, forward = strategy.draw, model.forward

    def watched_draw(*args: Any) -> Any:
        made = draw(*args)
        drawn.append(made.parents[:, 0])
        return made

    def watched_forward(*args: Any) -> Any:
        seen.append(args[4])
        return forward(*args)

    strategy.draw, model.forward = watched_draw, watched_forward  # type: ignore[method-assign]
    terms = prototype_terms(plan(), strategy, None, weights)
    for rows in torch.randperm(N, generator=generator())[:8].split(4):
        terms(model, Batch(data.samples[rows], data.labels[rows], rows, None), 0.5)
    for rows, counts in zip(drawn, seen, strict=True):
        torch.testing.assert_close(counts, (weights / weights.mean())[rows])
    assert len(seen[1]) == {"in-batch": 4, "sampled": 6, "bank": 8}[name]


@pytest.mark.parametrize("n_rows", [2, 3])
def test_two_or_three_rows_are_not_blended_as_each_needs_a_candidate(n_rows: int) -> None:
    data, model = make_data().at(torch.arange(n_rows)), make_model()
    mix = Mix(torch.arange(n_rows).roll(1), torch.full((n_rows,), 0.6, dtype=torch.float64))
    terms = prototype_terms(plan(), InBatch())
    rows = torch.arange(n_rows)
    blended = terms(model, Batch(data.samples, data.labels, rows, mix), 0.0)
    pure = terms(model, Batch(data.samples, data.labels, rows, None), 0.0)
    assert {name: term.item() for name, term in blended.items()} == {name: term.item() for name, term in pure.items()}
