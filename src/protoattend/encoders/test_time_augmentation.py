"""Test-time augmentation: the changed copies of an image that an encoder averages over when it no longer learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import torch
from torch import Tensor

from protoattend.errors import UserError


@dataclass(frozen=True)
class TestTimeAugmentation:
    """Which versions of an image are averaged after training: as it is, mirrored, and shifted.

    Parameters
    ----------
    mirror : bool, default=False
        Whether to add each version mirrored left-right.
    shift : int, default=0
        By how many pixels to shift an image, up and left and down and right; 0 is not at all.

    Raises
    ------
    UserError
        If `shift` is no whole number of at least 0.

    Notes
    -----
    An encoder that was trained on such changes has learned that they mean nothing, but not perfectly; the mean of its
    features over them is more accurate. Inputs and candidates are both read so, which takes `len` times as long.

    Examples
    --------
    >>> len(TestTimeAugmentation(mirror=True, shift=1)), len(TestTimeAugmentation())
    (6, 1)
    """

    mirror: bool = False
    shift: int = 0
    __test__: ClassVar[bool] = False  # pytest would take it for a test

    def __post_init__(self) -> None:
        if not isinstance(self.shift, Integral) or isinstance(self.shift, bool) or self.shift < 0:
            raise UserError(f"shift must be 0 or more whole pixels, but got {self.shift!r}; pass shift=1.")
        object.__setattr__(self, "shift", int(self.shift))  # numpy's, too
        object.__setattr__(self, "mirror", bool(self.mirror))

    def __len__(self) -> int:
        return (2 if self.mirror else 1) * (3 if self.shift else 1)

    def of(self, images: Tensor) -> Iterator[Tensor]:
        """Yield changed copies of images.

        Parameters
        ----------
        images : Tensor of shape (B, C, H, W)

        Yields
        ------
        version : Tensor of shape (B, C, H, W)
            The first is the images themselves.

        Examples
        --------
        >>> next(TestTimeAugmentation(shift=1).of(torch.zeros(2, 3, 8, 8))).shape
        torch.Size([2, 3, 8, 8])
        """
        for by in (0, -self.shift, self.shift) if self.shift else (0,):
            version = _shifted(images, by) if by else images
            yield version
            if self.mirror:
                yield version.flip(-1)


def _shifted(images: Tensor, by: int) -> Tensor:
    """Move images along the diagonal; the pixels at the border are repeated."""
    for dim in (-2, -1):
        size = images.shape[dim]
        images = images.index_select(dim, (torch.arange(size, device=images.device) - by).clamp(0, size - 1))
    return images
