"""What training and encoding need of samples: a Tensor has it, and so has what stays on disk.

Every use of samples goes through `subset`, `batches` and `chunks`; for a Tensor they are plain indexing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

Rows = Tensor | slice


class OnDisk(Protocol):
    """Samples that are read when asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Rows) -> Tensor:
        """Return the samples at `rows`, read now."""

    def at(self, rows: Rows) -> OnDisk:
        """Return the samples at `rows`, still on disk."""

    def identity(self) -> object:
        """Return what tells these samples from others, without reading them."""

    def read(self, row_batches: Sequence[Rows]) -> Iterator[Tensor]:
        """Yield the samples of each batch of rows, reading one batch ahead."""


Samples = Tensor | OnDisk


def subset(samples: Samples, rows: Rows) -> Samples:
    """Return the samples at `rows`, without reading any that lie on disk."""
    return samples[rows] if isinstance(samples, Tensor) else samples.at(rows)


def batches(samples: Samples, row_batches: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows of each batch with their samples.

    All rows are drawn before the first batch is read, so that a generator behind them is used in the same order
    whether or not batches are read ahead.

    >>> [x.tolist() for _, x in batches(torch.tensor([5, 6, 7]), [torch.tensor([2, 0]), torch.tensor([1])])]
    [[7, 5], [6]]
    """
    rows = list(row_batches)
    read = (samples[chosen] for chosen in rows) if isinstance(samples, Tensor) else samples.read(rows)
    return zip(rows, read, strict=True)


def chunks(samples: Samples, size: int = 512) -> Iterator[Tensor]:
    """Yield all samples in order, `size` at a time."""
    if isinstance(samples, Tensor):
        return iter(torch.split(samples, size))
    return samples.read([slice(start, start + size) for start in range(0, len(samples), size)])
