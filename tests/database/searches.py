"""The search as its tests ask it: what is decided, or each query's prototypes."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from protoattend.database.attention import Attention
from protoattend.database.search import attend
from protoattend.database.searchable import Searchable


class Prototypes(NamedTuple):
    """The prototypes of one query, heaviest first."""

    positions: Tensor
    weights: Tensor


def decide(queries: Tensor, candidates: Searchable, **how: Any) -> Attention:
    return attend(queries, candidates, top=0, **how)


def prototypes(queries: Tensor, candidates: Searchable, **how: Any) -> list[Prototypes]:
    return [Prototypes(*pair) for pair in attend(queries, candidates, **how).per_query()]
