"""A section of the page of measured figures: a title, a text and a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Figures = dict[str, Any]


def section(title: str, text: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## {title}\n\n{text}\n\n{table}\n"


def listed(seeds: dict[str, int]) -> str:
    return ", ".join(f"{count} on {data}" for data, count in seeds.items())


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def unless_missing(figure: float | None, form: str, missing: str) -> str:
    return missing if figure is None else format(figure, form)
