"""Weighted rows train as so many copies would; undersampled classes take turns; validation metrics what is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.config import CANDIDATES
from protoattend.core.candidates import in_batch
from protoattend.core.mixup import Mix
from protoattend.core.model import ProtoAttend
from protoattend.core.objectives import OBJECTIVES
from protoattend.data.inputs import fit_inputs
from protoattend.data.labels import Classes
from protoattend.training import prepared as ready
from protoattend.training.batches import Batch, Labelled
from protoattend.training.candidates import InBatch
from protoattend.training.evaluation import evaluate_plain, evaluate_with_prototypes, refresh_batch_norm
from protoattend.training.loop import train
from protoattend.training.losses import plain_terms, prototype_terms

from ..plans import plan
from .strategies import strategy_over

N, WIDTH, C = 10, 6, 3
COUNTS = torch.tensor([1, 3, 1, 2, 5, 1, 1, 4, 2, 1])
COPIES = torch.repeat_interleave(torch.arange(N), COUNTS)
ALL = torch.arange(N)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_data() -> Labelled:
    return Labelled(torch.randn(N, WIDTH, generator=generator(), dtype=torch.float64), ALL % C)


def make_model(normalize: str = "sparsemax") -> ProtoAttend:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ProtoAttend(nn.Flatten(), C, in_features=WIDTH, d_att=4, d_out=5, normalize=normalize).double()


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


def test_the_rows_of_an_epoch() -> None:
    labels = torch.tensor([0] * 40 + [1] * 10)
    plain = Labelled(labels, labels)
    assert plain.rows_of_an_epoch == 50
    assert torch.equal(plain.shuffled(generator(3)), torch.randperm(50, generator=generator(3)))
    under = Labelled(labels, labels, None, torch.where(labels == 0, 0.25, 1.0).double())
    assert under.rows_of_an_epoch == 20
    source = generator()
    epochs = [under.shuffled(source) for _ in range(30)]
    for rows in epochs:
        assert torch.bincount(labels[rows]).tolist() == [10, 10]
        assert len(rows.unique()) == 20
        assert rows.tolist() != sorted(rows.tolist())
    assert len(torch.cat(epochs).unique()) == 50, "every row gets its turn"


def test_training_draws_undersampled_batches() -> None:
    labels = torch.tensor([0] * 40 + [1] * 10)
    data = Labelled(torch.randn(50, WIDTH, generator=generator()), labels, None, torch.where(labels == 0, 0.25, 1.0))
    seen: list[Tensor] = []

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        seen.append(batch.rows)
        return plain_terms(plan())(model, batch, progress)

    history = train(
        make_model().float(),
        data,
        plan(batch_size=10, max_epochs=8),
        loss_terms=terms,
        evaluate=None,
        seed=0,
    )
    assert (len(history), len(seen)) == (8, 16), "two batches an epoch"
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        assert torch.bincount(labels[torch.cat([first, second])]).tolist() == [10, 10]
    assert len(torch.cat(seen).unique()) > 40


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_validation_measures_are_those_of_copies(normalize: str) -> None:
    data, model = make_data(), make_model(normalize)
    validation = Labelled(torch.randn(N, WIDTH, generator=generator(1), dtype=torch.float64), ALL.flip(0) % C)
    counts = COUNTS.flip(0)
    again = torch.repeat_interleave(ALL, counts)
    weighted = evaluate_with_prototypes(
        model,
        Labelled(validation.samples, validation.labels, counts.float()),
        Labelled(data.samples, data.labels, COUNTS.double()),
    )
    repeated = evaluate_with_prototypes(model, validation.at(again), data.at(COPIES))
    assert weighted.self_accuracy == pytest.approx(repeated.self_accuracy)
    assert weighted.prototype_accuracy == pytest.approx(repeated.prototype_accuracy)
    plain = evaluate_plain(model, Labelled(validation.samples, validation.labels, counts.float()))
    assert plain.self_accuracy == plain.prototype_accuracy == pytest.approx(repeated.self_accuracy)


def test_validation_attends_to_weighted_candidates() -> None:
    """One candidate of each label, equally near: the heavier one decides."""
    model = make_model("softmax")
    with torch.no_grad():
        model.query[0].weight.zero_()
        model.query[0].bias.zero_()  # all scores are 0
    candidates = make_data().at(torch.tensor([0, 1, 2]))
    values = model.decision(model.encode(candidates.samples).values)
    for heavy in range(3):
        weights = torch.ones(3, dtype=torch.float64)
        weights[heavy] = 1e6
        validation = Labelled(candidates.samples, values[heavy].argmax().expand(3))
        found = evaluate_with_prototypes(model, validation, Labelled(candidates.samples, candidates.labels, weights))
        assert found.prototype_accuracy == 1


def test_the_standard_error_is_that_of_weighted_samples() -> None:
    model = make_model()
    samples, labels = torch.zeros(4, WIDTH, dtype=torch.float64), torch.zeros(4, dtype=torch.long)
    for weights, n in ((None, 4), ([7.0] * 4, 4), ([1.0, 0.0, 0.0, 0.0], 1), ([3.0, 1.0, 1.0, 1.0], 3)):
        data = Labelled(samples, labels, None if weights is None else torch.tensor(weights))
        assert evaluate_plain(model, data).n_samples == n


def test_accuracy_never_rounds_above_one() -> None:
    """Above one, its standard error would be no real number."""
    model = make_model().float()
    ratios = []
    for n in range(2, 200):
        weights = 9 * torch.rand(n, generator=generator(n)) + 0.01
        x = torch.randn(n, WIDTH, generator=generator())
        metrics = evaluate_plain(model, Labelled(x, model.self_logits(x).argmax(1), weights))
        assert metrics.self_accuracy == pytest.approx(1)
        assert metrics.self_accuracy <= 1
        ratios.append(float(torch.ones(n) @ weights / weights.sum()))
    assert max(ratios) > 1, "which it would be"


def test_batch_norm_is_refreshed_on_what_is_drawn() -> None:
    """Of 400 zeros and 100 ones, with a quarter of the zeros kept, half of what is drawn are ones."""
    labels = torch.tensor([0] * 400 + [1] * 100)
    samples = labels[:, None].float().expand(-1, WIDTH)
    model = ProtoAttend(nn.BatchNorm1d(WIDTH), 2, in_features=WIDTH)
    means = []
    for shares in (None, torch.where(labels == 0, 0.25, 1.0)):
        refresh_batch_norm(model, Labelled(samples, labels, None, shares), 25)
        means.append(float(model.encoder.running_mean[0]))
    assert means == pytest.approx([0.2, 0.5])
    assert model.encoder.momentum == 0.1


def prepared(**params: Any) -> ready.Prepared:
    X, y = np.arange(300.0)[:, None], np.array(["rare"] * 50 + ["usual"] * 250)
    defaults = {"learn_inputs": fit_inputs, "validation_fraction": 0.2, "generator": generator()}
    return ready.prepare(X, y, **{**defaults, **params})


def test_validation_keeps_its_rows_and_the_database_is_undersampled() -> None:
    plain, under = prepared(), prepared(undersample={"usual": 0.4})
    assert plain.validation is not None
    assert under.validation is not None
    assert torch.equal(plain.validation.samples, under.validation.samples)
    assert torch.bincount(under.validation.labels).tolist() == [10, 50]
    assert (plain.sample_weight == 1).all()
    assert set(under.sample_weight.tolist()) == {0.0, 1.0}
    assert [int(under.sample_weight[:50].sum()), int(under.sample_weight[50:].sum())] == [50, 100]
    assert torch.bincount(under.validation_candidates(generator()).labels).tolist() == [40, 80]
    assert under.train.rows_of_an_epoch == 120
    again = prepared(undersample={"usual": 0.4}), prepared(undersample={"usual": 0.4}, generator=generator(1))
    assert [np.array_equal(under.sample_weight, other.sample_weight) for other in again] == [True, False]


def test_rows_of_weight_zero_are_nowhere() -> None:
    weights = np.tile([0.0, 2.0, 0.5], 100)
    found = prepared(sample_weight=weights, undersample={"usual": 0.5})
    assert found.validation is not None
    shown = found.inputs.columns[0]
    kept = [(part.samples[:, 0] * shown.scale + shown.mean).round() for part in (found.train, found.validation)]
    assert sorted(np.concatenate(kept).tolist()) == np.flatnonzero(weights).tolist()
    for part, rows in zip((found.train, found.validation), kept, strict=True):
        assert part.sample_weight is not None
        assert part.sample_weight.tolist() == weights[rows.numpy().astype(int)].tolist()
    chosen = found.sample_weight > 0
    assert np.array_equal(found.sample_weight[chosen], weights[chosen])
    assert int(chosen[50:].sum()) == round(0.5 * np.count_nonzero(weights[50:]))


def test_validation_weighs_as_training_does() -> None:
    """By weight, by the share of its class that is kept, and by the weight of its class."""
    assert prepared(validation_fraction=0.0).validation_rows(torch.ones(2)) is None
    plain = prepared().validation_rows(None)
    assert plain is not None
    assert plain.sample_weight is None
    weights = np.where(np.arange(300) < 50, 3.0, 2.0)
    everything = prepared(sample_weight=weights, undersample={"usual": 0.5}).validation_rows(torch.tensor([10.0, 0.1]))
    assert everything is not None
    assert everything.sample_weight is not None
    torch.testing.assert_close(everything.sample_weight, torch.where(everything.labels == 0, 30.0, 0.1))
    balanced = prepared().validation_rows(torch.tensor([2.0, 0.5]))
    assert balanced is not None
    assert balanced.sample_weight is not None
    torch.testing.assert_close(balanced.sample_weight, torch.where(balanced.labels == 0, 2.0, 0.5))


def test_balanced_class_weights_count_rows_as_they_are_drawn_and_weigh() -> None:
    labels = torch.tensor([0] * 6 + [1] * 2)
    classes, device = Classes(np.array(["a", "b"])), torch.device("cpu")
    for weights, shares, counts in (
        (None, None, [6, 2]),
        (torch.tensor([1.0] * 6 + [2.0] * 2), None, [6, 4]),
        (None, torch.where(labels == 0, 0.5, 1.0), [3, 2]),
        (torch.tensor([4.0] * 6 + [3.0] * 2), torch.where(labels == 0, 0.25, 1.0), [6, 6]),
    ):
        found = ready.class_weights("balanced", Labelled(labels, labels, weights, shares), classes, device)
        expected = sum(counts) / (2 * torch.tensor(counts).float())
        torch.testing.assert_close(found, expected)
    given = ready.class_weights({"b": 5}, Labelled(labels, labels), classes, device)
    assert given is not None
    assert given.tolist() == [1.0, 5.0]
