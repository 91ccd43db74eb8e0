"""Samples in memory and on disk are used alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from protoattend.data.samples import Rows, batches, chunks, subset

NUMBERS = torch.arange(10) * 3


class Shelf:
    """Samples that are not a Tensor, and count what is taken."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.taken = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Rows) -> Tensor:
        self.taken += len(self.rows[rows])
        return NUMBERS[self.rows[rows]]

    def at(self, rows: Rows) -> Shelf:
        return Shelf(self.rows[rows])

    def read(self, row_batches: Sequence[Rows]) -> Iterator[Tensor]:
        return (self[rows] for rows in row_batches)


@pytest.mark.parametrize("samples", [NUMBERS, Shelf(torch.arange(10))], ids=["memory", "disk"])
def test_subset_batches_and_chunks(samples: Tensor | Shelf) -> None:
    mask = torch.arange(10) % 2 == 1
    for rows in (torch.tensor([7, 2]), mask, slice(None, None, 3), slice(4)):
        some = subset(samples, rows)
        assert torch.equal(torch.cat(list(chunks(some, 2))), NUMBERS[rows])
        assert len(some) == len(NUMBERS[rows])
    assert [x.tolist() for x in chunks(samples, 4)] == [[0, 3, 6, 9], [12, 15, 18, 21], [24, 27]]
    wanted = [torch.tensor([9, 0]), torch.tensor([5])]
    for (rows, x), asked in zip(batches(samples, iter(wanted)), wanted, strict=True):
        assert torch.equal(rows, asked)
        assert torch.equal(x, NUMBERS[asked])


def test_subset_reads_nothing() -> None:
    shelf = Shelf(torch.arange(10))
    some = subset(subset(shelf, slice(2, 8)), torch.tensor([0, 5]))
    assert isinstance(some, Shelf)
    assert shelf.taken == some.taken == 0
    assert some[:].tolist() == [6, 21]


@pytest.mark.parametrize("samples", [NUMBERS, Shelf(torch.arange(10))], ids=["memory", "disk"])
def test_rows_are_drawn_before_the_first_batch_is_used(samples: Tensor | Shelf) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randint(10, (2,), generator=generator) for _ in range(3))
    between = [torch.rand(1, generator=generator).item() for _ in batches(samples, drawn)]
    reference = torch.Generator().manual_seed(0)
    for _ in range(3):
        torch.randint(10, (2,), generator=reference)
    assert between == [torch.rand(1, generator=reference).item() for _ in range(3)]
