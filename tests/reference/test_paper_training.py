"""Training by the paper's recipe, through the library's own loop, against the same steps in plain loops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from protoattend import ExponentialDecay
from protoattend.config import PAPER, Settings
from protoattend.core.candidates import fresh
from protoattend.data.augment import Augmentation
from protoattend.encoders.lstm import PaperLSTM
from protoattend.training.candidates import Sampled
from protoattend.training.fit import _candidates
from protoattend.training.loop import Step, train
from protoattend.training.losses import prototype_terms
from protoattend.training.setup import Setup, seeded, set_up

from .naive_training import Drawn, NaiveTraining, conv_encoder, lstm_encoder

STEPS, B, D = 3, 2, 64  # as many candidates an input as would be re-encoded without dropout and batch statistics
LAMBDA_SPARSE, LAMBDA_CONF, RATE = 0.2, 0.3, 0.01
SCHEDULE = ExponentialDecay(rate=0.5, every=2)


class RememberingDropout(nn.Dropout):
    """Dropout that notes what it has kept, from the first step on."""

    def __init__(self, p: float) -> None:
        super().__init__(p)
        self.masks: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.masks.append(super().forward(torch.ones_like(x)))
        return x * self.masks[-1]


@dataclass
class Trained:
    """What the library's loop saw and did: at each step inputs, candidates, loss terms and gradient, and parameters."""

    setup: Setup
    inputs: list[Drawn] = field(default_factory=list)
    candidates: list[Drawn] = field(default_factory=list)
    losses: list[dict[str, float]] = field(default_factory=list)
    gradients: list[dict[str, Tensor]] = field(default_factory=list)
    states: list[dict[str, Tensor]] = field(default_factory=list)


def trained_by_us(settings: Settings, X: np.ndarray, y: np.ndarray) -> Trained:
    """Train in double precision, from samples to parameters as `fit` does."""
    with seeded(3) as generator:
        setup = set_up(settings, X, y, None, generator)
        setup.model.double()
        everything = setup.prepared.everything
        exact = replace(everything, samples=everything.samples[:].double())
        setup = replace(setup, prepared=replace(setup.prepared, everything=exact))
        found = Trained(setup)
        for module in setup.model.modules():
            if isinstance(module, RememberingDropout):
                module.masks.clear()  # of what was read to count features
        candidates = _candidates(settings, setup)
        assert isinstance(candidates, Sampled)
        assert candidates.source is fresh
        fetch, draw = candidates.fetch, candidates.draw

        def fetch_noting(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            x, labels = fetch(rows, generator)
            found.candidates.append(Drawn(_samples(x), labels.tolist(), rows.tolist()))
            return x, labels

        def draw_noting(batch: Any, progress: float) -> Any:
            found.inputs.append(Drawn(_samples(batch.x), batch.y.tolist(), batch.rows.tolist()))
            found.states.append(_state(setup.model))
            return draw(batch, progress)

        def note(step: Step) -> None:
            found.losses.append(dict(step.losses))
            gradients = {name: parameter.grad for name, parameter in setup.model.named_parameters()}
            found.gradients.append({name: grad.clone() for name, grad in gradients.items() if grad is not None})

        candidates.fetch, candidates.draw = fetch_noting, draw_noting  # type: ignore[method-assign]
        train(
            setup.model,
            setup.prepared.train,
            setup.plan,
            loss_terms=prototype_terms(setup.plan, candidates),
            evaluate=None,
            seed=0,
            augment=setup.augment,
            on_step=note,
        )
    return found


def _samples(x: Tensor) -> Any:
    return (x[:, 0] if x.ndim == 4 else x).tolist()


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def assert_the_same_steps(ours: Trained, naive: NaiveTraining) -> None:
    """Compare loss terms, gradient (clipped) and parameters step by step; each step begins where the last ended."""
    state = {name: value.tolist() for name, value in ours.states[0].items()}
    for number in range(STEPS):
        terms, gradient, after = naive.step(state, ours.inputs[number], ours.candidates[number], number)
        assert ours.losses[number] == pytest.approx(terms, rel=1e-9, abs=1e-12)
        norm = np.sqrt(sum(np.square(each).sum() for each in gradient.values()))
        shrink = min(1.0, naive.clip / (norm + 1e-6))
        for name, found in ours.gradients[number].items():
            expected = shrink * np.array(gradient[name])
            np.testing.assert_allclose(found.flatten(), expected, rtol=1e-6, atol=1e-12, err_msg=f"{number} {name}")
        for name, value in ours.states[number + 1].items():
            np.testing.assert_allclose(value.flatten(), after[name], rtol=1e-7, atol=1e-9, err_msg=f"{number} {name}")
        state = {
            name: value.new_tensor(after[name]).view_as(value).tolist() for name, value in ours.states[number].items()
        }


def settings_for(encoder: nn.Module, normalize: str, **recipe: Any) -> Settings:
    return Settings(
        encoder=encoder,
        normalize=normalize,
        recipe=replace(PAPER, schedule=SCHEDULE, **recipe),
        lambda_sparse=LAMBDA_SPARSE,
        lambda_conf=LAMBDA_CONF,
        candidates="sampled",
        n_candidates=D,
        n_prototypes=None,
        batch_size=B,
        max_epochs=1,
        learning_rate=RATE,
        d_att=2,
        d_out=3,
        augment=Augmentation(padding=1, horizontal=True),
        validation_fraction=0.0,
        device="cpu",
        verbose=0,
    )


def naive_like(settings: Settings, encode: Any, filters: tuple[str, ...] = ()) -> NaiveTraining:
    return NaiveTraining(
        encode,
        settings.normalize,
        LAMBDA_SPARSE,
        LAMBDA_CONF,
        RATE,
        SCHEDULE.rate,
        SCHEDULE.every,
        settings.training_recipe.clip_norm,
        settings.training_recipe.weight_decay,
        filters,
    )


@pytest.mark.parametrize(("normalize", "clip_norm"), [("softmax", 20.0), ("sparsemax", 20.0), ("sparsemax", 0.3)])
def test_images(normalize: str, clip_norm: float) -> None:
    """Each cropped image by its own mean, batch norm by the pass, free keys, and decay of the filters alone."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    settings = settings_for(module, normalize, weight_decay=0.1, clip_norm=clip_norm)
    X = np.random.default_rng(0).normal(size=(80, 4, 4)).astype(np.float32)
    ours = trained_by_us(settings, X, np.arange(80) % 3)
    assert_the_same_steps(ours, naive_like(settings, conv_encoder, ("encoder.body.0.weight",)))
    norms = [sum(float(g.square().sum()) for g in each.values()) ** 0.5 for each in ours.gradients[:STEPS]]
    assert (max(norms) > 0.99 * clip_norm) == (clip_norm < 1)  # clipped in the one case, not in the others


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_tables(normalize: str) -> None:
    """The LSTM's output as it is, and dropout on inputs and on all candidates alike."""
    torch.manual_seed(0)
    module = PaperLSTM(3, 3)
    module.dropout = RememberingDropout(0.5)
    settings = replace(settings_for(module, normalize), augment="auto")
    X = np.random.default_rng(0).normal(size=(80, 3))
    ours = trained_by_us(settings, X, np.arange(80) % 3)
    masks = ours.setup.model.encoder.body.dropout.masks[: 4 * STEPS]  # type: ignore[union-attr]
    assert all(0.2 < float((mask == 0).double().mean()) < 0.8 for mask in masks if len(mask) == D)
    for number, (at_steps, at_end) in enumerate(zip(masks[::2], masks[1::2], strict=True)):
        drawn = (ours.inputs, ours.candidates)[number % 2]
        drawn[number // 2] = replace(drawn[number // 2], masks=(at_steps.tolist(), at_end.tolist()))
    assert_the_same_steps(ours, naive_like(settings, lstm_encoder))
