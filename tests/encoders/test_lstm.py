from __future__ import annotations

import pytest
import torch
from torch import Tensor

from protoattend.encoders.lstm import PaperLSTM
from protoattend.errors import UserError


def rows(n: int, features: int, seed: int = 0) -> Tensor:
    return torch.randn(n, features, generator=torch.Generator().manual_seed(seed))


def test_parameters_of_the_appendix() -> None:
    # FC 108 -> 64 with bias; an LSTM has four gates, each with weights for input and state and two biases.
    expected = (108 * 64 + 64) + 4 * (64 * 64 + 64 * 64 + 64 + 64)
    encoder = PaperLSTM(108)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == expected == 40_256
    assert (encoder.out_features, encoder.steps, encoder.dropout.p) == (64, 4, 0.5)


@pytest.mark.parametrize("steps", [1, 4])
def test_eval_equals_the_lstm_equations_on_one_repeated_input(steps: int) -> None:
    torch.manual_seed(0)
    encoder = PaperLSTM(5, hidden=7, steps=steps).eval()
    x = rows(3, 5)
    vector = torch.relu(x @ encoder.embed.weight.T + encoder.embed.bias)
    state, cell = torch.zeros(3, 7), torch.zeros(3, 7)
    lstm = encoder.lstm
    for _ in range(steps):
        gates = vector @ lstm.weight_ih_l0.T + state @ lstm.weight_hh_l0.T + lstm.bias_ih_l0 + lstm.bias_hh_l0
        enter, forget, candidate, leave = gates.chunk(4, dim=1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        state = leave.sigmoid() * cell.tanh()
    torch.testing.assert_close(encoder(x), state)


def test_every_timestep_draws_its_own_dropout_mask() -> None:
    torch.manual_seed(0)
    encoder = PaperLSTM(5, hidden=64).train()
    seen: list[Tensor] = []
    encoder.lstm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    encoder(rows(8, 5))
    (sequence,) = seen
    assert sequence.shape == (8, 4, 64)
    positive = torch.relu(encoder.embed(rows(8, 5))) > 0
    dropped = (sequence == 0) & positive[:, None]
    assert not torch.equal(dropped[:, 0], dropped[:, 1])
    assert 0.4 < dropped.sum() / (4 * positive.sum()) < 0.6
    kept = sequence[(sequence != 0)]
    whole = (2 * torch.relu(encoder.embed(rows(8, 5))))[:, None].expand(-1, 4, -1)[sequence != 0]
    torch.testing.assert_close(kept, whole)  # what is kept is scaled by 1 / (1 - 0.5)


def test_the_output_is_dropped_out_in_training_and_not_in_eval() -> None:
    torch.manual_seed(0)
    encoder = PaperLSTM(5).train()
    x = rows(64, 5)
    share = (encoder(x) == 0).float().mean()
    assert 0.45 < share < 0.55
    assert not torch.equal(encoder(x), encoder(x))
    encoder.eval()
    assert torch.equal(encoder(x), encoder(x))
    assert (encoder(x) != 0).all()


def test_rows_do_not_depend_on_their_batch() -> None:
    encoder = PaperLSTM(5).eval()
    x = rows(6, 5)
    torch.testing.assert_close(torch.cat([encoder(row[None]) for row in x]), encoder(x))


def test_every_parameter_gets_a_gradient() -> None:
    torch.manual_seed(0)
    encoder = PaperLSTM(5).train()
    (encoder(rows(32, 5)) * rows(32, 64, seed=1)).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_features": 0}, "in_features must be at least 1, but got 0"),
        ({"in_features": 3, "steps": 0}, "steps must be at least 1"),
        ({"in_features": 3, "hidden": -1}, "hidden must be at least 1"),
        ({"in_features": 3, "dropout": 1.0}, r"dropout must be in \[0, 1\), but got 1.0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PaperLSTM(**arguments)  # type: ignore[arg-type]
