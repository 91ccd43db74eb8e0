"""Text of others made harmless: cells that a spreadsheet would run, and characters that steer a terminal."""

from __future__ import annotations

import re
from typing import Any

from protoattend.viz.text import plain

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula where a cell starts with it
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
# They turn the order of characters around, so that a text reads otherwise than it is.
DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def for_terminal(value: Any) -> str:
    """Return a text without control characters; line ends and tabs stay.

    >>> for_terminal("red \\x1b[31mtext")
    'red �[31mtext'
    """
    return DIRECTIONS.sub("\N{REPLACEMENT CHARACTER}", plain(value).replace("\r", "\N{REPLACEMENT CHARACTER}"))


def for_csv(cell: Any) -> Any:
    """Return a cell of a CSV file, of which a text that a spreadsheet would run starts with an apostrophe.

    >>> for_csv("=HYPERLINK(A1)"), for_csv("-1"), for_csv(-1), for_csv("- none")
    ("'=HYPERLINK(A1)", '-1', -1, "'- none")
    """
    if not isinstance(cell, str):
        return cell
    text = DIRECTIONS.sub("\N{REPLACEMENT CHARACTER}", plain(cell))
    return f"'{text}" if cell.startswith(FORMULA) and not NUMBER.fullmatch(cell) else text
