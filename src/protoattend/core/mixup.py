"""Mixup: training inputs blended in pairs, so that what lies between two classes gets prototypes of both.

Trained on pure samples alone, an encoder collapses each class to a point: the same few rows become the prototypes of
every input of a class, and wrong decisions are as confident as right ones. Blending costs no extra pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mix:
    """Input i becomes share_i x_i + (1 - share_i) x_partner(i), with shares `(B,)` of at least one half.

    What stays pure has a share of 1, and itself for a partner.
    """

    partner: Tensor
    share: Tensor

    @classmethod
    def draw(cls, size: int, blended: float, generator: torch.Generator) -> Mix:
        """Draw partners, and shares uniformly between 1/2 and 1; all but about `blended` of the inputs stay pure."""
        share = 1 - 0.5 * torch.rand(size, generator=generator)
        partner = torch.randperm(size, generator=generator)
        if blended < 1:
            pure = torch.rand(size, generator=generator) >= blended
            share, partner = share.masked_fill(pure, 1.0), torch.where(pure, torch.arange(size), partner)
        return cls(partner, share)

    def to(self, device: torch.device) -> Mix:
        return Mix(self.partner.to(device), self.share.to(device))

    def __call__(self, features: Tensor) -> Tensor:
        share = self.share.view(-1, *[1] * (features.ndim - 1)).to(features.dtype)
        return torch.lerp(features[self.partner], features, share)
