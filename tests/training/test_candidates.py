"""Nothing attends to itself, whichever strategy draws; the bank keeps what it should, and no gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from protoattend.config import CANDIDATES
from protoattend.core.candidates import batch_and_stored, fresh, in_batch
from protoattend.core.model import Encoded, ProtoAttend
from protoattend.errors import UserError
from protoattend.training.batches import Batch, Labelled
from protoattend.training.candidates import Bank, Draw, InBatch, Sampled
from protoattend.training.loop import Step, train
from protoattend.training.losses import prototype_terms

from ..plans import plan
from .strategies import strategy_over

N, WIDTH, BATCH = 24, 6, 8
NORMALIZE = ("softmax", "sparsemax")
strategies = pytest.mark.parametrize("name", CANDIDATES)
normalizations = pytest.mark.parametrize("normalize", NORMALIZE)
make = partial(strategy_over, batch_size=BATCH)


def make_data() -> Labelled:
    """Unit vectors without negative entries, no two alike: each has its largest score with itself."""
    samples = torch.rand(N, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 3
    return Labelled(samples / samples.norm(dim=1, keepdim=True), torch.arange(N) % 3)


def make_model(normalize: str) -> ProtoAttend:
    """Queries and keys are the samples times 3: left to itself, every sample would choose itself."""
    with torch.random.fork_rng():
        torch.manual_seed(0)  # some draws leave every value head dead, and no gradient
        model = ProtoAttend(nn.Flatten(), 3, in_features=WIDTH, d_att=WIDTH, d_out=4, normalize=normalize).double()
    with torch.no_grad():
        for head in (model.query[0], model.key[0]):
            head.weight.copy_(3 * torch.eye(WIDTH, dtype=torch.float64))
            head.bias.zero_()
    return model


def batch_of(data: Labelled, rows: Tensor, seed: int = 0) -> Batch:
    return Batch(data.samples[rows], data.labels[rows], rows, None, torch.Generator().manual_seed(seed))


def batches(seed: int = 0, n_epochs: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [rows for _ in range(n_epochs) for rows in torch.randperm(N, generator=generator).split(BATCH)]


@normalizations
@strategies
def test_no_sample_attends_to_itself(name: str, normalize: str) -> None:
    """Weights at the sample's own row are exactly 0, and they would not be without the exclusion."""
    data, model = make_data(), make_model(normalize)
    strategy = make(name, data, n_candidates=N - 1)
    met = 0
    for rows in batches():
        x = data.samples[rows]
        batch = batch_of(data, rows, seed=int(rows[0]))
        draw = strategy.draw(batch, 0.5)
        drawn = draw.parents[:, 0]
        itself = torch.tensor([[int(i) == int(j) for j in drawn] for i in rows])
        assert torch.equal(draw.exclude(batch.parents), itself)
        assert torch.equal(draw.labels, data.labels[drawn]), "labels must stay with their rows"
        output = model(x, draw.source, itself)
        assert output.weights.shape == itself.shape
        assert bool((output.weights[itself] == 0).all())
        torch.testing.assert_close(output.weights.sum(1), torch.ones(len(rows), dtype=torch.float64))
        unguarded = model(x, draw.source).weights
        assert bool((unguarded[itself] > 0.01).all()), "without exclusion each would have chosen itself"
        met += int(itself.sum())
        strategy.remember(output.encoded, batch)
    # In-batch meets itself once a sample and epoch, the bank more often, a sample of 23 of 24 nearly always.
    assert met >= {"in-batch": 48, "sampled": 44, "bank": 60}[name]


@normalizations
@strategies
def test_the_loss_passes_the_exclusion_to_the_model(name: str, normalize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = make_data(), make_model(normalize)
    strategy = make(name, data, n_candidates=N - 1)
    draws: list[Draw] = []
    calls: list[tuple[Any, Tensor | None]] = []
    draw, forward = strategy.draw, model.forward

    def watched_draw(*args: Any) -> Draw:
        draws.append(draw(*args))
        return draws[-1]

    def watched_forward(x: Tensor, candidates: Any, exclude: Tensor | None, *rest: Any) -> Any:
        calls.append((candidates, exclude))
        return forward(x, candidates, exclude, *rest)

    monkeypatch.setattr(strategy, "draw", watched_draw)
    monkeypatch.setattr(model, "forward", watched_forward)
    terms = prototype_terms(plan(), strategy)
    for rows in batches():
        terms(model, batch_of(data, rows), 0.5)
        source, exclude = calls[-1]
        assert source is draws[-1].source
        assert exclude is not None
        assert exclude.any() or name == "sampled"
        assert torch.equal(exclude, rows[:, None] == draws[-1].parents[None, :, 0])
    assert len(calls) == len(draws) == len(batches())


@normalizations
@strategies
def test_in_a_whole_training_no_sample_meets_its_own_key(name: str, normalize: str) -> None:
    """Independent of any bookkeeping of rows: with a learning rate of 0 a sample is known by its key."""
    data, model = make_data(), make_model(normalize)
    own_keys = 0
    forward = model.forward

    def watch(x: Tensor, candidates: Any, *rest: Any) -> Any:
        nonlocal own_keys
        output = forward(x, candidates, *rest)
        with torch.no_grad():
            keys = candidates(model, output.encoded, None, None).keys
            itself = torch.cdist(model.encode(x).keys, keys) < 1e-6
        own_keys += int(itself.sum())
        assert not output.weights[itself].any()
        return output

    model.forward = watch
    train(
        model,
        data,
        plan(batch_size=BATCH, max_epochs=3, learning_rate=0.0),
        loss_terms=prototype_terms(plan(), make(name, data)),
        evaluate=None,
        seed=1,
    )
    assert own_keys >= 3 * N * 0.8


def test_equal_rows_in_one_batch_do_not_attend_to_each_other() -> None:
    """A row drawn twice into a batch is the same sample twice."""
    data, model = make_data(), make_model("softmax")
    rows = torch.tensor([4, 7, 4, 9])
    batch = batch_of(data, rows)
    draw = InBatch().draw(batch, 0.0)
    weights = model(batch.x, draw.source, draw.exclude(batch.parents)).weights
    assert weights[0, 2] == weights[2, 0] == 0
    assert weights[0, 1] > 0


def test_in_batch_draws_the_batch() -> None:
    batch = batch_of(make_data(), torch.tensor([3, 1, 2]))
    draw = InBatch().draw(batch, 0.0)
    assert draw.source is in_batch
    assert draw.exclude(batch.parents).tolist() == torch.eye(3, dtype=torch.bool).tolist()


def test_sampled_draws_afresh_without_repetition() -> None:
    data, model = make_data(), make_model("softmax")
    strategy = make("sampled", data, n_candidates=10)
    assert isinstance(strategy, Sampled)
    assert strategy.source is fresh
    state = torch.random.get_rng_state()
    draws = [strategy.draw(batch_of(data, torch.arange(4), seed), 0.0) for seed in range(20)]
    drawn = [draw.parents[:, 0] for draw in draws]
    assert torch.equal(state, torch.random.get_rng_state()), "the global random state is not ours"
    for rows, draw in zip(drawn, draws, strict=True):
        assert len(set(rows.tolist())) == 10
        encoded = model.encode(data.samples[rows])
        assert torch.equal(draw.source(model, encoded, None, None).keys, encoded.keys), "the samples drawn, fresh"
    assert len({tuple(rows.tolist()) for rows in drawn}) == 20
    assert set(torch.cat(drawn).tolist()) == set(range(N)), "every row gets its turn"
    again = make("sampled", data, n_candidates=10).draw(batch_of(data, torch.arange(4)), 0.0)
    assert torch.equal(again.parents, draws[0].parents)


def test_sampled_candidates_carry_gradient() -> None:
    data, model = make_data(), make_model("softmax")
    batch = batch_of(data, torch.arange(5))
    draw = make("sampled", data, n_candidates=6).draw(batch, 0.0)
    output = model(batch.x, draw.source, draw.exclude(batch.parents))
    output.prototype_logits.square().sum().backward()
    assert model.key[0].weight.grad is not None
    assert model.key[0].weight.grad.any(), "only candidates go through the key head"


@pytest.mark.parametrize(("n_rows", "n_candidates"), [(2, None), (3, 1), (24, 1)])
def test_sampled_never_leaves_an_input_without_candidates(n_rows: int, n_candidates: int | None) -> None:
    """One candidate may be the input itself: refused when made, or never drawn, but not met in training."""
    samples = make_data().samples[:n_rows]
    data = Labelled(samples, torch.arange(n_rows) % 2)
    try:
        strategy = make("sampled", data, n_candidates=n_candidates)
    except UserError:
        return
    for seed in range(20):
        batch = batch_of(data, torch.arange(n_rows), seed)
        assert not strategy.draw(batch, 0.0).exclude(batch.parents).all(1).any()


def encoded_of(rows: Tensor) -> Encoded:
    """Encoded rows that can be told apart: keys hold the row, values its negative; both with gradient."""
    keys = rows.double()[:, None].clone().requires_grad_()
    return Encoded(2 * keys, 3 * keys, -1 * keys)


def remembered(strategy: Bank, *groups: list[int]) -> list[int]:
    for group in groups:
        rows = torch.tensor(group)
        strategy.remember(encoded_of(rows), Batch(rows, rows % 3, rows))
    keys, values, labels, parents = (strategy.held[name] for name in Bank.COLUMNS)
    rows = parents[:, 0]
    assert torch.equal(keys[:, 0], 3.0 * rows)
    assert torch.equal(values[:, 0], -1.0 * rows)
    assert torch.equal(labels, rows % 3)
    return rows.tolist()


def test_bank_keeps_the_newest() -> None:
    strategy = Bank(5)
    assert remembered(strategy, [1, 2]) == [1, 2]
    assert remembered(strategy, [3, 4]) == [3, 4, 1, 2]
    assert remembered(strategy, [5, 6]) == [5, 6, 3, 4, 1]
    assert remembered(strategy, [7, 8], [9, 10]) == [9, 10, 7, 8, 5]


@pytest.mark.parametrize("earlier", [[], [[1, 2]]])
def test_bank_never_holds_more_than_its_size(earlier: list[list[int]]) -> None:
    """Also where one batch alone is larger."""
    assert len(remembered(Bank(3), *earlier, [3, 4, 5, 6, 7])) == 3


def test_bank_holds_no_gradient() -> None:
    strategy = Bank(10)
    remembered(strategy, [1, 2], [3, 4])
    for tensor in strategy.held.values():
        assert not tensor.requires_grad
        assert tensor.grad_fn is None


def test_bank_gives_the_batch_a_gradient_but_not_the_past() -> None:
    """The gradient with a bank is that of the same candidates held constant."""
    data, model = make_data(), make_model("softmax")
    strategy = Bank(16)
    old, new = torch.arange(6), torch.arange(6, 12)
    first = model(data.samples[old], in_batch, torch.eye(6, dtype=torch.bool))
    strategy.remember(first.encoded, batch_of(data, old))
    draw = strategy.draw(batch_of(data, new), 0.5)
    found = []
    constant = batch_and_stored(first.encoded.keys.detach().clone(), first.encoded.values.detach().clone())
    for source in (draw.source, constant):
        logits = model(data.samples[new], source, draw.exclude(batch_of(data, new).parents)).prototype_logits
        found.append(torch.autograd.grad(logits.square().sum(), list(model.parameters())))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected)
    model.zero_grad()
    first.prototype_logits.sum().backward()  # the past graph was neither kept busy nor freed


def test_bank_is_not_changed_by_a_later_step_of_the_optimizer() -> None:
    data, model = make_data(), make_model("sparsemax")
    strategy = Bank(8)
    rows = torch.arange(8)
    output = model(data.samples[rows], in_batch, torch.eye(8, dtype=torch.bool))
    strategy.remember(output.encoded, batch_of(data, rows))
    before = strategy.held["keys"].clone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    assert torch.equal(strategy.held["keys"], before)


def test_bank_waits_for_its_warm_up() -> None:
    strategy = Bank(8)
    rows, y = torch.tensor([7, 1]), torch.tensor([0, 1])
    batch = Batch(rows, y, rows)
    assert strategy.draw(batch, 0.9).source is in_batch, "nothing is held yet"
    remembered(strategy, [1, 2])
    for progress in (0.0, 0.05, 0.0999):
        assert strategy.draw(batch, progress).source is in_batch
        assert strategy.draw(batch, progress).parents[:, 0].tolist() == [7, 1]
    draw = strategy.draw(batch, Bank.WARM_UP)
    assert draw.source is not in_batch
    assert draw.parents[:, 0].tolist() == [7, 1, 1, 2]
    assert draw.labels.tolist() == [0, 1, 1, 2]
    assert draw.exclude(batch.parents).tolist() == [[True, False, False, False], [False, True, True, False]]


def test_bank_fills_during_training_and_is_used_after_the_warm_up() -> None:
    data, model = make_data(), make_model("sparsemax")
    strategy = Bank(2 * BATCH)
    widths: list[int] = []
    forward = model.forward

    def watch(*args: Any) -> Any:
        output = forward(*args)
        widths.append(output.weights.shape[1])
        return output

    model.forward = watch
    steps: list[Step] = []
    train(
        model,
        data,
        plan(batch_size=BATCH, max_epochs=10),
        loss_terms=prototype_terms(plan(), strategy),
        evaluate=None,
        seed=1,
        on_step=steps.append,
    )
    assert len(widths) == len(steps) == 30
    assert widths == [BATCH] * 3 + [3 * BATCH] * 27, "the first tenth is in-batch, then batch and a full bank"


@pytest.mark.parametrize("n_candidates", [N, N + 1, 4096])
@strategies
def test_more_candidates_than_rows(name: str, n_candidates: int) -> None:
    with pytest.raises(UserError, match=f"n_candidates={n_candidates} and it has 24 rows; pass n_candidates=23"):
        make(name, make_data(), n_candidates=n_candidates)


@pytest.mark.parametrize("n_candidates", [0, -3])
def test_fewer_than_one_candidate(n_candidates: int) -> None:
    with pytest.raises(UserError, match="n_candidates"):
        make("sampled", make_data(), n_candidates=n_candidates)


def test_names_and_default_sizes() -> None:
    data = make_data()
    sampled, bank = make("sampled", data), make("bank", data)
    assert isinstance(make("in-batch", data), InBatch)
    assert isinstance(sampled, Sampled)
    assert sampled.n_candidates == N - 1
    assert isinstance(bank, Bank)
    assert bank.size == 8 * BATCH
