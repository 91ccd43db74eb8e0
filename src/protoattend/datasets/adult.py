"""The paper's fixed encoding of Adult Census Income (Appendix A.3), as data: one column a line.

Numbers are shifted and scaled by constants, some after a logarithm; categories become multi-hot, in the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from protoattend.data.tables import Column
from protoattend.datasets.formats import ADULT_COLUMNS

# Most people have no capital gain or loss, and zero has no logarithm: one is added, so that zero becomes -1.
NUMBERS: Mapping[str, Column] = MappingProxyType(
    {
        column.name: column
        for column in (
            Column("age", "number", mean=50, scale=30),
            Column("fnlwgt", "number", mean=9, scale=3, log_offset=0),
            Column("education-num", "number", mean=6, scale=6),
            Column("hours-per-week", "number", mean=50, scale=50),
            Column("capital-gain", "number", mean=5, scale=5, log_offset=1),
            Column("capital-loss", "number", mean=5, scale=5, log_offset=1),
        )
    }
)


def fixed_numbers(X: Any) -> Mapping[str, Column]:
    """Return the paper's encoding of Adult's numbers where X is a frame with just Adult's columns, else nothing.

    >>> import pandas as pd
    >>> list(fixed_numbers(pd.DataFrame(columns=ADULT_COLUMNS)))[:3]
    ['age', 'fnlwgt', 'education-num']
    >>> dict(fixed_numbers(pd.DataFrame({"age": [39]})))
    {}
    """
    return NUMBERS if set(getattr(X, "columns", ())) == set(ADULT_COLUMNS) else {}
