"""The paper's fixed encoding of Adult Census Income (Appendix A.3), as data: one column a line.

Numbers are shifted and scaled by constants, some after a logarithm; categories become multi-hot, in the encoder. It
applies where it is asked for, `ProtoAttendClassifier("lstm", recipe=Recipe(fixed_columns=NUMBERS))`, and never because
a frame happens to have these columns.

Notes
-----
A number x becomes (x - mean) / scale, or (log(x + log_offset) - mean) / scale where there is an offset.

Examples
--------
>>> from protoattend import Recipe
>>> NUMBERS["age"].mean, NUMBERS["age"].scale, NUMBERS["capital-gain"].log_offset
(50, 30, 1)
>>> sorted(Recipe(fixed_columns=NUMBERS).fixed_columns) == sorted(NUMBERS)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protoattend.data.tables import Column

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
