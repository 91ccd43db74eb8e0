"""CSV files as columns: the delimiter is found out, every row is checked, and cells become numbers, dates or words."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.errors import BadFile, MissingExtra

DELIMITERS = (",", ";", "\t")
LONGEST = 60  # characters of a cell that a message shows
SOME = 50  # records that tell the delimiter and the header
MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL"})
AMONG_NUMBERS = frozenset({"", "?", "-", ".", "na", "n/a", "#n/a", "nan", "none", "null"})  # missing too, in any case
NEARLY = 10  # a column with at most one in so many cells that is no number was meant to hold numbers alone
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
    header: bool = True  # whether the first line names the columns; else they are column 0, column 1, ...

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
        cells = self.stripped(name)
        plain = [cell if cell.lower() not in AMONG_NUMBERS else "" for cell in cells]
        if any(plain) or MISSING.issuperset(cells):
            numbers = as_numbers(plain, decimal_comma=self.delimiter == ";")
            if numbers is not None:
                return numbers
        dates = _as_dates(cells)
        if dates is not None:
            return dates
        return np.array([None if cell in MISSING else cell for cell in cells], dtype=object)

    def odd_cells(self, name: str) -> list[int]:
        """Return the rows of the few cells that make a text of a column of numbers.

        There are none where a number starts with 0: such codes are texts on purpose.
        """
        cells = [cell if cell.lower() not in AMONG_NUMBERS else "" for cell in self.stripped(name)]
        if self.delimiter == ";" and not any("." in cell and NUMBER.fullmatch(cell) for cell in cells):
            cells = [cell.replace(",", ".") for cell in cells]
        odd = [row for row, cell in enumerate(cells) if cell and not NUMBER.fullmatch(cell)]
        few = len(odd) * NEARLY <= sum(map(bool, cells))
        return odd if few and not any(cells[row].isdecimal() for row in odd) else []


def warn_of_odd_cells(table: Delimited, names: Sequence[str]) -> None:
    """Warn where few cells make texts of columns of numbers, naming the first."""
    found = {name: rows for name in names if (rows := table.odd_cells(name))}
    if not found:
        return
    name, rows = next(iter(found.items()))
    fix = "write numbers there, or leave such cells empty"
    if not table.header and rows == [0]:
        fix = "if the first line names the columns, say so with header=True (--header on the command line)"
    more = f"; so it is with {len(found) - 1} more" if len(found) > 1 else ""
    warnings.warn(
        f"{table.path}: column {name!r} is read as text because of {len(rows)} of {len(table)} cells, the first "
        f"{table.stripped(name)[rows[0]][:LONGEST]!r} at row {rows[0]} (line {table.lines[rows[0]]} of the file), and "
        f"all others are numbers{more}; {fix}.",
        stacklevel=5,
    )


def read_delimited(path: Path, *, header: bool | None = None) -> Delimited:
    """Read a UTF-8 file of comma, semicolon or tab separated values.

    The first line names the columns, or is a row: `header` says which, and None goes by what is in it. Columns without
    names are called column 0, column 1 and so on.
    """
    text = _decoded(path)
    if not text.strip():
        raise BadFile(f"{path}: a table needs a line of column names and rows, but the file is empty.")
    delimiter = _delimiter(text)
    records, lines = _records(path, text, delimiter)
    header = has_header(records[:SOME]) if header is None else header
    if not header:
        names = [f"column {place}" for place in range(len(records[0]))]
        return Delimited(path, delimiter, _by_name(names, records), lines, False, False)
    first, *rows = records
    names = [name.strip() for name in first]
    if not rows:
        raise BadFile(f"{path}: a table needs at least one row below its column names {names[:20]}, but there is none.")
    _require_names(f"{path}, line {lines[0]}", names)
    cells = _by_name(names, rows)
    unnamed_first = names[0] == "" and len(names) > 1
    if unnamed_first:
        del cells[""]
    return Delimited(path, delimiter, cells, lines[1:], unnamed_first)


def first_record(path: Path) -> list[str]:
    """Return the cells of the first line of a file, which are names or values."""
    text = _decoded(path)
    with suppress(csv.Error):  # which reading the file will tell of
        return [cell.strip() for cell in next(filter(None, _reader(text, _delimiter(text))), [])]
    return []


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """Return whether the first of some records names the columns, rather than being a row like the others.

    It is a row where it has a number above numbers, or where it has one of the words in every column whose words come
    again. A word above numbers is a name; so are numbers that count up, such as years.

    >>> has_header([["height", "kind"], ["1.5", "oak"]]), has_header([["1.4", "oak"], ["1.5", "oak"]])
    (True, False)
    >>> has_header([["country", "1990", "1991"], ["Chad", "12", "13"]])
    True
    """
    first, *rows = ([cell.strip() for cell in record] for record in records)
    numbers = [name for name in first if NUMBER.fullmatch(name)]
    if not rows or first[0] == "":
        return not numbers
    number_above_numbers, words = False, set()
    for place, name in enumerate(first):
        below = [row[place] for row in rows if row[place] not in MISSING]
        known = [cell for cell in below if cell.lower() not in AMONG_NUMBERS]
        if known and all(map(NUMBER.fullmatch, known)):
            if NUMBER.fullmatch(name):
                number_above_numbers = True
            elif name.lower() not in AMONG_NUMBERS:
                return True
        elif len(set(below)) < len(below):
            words.add(name in below)
    if number_above_numbers:  # unless a word beside it is none of those below: as above a spectrum
        return words == {False} or _count_up(numbers, first)
    return words != {True}


def _count_up(numbers: Sequence[str], first: Sequence[str]) -> bool:
    """Return whether the numbers of a first line are names: years beside words, or 0, 1, 2 and so on, as pandas has."""
    if len(numbers) < 2 or not all(map(INTEGER.fullmatch, numbers)):
        return False
    values = [int(number) for number in numbers]
    rising = values == list(range(values[0], values[0] + len(values)))
    return rising and (len(numbers) < len(first) or values[0] == 0)


def _require_names(place: str, names: Sequence[str]) -> None:
    seen = set()
    for column, name in enumerate(names):
        if name in seen:
            raise BadFile(f"{place}: column names must be unique, but {name!r} is there twice; rename one.")
        if name == "" and column > 0:
            raise BadFile(f"{place}: every column needs a name, but column {column + 1} has none.")
        seen.add(name)


def _by_name(names: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def with_cells(path: Path, name: str, labels: Mapping[int, Any], *, given: Sequence[Any], header: bool) -> str:
    """Return a CSV file, whose column `name` reads as `given`, with other labels in some rows; other cells stay.

    A label is written as it is elsewhere in the column.
    """
    text = _decoded(path)
    delimiter = _delimiter(text)
    records, _ = _records(path, text, delimiter)
    names = [cell.strip() for cell in records[0]] if header else [f"column {place}" for place in range(len(records[0]))]
    place = int(name) if name not in names else names.index(name)
    rows = records[1:] if header else records
    written = {label: row[place] for label, row in zip(given, rows, strict=True)}
    for row, label in labels.items():
        rows[row][place] = written.get(label, str(label))
    lines = io.StringIO()
    csv.writer(lines, delimiter=delimiter, lineterminator="\n").writerows(records)
    return lines.getvalue()


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
            for row in islice(_reader(text, delimiter), SOME):
                widths.append(len(row))
        if not widths or widths[0] == 1:
            return 0, 0
        return sum(width == widths[0] for width in widths), widths[0]

    return max(DELIMITERS, key=fit)


def _reader(text: str, delimiter: str) -> Any:
    # One limit for all of Python, and far below what a text may have; it is raised alone, as other threads may read.
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
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
                    f"{path}, line {start}: a row must have {len(records[0])} fields, as the first line has, but this "
                    f"one has {len(record)}; the file is cut short or a field with {delimiter!r} lacks its quotes."
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
