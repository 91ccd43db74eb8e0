"""A few rows, how many times each counts, and a model for them."""

from __future__ import annotations

import torch
from torch import nn

from protoattend.core.model import ProtoAttend
from protoattend.training.batches import Labelled

N, WIDTH, C = 10, 6, 3
COUNTS = torch.tensor([1, 3, 1, 2, 5, 1, 1, 4, 2, 1])
COPIES = torch.repeat_interleave(torch.arange(N), COUNTS)
ALL = torch.arange(N)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_data() -> Labelled:
    return Labelled(torch.randn(N, WIDTH, generator=generator(), dtype=torch.float64), ALL % C)


def make_model(normalize: str = "sparsemax") -> ProtoAttend:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ProtoAttend(nn.Flatten(), C, in_features=WIDTH, d_att=4, d_out=5, normalize=normalize).double()
