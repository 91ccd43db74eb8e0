"""CSV files as columns: the delimiter is found out, every row is checked, and cells become numbers, dates or words."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.errors import BadFile, MissingExtra

DELIMITERS = (",", ";", "\t")
MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL"})
# A number that starts with 0 and goes on with digits is a code, such as a postcode; as a number it would lose the 0.
INTEGER = re.compile(r"[+-]?(0|[1-9]\d{0,17})")
NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True, eq=False)
class Delimited:
    """A CSV file as it stands: its columns of cells by name, and the line each row starts at."""

    path: Path
    delimiter: str
    columns: dict[str, list[str]]
    lines: list[int]
    unnamed_first: bool  # a first column without a name, the row names that pandas and R write, was left out

    def __len__(self) -> int:
        return len(self.lines)

    def stripped(self, name: str) -> list[str]:
        """Return the cells of a column without the spaces around them."""
        return [cell.strip() for cell in self.columns[name]]

    def numbers(self, name: str) -> np.ndarray | None:
        """Return a column as `as_numbers` does; where semicolons separate, a comma may be a decimal point."""
        return as_numbers(self.stripped(name), decimal_comma=self.delimiter == ";")

    def typed(self, name: str) -> Any:
        """Return a column as numbers (NaN or NA where missing), dates, or words (None where missing)."""
        numbers = self.numbers(name)
        if numbers is not None:
            return numbers
        cells = self.stripped(name)
        dates = _as_dates(cells)
        if dates is not None:
            return dates
        return np.array([None if cell in MISSING else cell for cell in cells], dtype=object)


def read_delimited(path: Path) -> Delimited:
    """Read a UTF-8 file of comma, semicolon or tab separated values whose first line names the columns."""
    text = _decoded(path)
    if not text.strip():
        raise BadFile(f"{path}: a table needs a line of column names and rows, but the file is empty.")
    delimiter = _delimiter(text)
    records, lines = _records(path, text, delimiter)
    header, *rows = records
    names = [name.strip() for name in header]
    if all(NUMBER.fullmatch(name) for name in names):
        raise BadFile(f"{path}, line {lines[0]}: the first line must name the columns, but it holds {names[:5]}.")
    if not rows:
        raise BadFile(f"{path}: a table needs at least one row below its column names {names[:20]}, but there is none.")
    unnamed_first = names[0] == "" and len(names) > 1
    for place, name in enumerate(names):
        if name in names[:place]:
            raise BadFile(
                f"{path}, line {lines[0]}: column names must be unique, but {name!r} is there twice; rename one."
            )
        if name == "" and place > 0:
            raise BadFile(f"{path}, line {lines[0]}: every column needs a name, but column {place + 1} has none.")
    cells = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    if unnamed_first:
        del cells[""]
    return Delimited(path, delimiter, cells, lines[1:], unnamed_first)


def as_numbers(cells: Sequence[str], *, decimal_comma: bool = False) -> np.ndarray | None:
    """Return cells as int64 (int and None where some are missing) or float64, or None if one of them is no number.

    >>> as_numbers(["1", "NA", "2.5"])
    array([1. , nan, 2.5])
    >>> as_numbers(["1,5", "2"], decimal_comma=True), as_numbers(["01234", "5"])
    (array([1.5, 2. ]), None)
    """
    known = [cell for cell in cells if cell not in MISSING]
    if all(map(INTEGER.fullmatch, known)) and known:
        if len(known) == len(cells):
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        # As floats, integers of more than 15 digits, such as codes, would be rounded.
        return np.array([None if cell in MISSING else int(cell) for cell in cells], dtype=object)
    if decimal_comma and not any("." in cell for cell in known):
        cells, known = ([cell.replace(",", ".") for cell in some] for some in (cells, known))
    if not all(map(NUMBER.fullmatch, known)):
        return None
    return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])


def data_frame(columns: dict[str, Any]) -> Any:
    """Return columns as a pandas DataFrame."""
    return _pandas().DataFrame(columns)


def _as_dates(cells: Sequence[str]) -> Any:
    known = [cell for cell in cells if cell not in MISSING]
    if not all(map(DATE.fullmatch, known)):
        return None
    pandas = _pandas()
    try:
        some = [None if cell in MISSING else cell for cell in cells]
        return pandas.to_datetime(pandas.Series(some), format="ISO8601", utc=True).dt.tz_localize(None)
    except ValueError:  # such as February 30
        return None


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path}: the file cannot be read ({error.strerror}); check its permissions.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadFile(
            f"{path}, line {line}: text must be UTF-8, but byte {data[error.start]:#04x} is not; save it as UTF-8."
        ) from None


def _delimiter(text: str) -> str:
    """Return the delimiter by which most of the first lines have as many fields as the header."""

    def fit(delimiter: str) -> tuple[int, int]:
        widths = []
        with suppress(csv.Error):  # what was read before an error tells enough
            for row in islice(_reader(text, delimiter), 50):
                widths.append(len(row))
        if not widths or widths[0] == 1:
            return 0, 0
        return sum(width == widths[0] for width in widths), widths[0]

    return max(DELIMITERS, key=fit)


def _reader(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)


def _records(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return header and rows, all of one number of fields, and the line each starts at; blank lines are left out."""
    reader = _reader(text, delimiter)
    records: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for record in reader:
            if records and record and len(record) != len(records[0]):
                raise BadFile(
                    f"{path}, line {start}: a row must have {len(records[0])} fields, as the header has, but this one "
                    f"has {len(record)}; the file is cut short or a field with {delimiter!r} lacks its quotes."
                )
            if record:
                records.append(record)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise BadFile(
            f"{path}, line {start}: {error}; a quote opened in this row is not closed as it should."
        ) from None
    return records, lines


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "table", "a table with mixed columns") from error
    return pandas
