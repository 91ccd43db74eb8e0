"""Frozen and fine-tuned modules as parts of an encoder: fronts, what is trained and at which rate."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from protoattend import ImagePreparation, ProtoAttend, fine_tuned, frozen
from protoattend.encoders.build import AsTokens, rows_at_once
from protoattend.encoders.preparation import PrepareImages
from protoattend.errors import UserError
from protoattend.training.optimizers import parameter_groups

GREY = {"channels": 1, "height": 8, "width": 6}
COLOUR = {"channels": 3, "height": 8, "width": 6}


def net(in_channels: int = 3) -> nn.Sequential:
    layers = nn.Conv2d(in_channels, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.Dropout(0.5)
    return nn.Sequential(*layers)


def n_parameters(module: nn.Module, *, trained: bool) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad == trained)


# -- images -----------------------------------------------------------------------------------------------------------


def test_images_are_left_alone_by_default() -> None:
    images = torch.rand(2, 3, 8, 6)
    torch.testing.assert_close(PrepareImages(ImagePreparation(), COLOUR)(images), images, rtol=0, atol=1e-6)
    whole = torch.randint(0, 256, (2, 3, 8, 6), dtype=torch.uint8)
    torch.testing.assert_close(PrepareImages(ImagePreparation(), COLOUR)(whole), whole / 255, rtol=0, atol=1e-6)


def test_images_are_standardised_by_channel_and_grey_ones_repeated() -> None:
    mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    prepared = PrepareImages(ImagePreparation(channels=3, mean=mean, std=std), GREY)(torch.full((1, 1, 8, 6), 0.4))
    assert prepared.shape == (1, 3, 8, 6)
    for c in range(3):
        torch.testing.assert_close(prepared[0, c], torch.full((8, 6), (0.4 - mean[c]) / std[c]))


def test_resizing_is_bilinear() -> None:
    ramp = torch.arange(4.0).view(1, 1, 1, 4).expand(1, 1, 4, 4) / 4
    form = {"channels": 1, "height": 4, "width": 4}
    larger = PrepareImages(ImagePreparation(size=(4, 8)), form)(ramp)
    assert larger.shape == (1, 1, 4, 8)
    # Pixel centres: output j lies at (j + 1/2) / 2 - 1/2 of the input, held at the ends.
    places = np.clip((np.arange(8) + 0.5) / 2 - 0.5, 0, 3) / 4
    np.testing.assert_allclose(larger[0, 0, 0].numpy(), places, atol=1e-6)
    assert PrepareImages(ImagePreparation(size=16), form)(ramp).shape == (1, 1, 16, 16)


def test_large_images_go_through_in_small_batches() -> None:
    cpu = torch.device("cpu")
    small, large = (frozen(net(), images=ImagePreparation(size=s)).encoder("images", COLOUR, 5) for s in (8, 512))
    assert rows_at_once(small, cpu) == 512
    assert rows_at_once(large, cpu) == 1
    assert rows_at_once(large, torch.device("cuda")) == 64
    assert rows_at_once(nn.Flatten(), cpu) == 512


@pytest.mark.parametrize(
    ("how", "form", "message"),
    [
        ({"size": 0}, COLOUR, "size must be a whole number above 0, but got size=0"),
        ({"size": (2, 3, 4)}, COLOUR, r"\(height, width\), but got size=\(2, 3, 4\)"),
        ({"channels": 2.5}, COLOUR, "channels must be a whole number"),
        ({"std": (1.0, 0.0, 1.0)}, COLOUR, "std must be above 0"),
        ({"mean": (0.5, 0.5)}, COLOUR, "mean must be one number or one for each channel, but it has 2"),
        ({"mean": (0.5, 0.5, 0.5)}, GREY, "channels=3 repeats grey images"),
        ({"channels": 1}, COLOUR, "only grey images can be repeated"),
    ],
)
def test_wrong_preparations(how: dict[str, Any], form: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PrepareImages(ImagePreparation(**how), form)


def test_mean_and_std_are_for_images_from_0_to_1() -> None:
    encoder = frozen(net(), images=ImagePreparation(mean=0.5, std=0.5))
    assert encoder.count_features("images", COLOUR, torch.rand(2, 3, 8, 6)) == 5
    assert encoder.count_features("images", COLOUR, torch.full((2, 3, 8, 6), 255, dtype=torch.uint8)) == 5
    with pytest.raises(UserError, match="X goes from 0 to 255"):
        encoder.count_features("images", COLOUR, torch.tensor([0.0, 255.0]).view(2, 1, 1, 1).expand(2, 3, 8, 6))
    assert frozen(net()).count_features("images", COLOUR, torch.full((2, 3, 8, 6), 255.0)) == 5


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_columns_that_are_all_padding_are_dropped() -> None:
    ids = torch.tensor([[5, 6, 7, 0, 0], [5, 0, 0, 0, 0]])
    mask = (ids > 0).long()
    named = AsTokens(["input_ids", "attention_mask"])(torch.stack([ids, mask], dim=1).int())
    assert isinstance(named, dict)
    assert named["input_ids"].tolist() == [[5, 6, 7], [5, 0, 0]]
    assert named["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert named["input_ids"].dtype == torch.int64
    empty = AsTokens(["input_ids", "attention_mask"])(torch.zeros(2, 2, 5, dtype=torch.int32))
    assert isinstance(empty, dict)
    assert empty["input_ids"].shape == (2, 1)
    unmasked = AsTokens(["input_ids"])(ids[:, None])
    assert isinstance(unmasked, dict)
    assert unmasked["input_ids"].shape == (2, 5)
    assert torch.equal(AsTokens([])(ids.int()), ids)


# -- what is trained --------------------------------------------------------------------------------------------------


def test_only_the_mapping_behind_a_frozen_module_can_be_trained() -> None:
    encoder = frozen(net()).encoder("images", COLOUR, 5)
    assert encoder.out_features == 256
    assert n_parameters(encoder, trained=True) == 5 * 256 + 256 + 2 * 256  # the layer, and the layer norm
    assert n_parameters(encoder, trained=False) == 3 * 5 * 9 + 5 + 2 * 5
    encoder.train()
    assert not any(module.training for module in encoder.front.modules())
    assert encoder.body.training
    before = copy.deepcopy(encoder.front.state_dict())
    features = encoder(torch.rand(4, 3, 8, 6))
    features.sum().backward()
    assert features.shape == (4, 256)
    assert all(torch.equal(value, before[name]) for name, value in encoder.front.state_dict().items())


def test_gradient_still_flows_through_a_frozen_module_to_its_input() -> None:
    images = torch.rand(1, 3, 8, 6, requires_grad=True)
    frozen(net()).encoder("images", COLOUR, 5)(images)[0, :8].sum().backward()
    assert images.grad is not None
    assert images.grad.abs().max() > 0


def test_the_users_module_is_copied() -> None:
    module = net().train()
    for made in (frozen(module), fine_tuned(module)):
        encoder = made.encoder("images", COLOUR, made.count_features("images", COLOUR, torch.rand(2, 3, 8, 6)))
        assert not set(map(id, module.parameters())) & set(map(id, encoder.parameters()))
    assert module[1].training
    assert module[1].num_batches_tracked == 0
    assert all(p.requires_grad for p in module.parameters())


def test_groups_of_parameters() -> None:
    encoder = fine_tuned(net(), learning_rate=1e-4).encoder("images", COLOUR, 5)
    model = ProtoAttend(encoder, n_classes=2)
    common, own = parameter_groups(model, 0.01)
    assert (common["lr"], own["lr"]) == (0.01, 1e-4)
    assert set(own["params"]) == set(encoder.body.parameters())
    assert set(common["params"]) | set(own["params"]) == set(model.parameters())
    assert len(common["params"]) + len(own["params"]) == len(list(model.parameters()))
    (only,) = parameter_groups(ProtoAttend(nn.Flatten(), n_classes=2, in_features=4), 0.01)
    assert only["lr"] == 0.01


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0, -1e-5, float("nan"), "fast", True, None])
def test_learning_rate_of_its_own_must_be_above_zero(rate: Any) -> None:
    with pytest.raises(UserError, match=r"learning_rate must be a number above 0.*frozen\(module\)"):
        fine_tuned(net(), learning_rate=rate)


def test_wrong_arguments() -> None:
    with pytest.raises(UserError, match=r"must be an nn\.Module, but got 'resnet50'"):
        frozen("resnet50")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"must be an nn\.Module, but got frozen"):
        fine_tuned(frozen(net()))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="tokenizer must be a callable"):
        frozen(net(), tokenizer="bert")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="output must be a name, an index or a callable"):
        frozen(net(), output=1.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="has no tokenizer; pass tokenizer="):
        frozen(net()).count_features("text", {"length": 8}, torch.zeros(2, 8))


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(torch.arange(len(x)) == 1, torch.nan, 1.0)[:, None].expand(-1, 3)


def test_features_must_be_finite() -> None:
    with pytest.raises(UserError, match=r"frozen\(Broken\) gave NaN or infinity for row 1 of X"):
        frozen(Broken()).count_features("images", COLOUR, torch.rand(2, 3, 8, 6))
