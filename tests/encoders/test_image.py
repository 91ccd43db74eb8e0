from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.encoders.image import FastCNN, ResNet, resnet32, resnet50, resnet_for
from protoattend.errors import UserError


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def images(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def settled(encoder: nn.Module, x: Tensor) -> nn.Module:
    """The encoder in eval mode after its batch statistics have seen x."""
    encoder.train()
    with torch.no_grad():
        encoder(x)
    return encoder.eval()


def small_encoders() -> list[tuple[str, nn.Module, Tensor]]:
    torch.manual_seed(0)
    return [
        ("resnet", ResNet(1, blocks_per_stage=1, head=(32,)), images(6, 1, 20, 20)),
        ("stem", ResNet(3, blocks_per_stage=2, head=(32, 16), stem="downsample"), images(6, 3, 70, 66)),
        ("fast", FastCNN(3, widths=(8, 16, 32)), images(6, 3, 32, 32)),
        ("digits", FastCNN(1, widths=(8, 16)), images(6, 1, 8, 8)),
    ]


# A block from i to o filters has the 3x3 convolutions i -> o and o -> o, the 1x1 convolution i -> o and three
# BatchNorms of 2 o each: 9 i o + 9 o o + i o + 6 o.
STAGE_1, STAGE_1_2, STAGE_2, STAGE_2_3, STAGE_3 = (
    9 * i * o + 9 * o * o + i * o + 6 * o for i, o in ((16, 16), (16, 32), (32, 32), (32, 64), (64, 64))
)


def test_resnet32_has_the_parameters_of_the_appendix() -> None:
    first = 9 * 1 * 16 + 2 * 16  # 3x3 convolution and BatchNorm
    stages = 5 * STAGE_1 + (STAGE_1_2 + 4 * STAGE_2) + (STAGE_2_3 + 4 * STAGE_3)
    head = 64 * 256 + 256 + 2 * 256  # weights, bias, LayerNorm
    assert first + stages + head == 505_808
    assert n_parameters(resnet32(1)) == 505_808
    assert resnet32(1).out_features == 256


def test_resnet50_has_the_parameters_of_the_appendix() -> None:
    first = 9 * 3 * 16 + 2 * 16
    stages = 8 * STAGE_1 + (STAGE_1_2 + 7 * STAGE_2) + (STAGE_2_3 + 7 * STAGE_3)
    head = (64 * 256 + 256 + 2 * 256) + (256 * 512 + 512 + 2 * 512)
    assert first + stages + head == 947_152
    assert n_parameters(resnet50(3)) == 947_152
    assert resnet50(3).out_features == 512


@pytest.mark.parametrize(("build", "layers"), [(resnet32, 32), (resnet50, 50)])
def test_layer_count_is_the_one_in_the_name(build: Callable[[int], ResNet], layers: int) -> None:
    encoder = build(3)
    convs = [m for m in encoder.modules() if isinstance(m, nn.Conv2d)]
    three_by_three = [conv for conv in convs if conv.kernel_size == (3, 3)]
    assert len(three_by_three) + 1 == layers  # the last layer is fully connected
    assert len(convs) - len(three_by_three) == (layers - 2) // 2  # one 1x1 shortcut in every block


def test_maps_halve_at_the_second_and_third_stage() -> None:
    x = images(2, 1, 28, 28)
    shapes = []
    for layer in resnet32(1).body:
        x = layer(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(16, 28, 28)] * 6 + [(32, 14, 14)] * 5 + [(64, 7, 7)] * 5  # then 7x7 average pooling


@pytest.mark.parametrize(("name", "size", "start"), [("resnet32", 100, 25), ("resnet50", 128, 32)])
def test_stem_divides_by_four_and_adds_one_convolution(name: str, size: int, start: int) -> None:
    encoder = resnet_for(name, 3, size)
    assert tuple(encoder.body[:2](images(2, 3, size, size)).shape) == (2, 16, start, start)
    plain = resnet_for(name, 3, 64)
    # Stem: 9 * 3 * 16 + 32; the next convolution reads 16, not 3 channels; the head is one layer of 128.
    bodies = n_parameters(encoder.body) - n_parameters(plain.body)
    assert bodies == (9 * 3 * 16 + 32) + 9 * (16 - 3) * 16
    assert n_parameters(encoder.head) == 64 * 128 + 128 + 2 * 128
    assert encoder.out_features == 128


def test_block_is_relu_of_transform_plus_projected_input() -> None:
    x = images(4, 16, 9, 9)
    encoder = settled(ResNet(1, blocks_per_stage=1), images(4, 1, 9, 9))
    block = encoder.body[2]  # 16 -> 32, stride 2
    conv1, norm1, conv2, norm2, conv3, norm3 = (m for m in block.modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d))

    def normalized(maps: Tensor, norm: nn.Module) -> Tensor:
        return F.batch_norm(maps, norm.running_mean, norm.running_var, norm.weight, norm.bias)

    hidden = F.relu(normalized(F.conv2d(x, conv1.weight, stride=2, padding=1), norm1))
    transformed = normalized(F.conv2d(hidden, conv2.weight, padding=1), norm2)
    projected = normalized(F.conv2d(x, conv3.weight, stride=2), norm3)
    torch.testing.assert_close(block(x), F.relu(transformed + projected))


def test_shortcuts_start_as_the_identity_where_shapes_agree() -> None:
    shortcut = ResNet(1, blocks_per_stage=1).body[1].shortcut[0]
    assert torch.equal(shortcut.weight.detach().view(16, 16), torch.eye(16))


def test_fast_cnn_has_the_parameters_of_its_layers() -> None:
    patches = 8 * 1 * 2 * 2 + 2 * 8  # 8 filters of 2x2 and their BatchNorm
    stages = sum(9 * i * o + 9 * o * o + 4 * o for i, o in ((8, 32), (32, 128), (128, 256)))
    assert patches + stages == 1_082_288
    assert n_parameters(FastCNN(1)) == 1_082_288
    assert FastCNN(1).out_features == 256


@pytest.mark.parametrize(("size", "sides"), [(28, [13, 6, 3]), (32, [15, 7, 3]), (8, [3, 3, 3]), (100, [49, 24, 12])])
def test_fast_cnn_pools_while_maps_are_large_enough(size: int, sides: list[int]) -> None:
    encoder = FastCNN(1, widths=(4, 4, 4))
    maps = encoder.patches(images(2, 1, size, size))
    found = []
    for stage in encoder.stages:
        maps = stage(maps)
        found.append(maps.shape[-1])
    assert found == sides


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_patch_filters_are_an_orthonormal_basis_and_its_negative(channels: int) -> None:
    filters = FastCNN(channels, widths=(4,)).patches[0].weight.detach().flatten(1)
    basis, negative = filters.chunk(2)
    torch.testing.assert_close(basis @ basis.T, torch.eye(4 * channels))
    assert torch.equal(negative, -basis)


def test_resnet_for_takes_the_stem_above_64_pixels_only() -> None:
    assert resnet_for("resnet32", 1, 64).out_features == 256
    assert resnet_for("resnet32", 1, 65).out_features == 128
    assert resnet_for("resnet50", 1, 32).out_features == 512
    with pytest.raises(UserError, match="did you mean 'resnet50'"):
        resnet_for("resnet-50", 1, 32)


@pytest.mark.parametrize(("name", "encoder", "x"), small_encoders())
def test_eval_is_deterministic_and_rows_do_not_depend_on_their_batch(name: str, encoder: nn.Module, x: Tensor) -> None:
    settled(encoder, x)
    whole = encoder(x)
    assert whole.shape == (6, encoder.out_features)
    assert torch.equal(whole, encoder(x))
    torch.testing.assert_close(torch.cat([encoder(row[None]) for row in x]), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "encoder", "x"), small_encoders())
def test_every_parameter_gets_a_gradient(name: str, encoder: nn.Module, x: Tensor) -> None:
    encoder.train()
    features = encoder(x)
    (features * images(*features.shape, seed=1)).sum().backward()
    for parameter_name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("size", [(2, 2), (3, 2), (5, 31), (8, 8), (27, 40), (100, 100)])
def test_odd_sizes(size: tuple[int, int]) -> None:
    x = images(2, 3, *size)
    assert FastCNN(3, widths=(4, 8))(x).shape == (2, 8)
    assert ResNet(3, blocks_per_stage=1, head=(8,))(x).shape == (2, 8)
    assert ResNet(3, blocks_per_stage=1, head=(8,), stem="downsample")(x).shape == (2, 8)


@pytest.mark.parametrize("encoder", [FastCNN(3, widths=(4, 8)), ResNet(3, blocks_per_stage=1, head=(8,))])
def test_memory_format_changes_nothing_but_speed(encoder: nn.Module) -> None:
    x = images(4, 3, 16, 16)
    settled(encoder, x)
    convs = [m for m in encoder.modules() if isinstance(m, nn.Conv2d)]
    assert all(conv.weight.is_contiguous(memory_format=torch.channels_last) for conv in convs)
    as_channels_last = encoder(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(as_channels_last, encoder(x))
    torch.testing.assert_close(encoder.to(memory_format=torch.contiguous_format)(x), as_channels_last)


def test_fast_cnn_learns_digits_in_a_few_steps() -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
    y = torch.tensor(digits.target)
    torch.manual_seed(0)
    model = nn.Sequential(FastCNN(1, widths=(16, 32, 64)), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(40):
        rows = slice(step % 10 * 128, step % 10 * 128 + 128)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model.eval()(x[1280:]).argmax(1) == y[1280:]).float().mean()
    assert accuracy > 0.9


@pytest.mark.parametrize("encoder", [FastCNN(3, widths=(4,)), ResNet(3, blocks_per_stage=1)])
def test_wrong_images_are_refused_with_the_rule_and_the_value(encoder: nn.Module) -> None:
    with pytest.raises(UserError, match=r"\(B, 3, H, W\), but they have \(2, 8, 8, 3\)"):
        encoder(torch.zeros(2, 8, 8, 3))
    with pytest.raises(UserError, match=r"\(8, 8\)"):
        encoder(torch.zeros(8, 8))
    with pytest.raises(UserError, match=r"floating point, but they are torch\.uint8"):
        encoder(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UserError, match="at least 2x2 pixels, but they are 1x5"):
        FastCNN(1)(torch.zeros(1, 1, 1, 5))
    with pytest.raises(UserError, match="blocks_per_stage must be at least 1, but got 0"):
        ResNet(1, blocks_per_stage=0)
    with pytest.raises(UserError, match="must be one of 'none', 'downsample'"):
        ResNet(1, blocks_per_stage=1, stem="down")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="head"):
        ResNet(1, blocks_per_stage=1, head=())
    with pytest.raises(UserError, match="widths"):
        FastCNN(1, widths=())
