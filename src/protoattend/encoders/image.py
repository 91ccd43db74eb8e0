"""Image encoders: the paper's residual networks (Appendix A.1) and a shallow, wide network made for CPUs.

All map floating-point images `(B, C, H, W)` of any size to features `(B, out_features)`, and compute in the
channels_last memory format, in which a CPU trains faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.encoders.parts import part
from protoattend.errors import UserError, choose

Stem = Literal["none", "downsample"]

# Appendix A.1: blocks in each of the three stages, and the widths of the fully-connected layers with and
# without the downsampling stem. 32 = 1 + 2 * 3 * 5 + 1 and 50 = 1 + 2 * 3 * 8 + 1 layers, without shortcuts.
_BLOCKS_PER_STAGE = {"resnet32": 5, "resnet50": 8}
_HEADS: dict[str, dict[Stem, tuple[int, ...]]] = {
    "resnet32": {"none": (256,), "downsample": (128,)},  # MNIST and Fashion-MNIST; Fruits
    "resnet50": {"none": (256, 512), "downsample": (128,)},  # CIFAR-10; ISIC Melanoma
}
_FIRST_WIDTH = 16
_LARGEST_SIZE_WITHOUT_STEM = 64
_SMALLEST_MAP_TO_POOL = 4


@part
class ResNet(nn.Module):
    """The residual network of Appendix A.1: stages of 16, 32 and 64 filters, then fully-connected layers.

    A 3x3 convolution to 16 filters comes first (it makes the layer count of the paper true). Each block is
    `relu(bn(conv3x3(relu(bn(conv3x3(x))))) + bn(conv1x1(x)))`. The paper adds "the input after a 1x1
    convolution" in every block and follows "each convolution" by batch normalisation and ReLU; where the two
    branches meet, ReLU comes once, after the addition (He et al., 2016), so that both may add and subtract.
    The first block of the second and third stage has stride 2. Global average pooling is the paper's 7x7 on
    28 px and 8x8 on 32 px images. Each width in `head` is a fully-connected layer, ReLU, layer normalisation.

    `stem="downsample"` puts the stride-2 convolution (16 filters) and the stride-2 max-pooling that the paper
    uses for Fruits (100 -> 25 px) and ISIC (128 -> 32 px) in front of the whole network.

    >>> ResNet(3, blocks_per_stage=1)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    """

    def __init__(
        self, in_channels: int, *, blocks_per_stage: int, head: Sequence[int] = (256,), stem: Stem = "none"
    ) -> None:
        super().__init__()
        choose(stem, ("none", "downsample"), "stem")
        _check_counts(in_channels=in_channels, blocks_per_stage=blocks_per_stage)
        if not head:
            raise UserError("head must name at least one width, but it is empty; pass head=(256,)")
        self.in_channels = in_channels
        width = _FIRST_WIDTH
        layers: list[nn.Module] = []
        if stem == "downsample":
            layers += [_conv_bn_relu(in_channels, width, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
        layers.append(_conv_bn_relu(width if layers else in_channels, width))
        for stage in range(3):
            out = _FIRST_WIDTH * 2**stage
            for block in range(blocks_per_stage):
                layers.append(_ResidualBlock(width, out, stride=2 if stage and not block else 1))
                width = out
        self.body = nn.Sequential(*layers)
        widths = [width, *head]
        self.head = nn.Sequential(*(_fully_connected(i, o) for i, o in pairwise(widths)))
        self.out_features = widths[-1]
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(B, C, H, W)` to features `(B, out_features)`."""
        maps = self.body(_channels_last(x, self.in_channels))
        return cast(Tensor, self.head(maps.mean(dim=(2, 3))))


@part
class FastCNN(nn.Module):
    """A shallow, wide network that learns fast on a CPU: a patch layer, stages, then global max pooling.

    One stage per width: conv3x3 - 2x2 max-pool - BN - GELU - conv3x3 - BN - GELU, as in airbench (Jordan,
    2024), which learns CIFAR-10 in very few operations; as there, a convolution starts by handing its input
    on. Maps below 4 px are not pooled further, so that 8x8 digits work like 100x100 photographs.

    The patch layer is a 2x2 convolution that starts as a signed cosine basis over pixels and colours. These
    are nearly the principal components of natural image patches, so that the batch normalisation after it
    starts out close to whitening, without looking at data.

    >>> FastCNN(1)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 256])
    """

    def __init__(self, in_channels: int, widths: Sequence[int] = (32, 128, 256)) -> None:
        super().__init__()
        _check_counts(in_channels=in_channels)
        if not widths:
            raise UserError("widths must name at least one stage, but it is empty; pass widths=(32, 128, 256)")
        self.in_channels = in_channels
        patches = nn.Conv2d(in_channels, 8 * in_channels, 2, bias=False)
        if not patches.weight.is_meta:  # which has a shape alone
            with torch.no_grad():
                patches.weight.copy_(_signed_patch_basis(in_channels))
        self.patches = nn.Sequential(patches, nn.BatchNorm2d(patches.out_channels), nn.GELU())
        ins = [patches.out_channels, *widths]
        self.stages = nn.Sequential(*(_PooledStage(i, o) for i, o in pairwise(ins)))
        self.out_features = ins[-1]
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(B, C, H, W)` of at least 2x2 pixels to features `(B, out_features)`."""
        x = _channels_last(x, self.in_channels)
        height, width = x.shape[2:]
        if min(height, width) < 2:
            raise UserError(f"images must be at least 2x2 pixels, but they are {height}x{width}; pad them")
        maps = self.stages(self.patches(x))
        return cast(Tensor, maps.amax(dim=(2, 3)))


def resnet32(in_channels: int, *, stem: Stem = "none") -> ResNet:
    """The paper's 32-layer network; 256 features (MNIST, Fashion-MNIST) or, with the stem, 128 (Fruits)."""
    return _paper_resnet("resnet32", in_channels, stem=stem)


def resnet50(in_channels: int, *, stem: Stem = "none") -> ResNet:
    """The paper's 50-layer network; 512 features (CIFAR-10) or, with the stem, 128 (ISIC Melanoma)."""
    return _paper_resnet("resnet50", in_channels, stem=stem)


def resnet_for(name: str, in_channels: int, image_size: int) -> ResNet:
    """Build `name` ("resnet32" or "resnet50") for images of `image_size` px; above 64 px with the stem.

    >>> resnet_for("resnet32", 3, 100).out_features
    128
    """
    choose(name, _HEADS, "name")
    return _paper_resnet(name, in_channels, stem="downsample" if image_size > _LARGEST_SIZE_WITHOUT_STEM else "none")


def _paper_resnet(name: str, in_channels: int, *, stem: Stem) -> ResNet:
    choose(stem, ("none", "downsample"), "stem")
    return ResNet(in_channels, blocks_per_stage=_BLOCKS_PER_STAGE[name], head=_HEADS[name][stem], stem=stem)


class _ResidualBlock(nn.Module):
    def __init__(self, ins: int, outs: int, *, stride: int) -> None:
        super().__init__()
        self.transform = nn.Sequential(
            _conv_bn_relu(ins, outs, stride=stride),
            nn.Conv2d(outs, outs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outs),
        )
        projection = nn.Conv2d(ins, outs, 1, stride=stride, bias=False)
        if ins == outs:
            # Start as the identity: 15 random projections in a row forget the input.
            nn.init.dirac_(projection.weight)
        self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.transform(x) + self.shortcut(x), inplace=True)


class _PooledStage(nn.Module):
    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.widen, self.refine = _handing_on(ins, outs), _handing_on(outs, outs)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outs), nn.BatchNorm2d(outs)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.widen(x)
        if min(x.shape[-2:]) >= _SMALLEST_MAP_TO_POOL:
            x = F.max_pool2d(x, 2)  # before BN and GELU, which then touch a quarter of the numbers
        x = F.gelu(self.norms[0](x))
        return F.gelu(self.norms[1](self.refine(x)))


def _handing_on(ins: int, outs: int) -> nn.Conv2d:
    """A convolution whose first filters start as the identity; those beyond the number of inputs stay random."""
    conv = nn.Conv2d(ins, outs, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight[:ins])
    return conv


def _conv_bn_relu(ins: int, outs: int, *, stride: int = 1) -> nn.Sequential:
    # BN's shift makes a bias of the convolution redundant.
    conv = nn.Conv2d(ins, outs, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outs), nn.ReLU(inplace=True))


def _fully_connected(ins: int, outs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(ins, outs), nn.ReLU(inplace=True), nn.LayerNorm(outs))


def _signed_patch_basis(in_channels: int) -> Tensor:
    """An orthonormal cosine basis of 2x2 patches and its negative, `(8 * in_channels, in_channels, 2, 2)`."""
    pixels = torch.kron(_cosine_basis(2), _cosine_basis(2))
    basis = torch.kron(_cosine_basis(in_channels), pixels).reshape(4 * in_channels, in_channels, 2, 2)
    return torch.cat([basis, -basis])


def _cosine_basis(n: int) -> Tensor:
    """The orthonormal DCT-II, rows are basis vectors `(n, n)`; n = 3 gives grey and two opponent colours."""
    k = torch.arange(n, dtype=torch.float64)
    rows = torch.cos(math.pi / n * (k + 0.5) * k[:, None])
    return (rows / rows.norm(dim=1, keepdim=True)).float()


def _channels_last(x: Tensor, in_channels: int) -> Tensor:
    if x.ndim != 4 or x.shape[1] != in_channels:
        raise UserError(
            f"images must have the shape (B, {in_channels}, H, W), but they have {tuple(x.shape)}; "
            f"move the channels to the second place or build the encoder for other in_channels"
        )
    if not x.is_floating_point():
        raise UserError(f"images must be floating point, but they are {x.dtype}; pass standardize_per_image(images)")
    return x.contiguous(memory_format=torch.channels_last)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"{name} must be at least 1, but got {count}; pass {name}=1 or more")
