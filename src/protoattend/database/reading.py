"""The side of a database that is read: what its rows are, and what attention over them decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from protoattend.core.attention import attention_scores
from protoattend.core.model import ProtoAttend
from protoattend.data.inputs import Inputs
from protoattend.data.labels import Classes
from protoattend.database import search as exact
from protoattend.database.approximate import Approximation, Search
from protoattend.database.attention import Attention
from protoattend.database.previews import preview
from protoattend.database.quantize import Quantization
from protoattend.database.rows import Rows
from protoattend.database.searchable import Searchable

WORTH_A_COPY = 1 << 26  # bytes of keys that are laid out again for single queries; larger ones stay mapped from disk


class ReadableDatabase:
    """Candidates of one trained model that are looked at and attended to."""

    _rows: Rows

    def __init__(
        self, model: ProtoAttend, inputs: Inputs, classes: Classes, rows: Rows, rounding: Quantization | None
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.classes = classes
        self.rounding = rounding
        self._become(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Rows:
        """The present rows; they never change, an edit replaces them."""
        return self._rows

    @property
    def keys(self) -> Tensor:
        """The key of every row `(D, d_att)` in the model's own numbers, also where rows keep them rounded."""
        return self._rows.keys if self.rounding is None else self.rounding.widen(self._rows.keys)

    @property
    def class_scores(self) -> Tensor:
        """What every row adds to the logits of a decision that rests on it alone `(D, C)`, heeding edits."""
        return self._rows.class_scores

    @property
    def indices(self) -> np.ndarray:
        """The index of every row, ascending."""
        return self._rows.ids.copy()

    @property
    def labels(self) -> np.ndarray:
        """The label of every row, in the order of `indices`."""
        return self.classes.decode(self._rows.labels)

    @property
    def sample_weight(self) -> np.ndarray:
        """How many times every row counts, in the order of `indices`."""
        return self._rows.sample_weight.numpy().copy()

    def preview(self, index: int) -> Any:
        """Return the sample at `index` in the form a person is shown."""
        return self.preview_at(self._rows.positions([index])[0])

    def preview_at(self, position: int) -> Any:
        """Return the sample at a position in `rows` in that form."""
        return preview(self._rows, self.inputs, position)

    @property
    def temperature(self) -> float:
        """The model's temperature, by which attention scores are divided."""
        return float(self.model.temperature)

    def attend(self, queries: Tensor, *, own: Tensor | None = None, top: int | None = None) -> Attention:
        """Return what queries `(B, d_att)` attend to, by position in `rows`, and what that decides.

        `own` `(B,)` is the position each may not attend to, -1 for none. With `top` only so many prototypes of each
        query are named, the heaviest; decisions are by all of them in any case.
        """
        search: Search = self._approximation or exact
        found = search.attend(
            self._asked(queries),
            self._searchable,
            normalize=self.model.normalize,
            temperature=self.temperature,
            own=own,
            top=top,
        )
        return found if self.rounding is None else replace(found, exact=False)

    def decide(self, queries: Tensor, *, own: Tensor | None = None) -> Attention:
        """Return what is decided for queries `(B, d_att)`, without naming prototypes."""
        return self.attend(queries, own=own, top=0)

    def scores(self, query: Tensor) -> Tensor:
        """Return the attention scores `(D,)` of one query `(d_att,)` with all rows, in float64."""
        keys = self._rows.keys.to(query.dtype)
        return attention_scores(self._asked(query[None]), keys, self.temperature)[0].double()

    def _asked(self, queries: Tensor) -> Tensor:
        return queries if self.rounding is None else self.rounding.scaled(queries)

    def _become(self, rows: Rows) -> None:
        sample_weight = None if rows.count_once else rows.sample_weight  # unweighted search is the faster one
        searchable = Searchable(rows.keys, rows.class_scores, rows.labels, sample_weight)
        self._searchable = searchable.by_columns() if rows.keys.nbytes <= WORTH_A_COPY else searchable
        self._approximation: Approximation | None = None
        self._rows = rows
