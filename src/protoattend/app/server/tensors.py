"""Tensors of the Open Inference Protocol as rows of a model's input, and the form they must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from protoattend.app.server.limits import Limits
from protoattend.app.server.own_inputs import Frame
from protoattend.app.server.problems import Refused
from protoattend.data.inputs import ImageInputs, Inputs
from protoattend.data.tables import Column, TableInputs
from protoattend.errors import UserError

WHOLE = ("UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64")
NUMBERS = (*WHOLE, "FP16", "FP32", "FP64", "BOOL")
KINDS = {"number": "FP64", "date": "BYTES", "category": "BYTES"}
LARGEST = 1e300  # a number beyond is taken for an error, as float32 overflows far earlier


@dataclass(frozen=True)
class TensorForm:
    """Name, datatype and shape; -1 is any length."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor with its elements, flat or nested."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: list[Any]


def inputs_of(inputs: Inputs) -> list[TensorForm]:
    """Return the tensors that a request must have."""
    if isinstance(inputs, TableInputs) and inputs.named:
        kinds = {column.name: column.kind for column in inputs.columns}
        return [TensorForm(name, KINDS[kinds[name]], (-1,)) for name in inputs.names]
    if isinstance(inputs, TableInputs):
        numbers = all(column.kind == "number" for column in inputs.columns)
        return [TensorForm("X", "FP64" if numbers else "BYTES", (-1, len(inputs.columns)))]
    if isinstance(inputs, ImageInputs):
        datatype = "UINT8" if (inputs.low, inputs.high) == (0.0, 255.0) else "FP32"
        return [TensorForm("image", datatype, (-1, inputs.channels, inputs.height, inputs.width))]
    return [TensorForm("text", "BYTES", (-1,))]


def source_of(inputs: Inputs, tensors: Sequence[Tensor], limits: Limits) -> np.ndarray:
    """Return the rows of a request in their canonical form, or say what is wrong with them."""
    forms = {form.name: form for form in inputs_of(inputs)}
    given = {tensor.name: tensor for tensor in tensors}
    if len(given) < len(tensors) or set(given) != set(forms):
        missing, more = sorted(set(forms) - set(given)), sorted(set(given) - set(forms))
        what = f"{missing[:5]} are missing" if missing else f"{more[:5]} are not" if more else "one comes twice"
        raise UserError(f"inputs must be the tensors that the model's metadata names, but {what}.")
    rows = _rows(forms, given, limits)
    if isinstance(inputs, TableInputs):
        return _table(inputs, given, rows)
    if isinstance(inputs, ImageInputs):
        return inputs.source(_image(inputs, given["image"]))
    return inputs.source([_text(value) for value in _flat(given["text"])])


def _rows(forms: dict[str, TensorForm], given: dict[str, Tensor], limits: Limits) -> int:
    """Return how many rows there are, having checked every shape."""
    lengths = set()
    for name, form in forms.items():
        shape = given[name].shape
        if len(shape) == len(form.shape) + 1 and shape[-1] == 1:
            shape = shape[:-1]  # [n, 1] for a column of n, as many clients send it
        if len(shape) != len(form.shape) or shape[1:] != form.shape[1:]:
            raise UserError(f"input {name!r} must have shape {list(form.shape)}, but has {list(given[name].shape)}.")
        lengths.add(shape[0])
    if len(lengths) > 1:
        raise UserError(f"all inputs must be of one length, but they have {sorted(lengths)[:5]}.")
    (rows,) = lengths
    if rows == 0:
        raise UserError("a request must have at least one row, but it has none.")
    if rows > limits.rows:
        raise Refused(413, f"a request may have {limits.rows:,} rows, but this has {rows:,}; send several.")
    return int(rows)


def _table(inputs: TableInputs, given: dict[str, Tensor], rows: int) -> np.ndarray:
    if inputs.named:
        kinds = {column.name: column for column in inputs.columns}
        return inputs.source(Frame({name: _column(kinds[name], given[name]) for name in inputs.names}))
    kinds = {column.name: column for column in inputs.columns}
    values = _flat(given["X"])
    if all(column.kind == "number" for column in inputs.columns) and (numbers := _at_once(values)) is not None:
        return inputs.source(numbers.reshape(rows, len(inputs.names)))
    cells = np.array(values, dtype=object).reshape(rows, len(inputs.names))
    columns = [_cells(kinds[name], cells[:, i].tolist()) for i, name in enumerate(inputs.names)]
    return inputs.source(np.stack(columns, axis=1))


def _column(column: Column, tensor: Tensor) -> np.ndarray:
    return _cells(column, _flat(tensor))


def _cells(column: Column, values: Sequence[Any]) -> np.ndarray:
    """Return cells as the table reads them; null and an empty text are missing values."""
    cells = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        cells[i] = None if value is None or value == "" else _cell(column, value)
    return cells


def _cell(column: Column, value: Any) -> Any:
    if column.kind == "category":
        return value if isinstance(value, (str, int, float)) else _wrong(column.name)
    if column.kind == "date":
        try:
            return np.datetime64(str(value), "ns").astype("datetime64[us]").item() or _wrong(column.name)
        except (ValueError, OverflowError):
            return _wrong(column.name)
    return _number(value, column.name)


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return _wrong(name)
    return number if number != number or abs(number) <= LARGEST else _wrong(name)


def _at_once(values: Sequence[Any]) -> np.ndarray | None:
    """Return plain numbers without a look at each, which takes ten times as long; None where there is another value."""
    if not set(map(type, values)) <= {int, float}:
        return None
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        return None
    return None if (np.abs(numbers) > LARGEST).any() else numbers


def _image(inputs: ImageInputs, tensor: Tensor) -> np.ndarray:
    values = _flat(tensor)
    pixels = _at_once(values)
    if pixels is None:
        pixels = np.array([_number(value, "image") for value in values], dtype=np.float64)
    images = pixels.reshape(-1, inputs.channels, inputs.height, inputs.width)
    low, high = inputs.low, inputs.high
    if (low, high) == (0.0, 255.0) and not ((images >= 0) & (images <= 255)).all():
        raise UserError("pixels must be from 0 to 255, as in fit, but some are not; scale them.")
    return images.astype(np.uint8 if (low, high) == (0.0, 255.0) else np.float32)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UserError("input 'text' must hold strings, but something else is among them.")
    return value


def _flat(tensor: Tensor) -> list[Any]:
    """Return the elements in row-major order; there must be as many as the shape says."""
    values: list[Any] = tensor.data
    depth = 0
    while values and isinstance(values[0], list):
        depth += 1
        if depth > len(tensor.shape) or not all(isinstance(value, list) for value in values):
            raise UserError(f"the data of {tensor.name!r} must be flat or nested as its shape says.")
        values = [inner for value in values for inner in value]
    if len(values) != prod(tensor.shape) or any(isinstance(value, (list, dict)) for value in values):
        raise UserError(
            f"the data of {tensor.name!r} must have {prod(tensor.shape)} elements, as its shape says, "
            f"but has {len(values)}, or something else among them."
        )
    if tensor.datatype in NUMBERS and any(isinstance(value, str) for value in values):
        raise UserError(f"the data of {tensor.name!r} must be numbers, as its datatype says, but there are strings.")
    return values


def _wrong(name: str) -> Any:
    raise UserError(f"input {name!r} holds something that this model cannot read there; see its metadata.")
