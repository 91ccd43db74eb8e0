"""The processes that train one model together: who we are among them, and a gather that carries gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from protoattend.errors import UserError


@dataclass(frozen=True)
class Ranks:
    """This process's number among `size` that work on the same step."""

    rank: int = 0
    size: int = 1

    def share(self, rows: Tensor) -> Tensor:
        """Return this process's part of what is divided among all; the length must be a multiple of `size`.

        >>> Ranks(1, 2).share(torch.arange(6))
        tensor([3, 4, 5])
        """
        return rows if self.size == 1 else rows.chunk(self.size)[self.rank]

    def rows(self, count: int) -> slice:
        """Return which of `count` rows are this process's; where none is left for it, the last one is done in vain.

        >>> [Ranks(rank, 3).rows(4) for rank in range(3)]
        [slice(0, 2, None), slice(2, 4, None), slice(3, 4, None)]
        """
        each = -(-count // self.size)
        start = min(self.rank * each, count - 1)
        return slice(start, min(start + each, count))

    def divisible(self, count: int, name: str) -> int:
        """Return the largest number up to `count`, the value of the parameter `name`, that all can share evenly."""
        if count < self.size:
            raise UserError(
                f"each process needs a part, but {name}={count} is to be divided among {self.size} processes; pass a "
                "larger one, or use fewer processes."
            )
        return count - count % self.size


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Inside the block, torch works with so many threads.

    >>> with threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ranks() -> Ranks:
    """Return our place among the processes of torch.distributed; alone where there are none."""
    if dist.is_available() and dist.is_initialized():
        return Ranks(dist.get_rank(), dist.get_world_size())
    return Ranks()


def gather(part: Tensor) -> Tensor:
    """Return the parts `(n, ...)` of all processes as one `(size * n, ...)`, in the order of ranks, with gradient.

    Every process's loss depends on every part, so in backward the gradients that all of them have for a part are added
    up. A plain all_gather would drop what the others contribute.
    """
    return part if ranks().size == 1 else cast(Tensor, _Gather.apply(part))


def merge(part: Tensor, count: int) -> Tensor:
    """Return, in every process, what all have made `(n, d)` of their part of `count` rows, which is by `Ranks.rows`."""
    if ranks().size == 1:
        return part
    padding = part[:1].expand(-(-count // ranks().size) - len(part), -1)  # parts must be of one length to be gathered
    return gather(torch.cat([part, padding]))[:count]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(ranks().size)]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return ranks().share(total)
