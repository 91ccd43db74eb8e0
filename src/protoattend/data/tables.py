"""Tables with mixed columns: numbers are standardised, categories become codes, missing values stay visible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date
from functools import cached_property
from math import ceil, isnan, log10
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import as_array
from protoattend.data.identifiers import set_aside
from protoattend.data.standardize import mean_and_scale
from protoattend.errors import BadCell, UserError

UNKNOWN = 0  # the code of a missing category and of one never seen in fit
NAMED = 20  # columns that a message names
LARGEST = float(np.finfo(np.float32).max)
DAY = np.timedelta64(1, "D")
CODE = re.compile(r"[+-]?0\d")  # of figures, but no number
CELLS = (str, bytes, int, float, np.generic, date)


@dataclass(frozen=True)
class Column:
    """One column: a number (or date, as days) with mean and scale, or a category with its known values.

    A number with a `log_offset` is encoded as the logarithm of itself plus that offset. A category that `identifies`
    rows, a name or number that no two have in common, is shown but not learned from.
    """

    name: str
    kind: str  # "number" | "date" | "category"
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    log_offset: float | None = None
    identifies: bool = False

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Column:
        """Return the column that `asdict` made this of."""
        return cls(**{**content, "categories": tuple(content["categories"])})

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the column as float64: standardised with NaN for missing, or codes with 0 for unknown."""
        if self.kind == "category":
            codes = {category: code for code, category in enumerate(self.categories, start=1)}
            # Older classifiers know whole floats as "1.0".
            found = [codes.get(_category(value)) or codes.get(str(value), UNKNOWN) for value in values]
            return np.array(found, dtype=np.float64)
        numbers = _dates_as_days(values, self.name) if self.kind == "date" else _numbers(values, self.name)
        if self.log_offset is not None:
            numbers = _logarithms(numbers, self.log_offset, self.name)
        with np.errstate(over="ignore"):  # what is too large for a float is the largest there is
            return (numbers - self.mean) / self.scale

    def show(self, value: float) -> str:
        """Return what a person is shown for an encoded value."""
        if self.kind == "category":
            return self.categories[int(value) - 1] if value else "(new)" if self.identifies else "(unknown)"
        if isnan(value):
            return "(missing)"
        number = value * self.scale + self.mean
        if self.log_offset is not None:
            number = float(np.exp(number)) - self.log_offset
        if self.kind == "date":
            return str(np.datetime64(0, "D") + np.timedelta64(round(number), "D"))
        if abs(number) >= 1e6:
            return f"{number:,.0f}" if abs(number) < 1e15 else f"{number:.6g}"
        return f"{round(number, self._decimals) + 0.0:.6g}"  # adding zero takes the sign off a zero

    @cached_property
    def _decimals(self) -> int:
        """Encoded values are float32: six digits survive, of the number and of the typical ones in its column."""
        return 6 - ceil(log10(max(abs(self.mean), self.scale)))


@dataclass(frozen=True)
class TableInputs:
    """A table kept as float32 `(n, f)`: first the numbers and dates, then the codes of the categories.

    Last come columns that identify rows: they are kept to be shown, and left out of what the model reads.
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...]  # in the order of X
    named: bool  # by the user, in a DataFrame
    kind: ClassVar[str] = "table"

    @classmethod
    def fit(
        cls, X: Any, *, categorical: Iterable[Any] | None = None, fixed: Mapping[str, Column] | None = None
    ) -> TableInputs:
        """Learn each column from X, except for those whose encoding is `fixed`, by name."""
        names, raw, named = _columns(X)
        if not isinstance(categorical, Iterable | None) or isinstance(categorical, str) or _single(categorical):
            raise UserError(f"categorical_features must be a list of columns or None, but got {categorical!r}.")
        declared = {str(name) for name in (() if categorical is None else categorical)}
        if declared - set(names):
            raise UserError(
                f"categorical_features must name columns of X, but {sorted(declared - set(names))} are not among "
                f"{names[:20]}; check the spelling."
            )
        given = {name: column for name, column in (fixed or {}).items() if name not in declared}
        if given.keys() - set(names):
            raise UserError(
                f"fixed_columns must name columns of X, but {sorted(given.keys() - set(names))} are not among "
                f"{names[:20]}; check the spelling."
            )
        fitted = [given.get(name) or _fit_column(name, raw[name], name in declared) for name in names]
        may_go = [(column, raw[column.name], column.name not in declared | given.keys()) for column in fitted]
        fitted = set_aside(may_go, counted=named)
        fitted.sort(key=lambda column: (column.identifies, column.kind == "category"))
        return cls(columns=tuple(fitted), names=tuple(names), named=named)

    def form(self) -> dict[str, Any]:
        """Return how number columns were standardised, and how many codes (with the unknown one) categories have."""
        sizes = [len(column.categories) + 1 for column in self.learned if column.kind == "category"]
        numbers = [column for column in self.learned if column.kind != "category"]
        return {
            "n_numbers": len(numbers),
            "cardinalities": sizes,
            "means": [column.mean for column in numbers],
            "scales": [column.scale for column in numbers],
        }

    @cached_property
    def learned(self) -> tuple[Column, ...]:
        """The columns that the model reads."""
        return tuple(column for column in self.columns if not column.identifies)

    def source(self, X: Any) -> np.ndarray:
        names, raw, _ = _columns(X)
        missing = [column.name for column in self.learned if column.name not in raw]
        if missing and self.named:
            raise UserError(
                f"X must have the columns seen in fit, but {_some(missing)} are missing; it has {_some(names)}. "
                "Add them (missing values may be NaN)."
            )
        if len(names) != len(self.columns) and not self.named:
            raise UserError(
                f"X has {len(names)} features, but ProtoAttendClassifier is expecting {len(self.columns)} features "
                "as input, as in fit; pass the same columns."
            )
        unnamed = np.full(
            len(next(iter(raw.values()))), None, dtype=object
        )  # rows may come without what identifies them
        encoded = [column.encode(raw.get(column.name, unnamed)) for column in self.columns]
        return np.stack(encoded, axis=1).clip(-LARGEST, LARGEST).astype(np.float32)

    def tensor(self, source: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(source[:, : len(self.learned)]))

    def excerpts(self, source: np.ndarray) -> np.ndarray:
        return source  # the values of a row are all that is shown of it

    def preview(self, row: Any) -> dict[str, str]:
        shown = {column.name: column.show(float(value)) for column, value in zip(self.columns, row, strict=True)}
        return {name: shown[name] for name in self.names}

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableInputs:
        columns = [Column.from_json(column) for column in state["columns"]]
        return cls(columns=tuple(columns), names=tuple(state["names"]), named=state["named"])


def _some(names: list[str]) -> str:
    """Return the first of some names, and how many more there are."""
    return f"{names[:NAMED]}" + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


def _single(value: Any) -> bool:
    return getattr(value, "ndim", 1) == 0


def _columns(X: Any) -> tuple[list[str], dict[str, np.ndarray], bool]:
    """Return column names, raw columns, and whether the names are the user's own."""
    if hasattr(X, "columns"):
        if getattr(X.columns, "nlevels", 1) > 1:
            raise UserError("columns must have one name each, but they are a MultiIndex; join its levels to one name.")
        names = [str(name) for name in X.columns]
        if not names:
            raise UserError("X needs at least one column, but it has none; select some.")
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise UserError(f"column names must be unique, but {twice} appear more than once; rename them.")
        return names, {str(name): _values(X[name]) for name in X.columns}, True
    array = as_array(X, "X")
    if array.ndim != 2:
        raise UserError(
            f"a table must be two-dimensional, but X has shape {array.shape}. Reshape your data: "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample."
        )
    if array.shape[1] == 0:
        raise UserError(
            f"X needs at least one column, but got 0 feature(s) (shape={array.shape}) while a minimum of 1 is required."
        )
    if array.dtype.kind == "c":
        raise UserError("Complex data not supported: X must be real; pass X.real and X.imag as columns.")
    return (
        [str(i) for i in range(array.shape[1])],
        {str(i): array[:, i] for i in range(array.shape[1])},
        False,
    )


def _values(column: Any) -> np.ndarray:
    """Return a DataFrame's column as numpy; a declared categorical dtype comes back as strings."""
    declared = hasattr(column, "cat") or str(getattr(column, "dtype", "")).lower().startswith("categorical")
    if not declared:
        return np.asarray(column)
    values = np.asarray(column.astype(object) if hasattr(column, "astype") else column)
    return np.array([value if is_missing(value) else _category(value) for value in values], dtype=object)


def _fit_column(name: str, values: np.ndarray, declared: bool) -> Column:
    if not declared and _looks_dated(values):
        return Column(name, "date", *mean_and_scale(_dates_as_days(values, name)))
    if not declared and (_looks_numeric(values) or _written_numbers(values)):
        return Column(name, "number", *mean_and_scale(_numbers(values, name)))
    _require_cells(values, name)
    known = sorted({_category(value) for value in values if not is_missing(value)})
    return Column(name, "category", categories=tuple(known))


def _category(value: Any) -> str:
    """Return how a category is written: a whole number as an integer, for beside a missing value 1 is kept as 1.0.

    >>> _category(1), _category(1.0), _category(1.5), _category("1.0")
    ('1', '1', '1.5', '1.0')
    """
    whole = isinstance(value, (float, np.floating)) and value.is_integer()
    return str(int(value) if whole else value)


def _require_cells(values: np.ndarray, name: str) -> None:
    """Raise where a cell is neither text, number nor date; types are few, so that rows need looking at only then."""
    bad = {kind for kind in map(type, values) if not issubclass(kind, CELLS)}
    for row, value in enumerate(values if bad else ()):
        if type(value) in bad and not is_missing(value):
            raise BadCell(
                f"a table's cell must be text, a number or a date, but column {name!r} has a {type(value).__name__} at "
                f"row {row} (an argument must be a string or a real number); convert it first."
            )


def _looks_dated(values: np.ndarray) -> bool:
    if values.dtype != object:
        return values.dtype.kind == "M"
    only_dates = all(isinstance(value, date) or is_missing(value) for value in values)
    return only_dates and any(isinstance(value, date) for value in values)


def _looks_numeric(values: np.ndarray) -> bool:
    if values.dtype.kind in "fiub":
        return True
    return all(is_missing(value) or isinstance(value, (int, float, np.number, np.bool_)) for value in values)


def _written_numbers(values: np.ndarray) -> bool:
    """Return whether numpy has made texts of numbers, as it does where an array has a column of texts beside them.

    Codes such as "007" stay texts, and so does what somebody has chosen to keep as texts, in a DataFrame.
    """
    if values.dtype.kind != "U" or any(CODE.match(value) for value in values):
        return False
    try:
        return bool(np.isfinite(values.astype(np.float64)).any())
    except ValueError:
        return False


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    try:
        numbers = (
            np.array([np.nan if is_missing(value) else value for value in values], dtype=np.float64)
            if (values.dtype == object)
            else values.astype(np.float64)
        )
    except (TypeError, ValueError) as error:
        raise UserError(
            f"column {name!r} must hold numbers as in fit, but it holds something else ({error}); convert it first."
        ) from None
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise UserError(
            f"numbers must be finite, but column {name!r} contains infinity at row {row}; replace it by NaN (a missing "
            "value) or by a large number."
        )
    return numbers


def _logarithms(numbers: np.ndarray, offset: float, name: str) -> np.ndarray:
    shifted = numbers + offset
    if (shifted <= 0).any():
        row = int(np.flatnonzero(shifted <= 0)[0])
        raise UserError(
            f"column {name!r} must be above {0 - offset:g}, as its logarithm is taken, but row {row} has "
            f"{numbers[row]:g}; replace it by NaN (a missing value) or rename the column."
        )
    return np.log(shifted)


def _dates_as_days(values: np.ndarray, name: str) -> np.ndarray:
    try:
        moments = values if values.dtype.kind == "M" else [_moment(value) for value in values]
        dates = np.asarray(moments, dtype="datetime64[ns]")
    except (TypeError, ValueError) as error:
        raise UserError(
            f"column {name!r} must hold dates as in fit, but it holds something else ({error}); convert it first."
        ) from None
    return np.where(np.isnat(dates), np.nan, (dates - np.datetime64(0, "ns")) / DAY)


def _moment(value: Any) -> Any:
    """Return what numpy can read as a date: None where missing, and UTC instead of any other time zone."""
    if is_missing(value):
        return None
    if isinstance(value, (int, float, np.number, np.bool_)):
        raise ValueError(f"{value} is a number")  # numpy would take it for nanoseconds
    return value if getattr(value, "tzinfo", None) is None else value.astimezone(UTC).replace(tzinfo=None)


def is_missing(value: Any) -> bool:
    """Return whether a cell or a label is absent: None, NaN, NaT or pandas.NA."""
    if value is None or type(value).__name__ == "NAType":  # pandas.NA refuses to be compared
        return True
    unequal = value != value  # NaN and NaT differ from themselves; an array is no single value
    return isinstance(unequal, (bool, np.bool_)) and bool(unequal)
