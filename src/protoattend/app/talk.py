"""What a command says: its result on standard output, for people or as JSON, and all else on standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from protoattend.app.neutral import for_terminal


@dataclass(frozen=True)
class Talk:
    """Where a command speaks; with `json`, standard output has the result as JSON and nothing else."""

    json: bool = False
    silent: bool = False  # of messages, as all processes of a training but the first

    def say(self, text: str) -> None:
        """Tell the person what is going on."""
        if not self.silent:
            _print(Console(stderr=True), text)

    def facts(self, shown: Mapping[str, str], machine: Mapping[str, Any]) -> None:
        """Give the result: a line for each fact, or `machine` as JSON."""
        width = max(map(len, shown), default=0)
        self.lines([f"{name:<{width}}  {value}" for name, value in shown.items()], machine)

    def lines(self, shown: list[str], machine: Any) -> None:
        """Give the result as lines, or `machine` as JSON."""
        if self.json:
            print(as_json(machine))
            return
        for line in shown:
            _print(Console(), line)

    def text(self, shown: str, machine: Any) -> None:
        """Give the result as text that is complete, such as CSV, or `machine` as JSON."""
        print(as_json(machine) if self.json else shown, end="\n" if self.json else "")

    def table(self, *drawn: RenderableType, machine: Any) -> None:
        """Give the result as something drawn, or `machine` as JSON."""
        if self.json:
            print(as_json(machine))
            return
        for each in drawn:
            Console().print(each)


def _print(console: Console, text: str) -> None:
    console.print(escape(for_terminal(text)), soft_wrap=True, highlight=False)


def make_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return rows, which all have the same names, as a table to be drawn."""
    table = Table(title=cell(title) or None, title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(cell(name), overflow="fold")  # a path or an address is of no use when cut
    for row in rows:
        table.add_row(*map(cell, row.values()))
    return table


def cell(value: Any) -> str:
    """Return a value as a cell of a drawn table."""
    return escape(for_terminal(value))


def as_json(content: Any, *, ascii_only: bool = True) -> str:
    """Return content as JSON; numbers that JSON does not have are null.

    >>> as_json({"accuracy": float("nan"), "labels": ("a", 1)})
    '{"accuracy": null, "labels": ["a", 1]}'
    """
    return json.dumps(_native(content), ensure_ascii=ascii_only, allow_nan=False)


def _native(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _native(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_native(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) or not isinstance(value, (str, int, type(None))) else value
