"""What a database is between two edits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from protoattend.database.approximate import Approximation
from protoattend.database.flat_mass import Flat
from protoattend.database.quantize import Quantization
from protoattend.database.readings import Readings
from protoattend.database.rows import Rows
from protoattend.database.searchable import WORTH_A_COPY, Searchable


@dataclass(frozen=True)
class State:
    """Never changed, replaced as a whole, so that a reader has one of them."""

    rows: Rows
    searchable: Searchable
    readings: Readings | None
    rounding: Quantization | None
    next_id: int
    approximation: Approximation | None = None

    @classmethod
    def of(cls, rows: Rows, readings: Readings | None, rounding: Quantization | None, next_id: int) -> State:
        sample_weight = None if rows.count_once else rows.sample_weight  # unweighted search is the faster one
        typical_only = readings is not None and readings.typical_only
        # By columns, which single queries are multiplied with faster.
        keys = rows.keys.T.contiguous().T if rows.keys.nbytes <= WORTH_A_COPY else rows.keys
        searchable = Searchable(keys, rows.class_scores, rows.labels, sample_weight, typical_only)
        return cls(rows, searchable, readings, rounding, next_id)

    @cached_property
    def familiar_from(self) -> Tensor | None:
        """From where on inputs of each predicted class `(C,)` are familiar; None is all of them."""
        bars = None if self.readings is None else self.readings.familiar_from
        return None if bars is None else torch.tensor(bars, dtype=torch.float64)

    def flat(self, width: int) -> Flat | None:
        """How scores of which the first `width` numbers are learned are read for confidence; None: as for decisions."""
        if self.readings is None:
            return None
        return Flat(self.readings.flat_temperature, None if self.readings.flat_likeness else width)

    @property
    def laid_out(self) -> Rows:
        """The rows with keys as they are searched: an edit of these need not lay them out again."""
        return replace(self.rows, keys=self.searchable.keys)

    def asked(self, queries: Tensor) -> Tensor:
        """Return queries as the keys of the rows want them."""
        return queries if self.rounding is None else self.rounding.scaled(queries)
