"""Augmentation of image batches: every image its own draw, all from one generator, no loop over images.

Images are `(B, C, H, W)`, uint8 or floating point; the result has the same shape, type and device, and the
input is left as it was. Only `standardize_per_image` returns floats for integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.errors import UserError


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Pad each side with `padding` zeros and cut out a window of the old size at a random place."""
    _check_images(images)
    _check_size("padding", padding)
    batch, channels, height, width = images.shape
    if padding == 0 or images.numel() == 0:
        return images
    padded = F.pad(images, (padding,) * 4).contiguous()
    tall, wide = height + 2 * padding, width + 2 * padding
    places = torch.randint(0, 2 * padding + 1, (2, batch), generator=generator, device=generator.device)
    down, right = places.to(images.device)
    # Where each row of the result starts in the memory of `padded`. Rows are then copied whole from a view of
    # all (overlapping) windows of `width` numbers: on a CPU faster than a gather of single pixels.
    image = torch.arange(batch, device=images.device) * (channels * tall * wide) + down * wide + right
    channel = torch.arange(channels, device=images.device) * (tall * wide)
    row = torch.arange(height, device=images.device) * wide
    starts = image[:, None, None] + channel[:, None] + row
    windows = padded.as_strided((padded.numel() - width + 1, width), (1, 1))
    return windows.index_select(0, starts.flatten()).view(images.shape)


def random_flip(images: Tensor, generator: torch.Generator, dim: int = -1) -> Tensor:
    """Flip each image with probability 1/2 along `dim`: -1 is left-right, -2 is upside down."""
    _check_images(images)
    if dim not in (-1, -2, 2, 3):
        raise UserError(f"dim must be -1 (left-right) or -2 (upside down), but got {dim}; pass dim=-1")
    flipped = _draw(len(images), images.device, generator) < 0.5
    size = images.shape[dim]
    forwards = torch.arange(size, device=images.device)
    order = torch.where(flipped[:, None], size - 1 - forwards, forwards)
    shape = [len(images), 1, 1, 1]
    shape[dim] = size
    return images.gather(dim, order.view(shape).expand(images.shape))


def random_cutout(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Set a square of `size` pixels around a random centre to zero; parts beyond the border are cut off."""
    _check_images(images)
    _check_size("size", size)
    if size == 0:
        return images
    holes = []
    for side in images.shape[2:]:
        first = (_draw(len(images), images.device, generator) * side).long() - size // 2
        position = torch.arange(side, device=images.device)
        holes.append((position >= first[:, None]) & (position < first[:, None] + size))
    rows, columns = holes
    return images.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0)


def standardize_per_image(images: Tensor) -> Tensor:
    """Subtract each image's mean and divide by its standard deviation: the paper's standardisation.

    Parameters
    ----------
    images : Tensor of shape (B, C, H, W)
        Integers become float32.

    Returns
    -------
    standardized : Tensor of shape (B, C, H, W)
        The deviation counts as at least 1 / sqrt(C H W), so that an even image becomes zeros, not noise.

    Raises
    ------
    UserError
        If `images` has another number of dimensions.

    Examples
    --------
    >>> standardize_per_image(torch.tensor([[[[0, 2], [2, 0]]]]))
    tensor([[[[-1.,  1.],
              [ 1., -1.]]]])
    """
    _check_images(images)
    pixels = images.flatten(1)
    pixels = pixels if pixels.is_floating_point() else pixels.float()
    centred = pixels - pixels.mean(dim=1, keepdim=True)
    # The norm and its division by hand: on a CPU far faster than var_mean.
    root = math.sqrt(max(1, pixels.shape[1]))
    deviation = torch.linalg.vector_norm(centred, dim=1, keepdim=True) / root
    return centred.div_(deviation.clamp_min(1 / root)).view(images.shape)


@dataclass(frozen=True)
class Augmentation:
    """Random crop after padding, flips and cutout of training images, in this order; each is off unless asked for.

    Parameters
    ----------
    padding : int, default=0
        How many zeros each side is padded with before a window of the old size is cut out at a random place.
    horizontal, vertical : bool, default=False
        Whether each image is flipped left-right, or upside down, with probability 1/2.
    cutout : int, default=0
        Side of the square, around a random centre, that is set to zero.

    Raises
    ------
    UserError
        If `padding` or `cutout` is below 0.

    Examples
    --------
    >>> augment = Augmentation(padding=2, horizontal=True)
    >>> augment(torch.zeros(8, 1, 28, 28), torch.Generator().manual_seed(0)).shape
    torch.Size([8, 1, 28, 28])
    """

    padding: int = 0
    horizontal: bool = False
    vertical: bool = False
    cutout: int = 0

    def __post_init__(self) -> None:
        _check_size("padding", self.padding)
        _check_size("cutout", self.cutout)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return augmented images.

        Parameters
        ----------
        images : Tensor of shape (B, C, H, W)
            uint8 or floating point.
        generator : torch.Generator
            Where random numbers come from.

        Returns
        -------
        augmented : Tensor of the same shape, type and device
            The input itself where there is nothing to do.
        """
        images = random_crop(images, self.padding, generator)
        if self.horizontal:
            images = random_flip(images, generator, -1)
        if self.vertical:
            images = random_flip(images, generator, -2)
        return random_cutout(images, self.cutout, generator)


def _draw(count: int, device: torch.device, generator: torch.Generator) -> Tensor:
    # Drawn where the generator lives, so that a CPU generator gives the same images on every device.
    return torch.rand(count, generator=generator, device=generator.device).to(device)


def _check_images(images: Tensor) -> None:
    if images.ndim != 4:
        raise UserError(
            f"images must have the shape (B, C, H, W), but they have {tuple(images.shape)}; "
            "add the missing dimension with images.unsqueeze(1) or images[None]"
        )


def _check_size(name: str, size: int) -> None:
    if size < 0:
        raise UserError(f"{name} must be 0 or more pixels, but got {size}; pass {name}=0 to switch it off")
