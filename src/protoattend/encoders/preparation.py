"""What a pre-trained image net wants of images before it reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.encoders.build import ROWS_AT_ONCE, UnitRange
from protoattend.errors import UserError

# At once on a CPU. More images are slower, as all between the layers leaves the cache.
PIXELS_AT_ONCE = 2**18


@dataclass(frozen=True)
class ImagePreparation:
    """The size, channels, mean and standard deviation of images that a pre-trained network was trained with.

    uint8 images become floats in [0, 1]; floats must lie there. What is not given is left as it is.

    Parameters
    ----------
    size : int or (height, width), default=None
        What images are resized to, bilinearly.
    channels : int, default=None
        3 repeats grey images.
    mean, std : float or sequence of float, default=0.0 and 1.0
        Of images in [0, 1]: one number, or one for each channel.

    Raises
    ------
    UserError
        If `size` or `channels` is no whole number above 0, or `std` is not above 0.

    Examples
    --------
    >>> imagenet = ImagePreparation(size=224, channels=3, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    >>> imagenet.size
    224
    """

    size: int | tuple[int, int] | None = None
    channels: int | None = None
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        for name in ("size", "channels"):
            given = getattr(self, name)
            if given is not None and not all(isinstance(number, int) and number > 0 for number in _listed(given)):
                raise UserError(f"{name} must be a whole number above 0, but got {name}={given!r}.")
        if len(_listed(self.size)) > 2:
            raise UserError(f"size must be one number or (height, width), but got size={self.size!r}.")
        if not all(0 < number < math.inf for number in _listed(self.std)):
            raise UserError(f"std must be above 0 in every channel, but got std={self.std!r}.")

    def check(self, samples: Tensor) -> None:
        """Raise where mean and standard deviation are given for images that do not lie in [0, 1]."""
        if samples.dtype == torch.uint8 or (self.mean, self.std) == (0.0, 1.0):
            return
        low, high = float(samples.min()), float(samples.max())
        if low < 0 or high > 1:
            raise UserError(
                f"mean= and std= are for uint8 images or floats in [0, 1], but X goes from {low:g} to {high:g}; "
                "scale it, or pass uint8."
            )


class PrepareImages(nn.Module):
    """Images `(B, c, h, w)` made ready as an `ImagePreparation` says: `(B, channels, height, width)`."""

    def __init__(self, images: ImagePreparation, form: Mapping[str, Any]) -> None:
        super().__init__()
        self.channels = images.channels or form["channels"]
        if form["channels"] not in (1, self.channels):
            raise UserError(
                f"only grey images can be repeated to more channels, but channels={self.channels} and the images of X "
                f"have {form['channels']}; convert them first."
            )
        size = _listed(images.size) or (form["height"], form["width"])
        self.size = (size[0], size[-1])
        self.rows_at_once = min(ROWS_AT_ONCE, max(1, PIXELS_AT_ONCE // math.prod(self.size)))
        self.unit_range = UnitRange()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", self._by_channel("mean", images.mean))
        self.register_buffer("std", self._by_channel("std", images.std))

    def forward(self, x: Tensor) -> Tensor:
        x = self.unit_range(x).expand(-1, self.channels, -1, -1)
        return (F.interpolate(x, self.size, mode="bilinear", antialias=True) - self.mean) / self.std

    def _by_channel(self, name: str, given: float | Sequence[float]) -> Tensor:
        numbers = _listed(given)
        if len(numbers) not in (1, self.channels):
            raise UserError(
                f"{name} must be one number or one for each channel, but it has {len(numbers)} and the images have "
                f"{self.channels} channels; channels=3 repeats grey images."
            )
        return torch.tensor(numbers, dtype=torch.float32).view(1, -1, 1, 1)


def _listed(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Iterable) else (given,)
