"""What a person types, fills in or drops onto the page, as one row in its canonical form."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from protoattend.app.server.limits import Limits
from protoattend.app.server.problems import Refused
from protoattend.app.server.tables import spread
from protoattend.data.decode import decode_image, read_header
from protoattend.data.inputs import PIXEL_RANGE, ImageInputs, Inputs
from protoattend.data.tables import Column, TableInputs
from protoattend.database.store import CandidateDatabase
from protoattend.errors import BadFile, UserError

MANY = 200  # categories offered in a form, and candidates that its typical values are of


class Frame:
    """Columns by name, as much of a DataFrame as a table's inputs need."""

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self.columns = list(columns)
        self._values = dict(columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[name]

    def __len__(self) -> int:
        return len(next(iter(self._values.values()), ()))


def text_row(inputs: Inputs, text: str) -> np.ndarray:
    """Return a text as a row."""
    _require(inputs, "text")
    return inputs.source([text])


def cell_row(inputs: Inputs, cells: Mapping[str, str | float | None]) -> np.ndarray:
    """Return the cells of a form as a row; those left out are missing values."""
    _require(inputs, "table")
    assert isinstance(inputs, TableInputs)
    unknown = sorted(set(cells) - set(inputs.names))
    if unknown:
        raise UserError(f"cells must be of the columns seen in fit, but {unknown[:3]} are not among them.")
    kinds = {column.name: column for column in inputs.columns}
    columns = {name: np.array([_value(kinds[name], cells.get(name))], dtype=object) for name in inputs.names}
    if inputs.named:
        return inputs.source(Frame(columns))
    return inputs.source(np.array([[columns[name][0] for name in inputs.names]], dtype=object))


def image_row(inputs: Inputs, encoded: str, limits: Limits) -> np.ndarray:
    """Return an image file, in base64, as a row: resized, and scaled as the pixels of fit were."""
    _require(inputs, "images")
    assert isinstance(inputs, ImageInputs)
    try:
        content = b64decode(encoded, validate=True)
    except (NotBase64, ValueError):
        raise UserError("image must be a file in base64, but it cannot be decoded; send the whole file.") from None
    if inputs.channels not in (1, 3):
        raise UserError(f"an image file has 1 or 3 channels, but this model reads {inputs.channels}.")
    try:
        header = read_header(BytesIO(content))  # type: ignore[arg-type]
        if header.height * header.width > limits.pixels:
            raise Refused(413, f"an image may have {limits.pixels:,} pixels, but this has more; make it smaller.")
        pixels = decode_image(
            BytesIO(content),  # type: ignore[arg-type]
            channels=inputs.channels,
            size=(inputs.height, inputs.width),
        )
    except BadFile:
        raise UserError("this is not an image that can be read; try a PNG or JPEG file.") from None
    image = np.moveaxis(pixels, -1, 0)[None]
    if (inputs.low, inputs.high) != PIXEL_RANGE:
        image = (image / PIXEL_RANGE[1] * (inputs.high - inputs.low) + inputs.low).astype(np.float32)
    return inputs.source(image)


def form_of(database: CandidateDatabase) -> list[dict[str, Any]]:
    """Return what a form asks for: of each column its name, kind, a typical value, and known categories."""
    inputs = database.inputs
    if not isinstance(inputs, TableInputs):
        return []
    some = database.rows.blocks.take("source", spread(len(database), MANY))
    cells = {column.name: values for column, values in zip(inputs.columns, np.asarray(some).T, strict=True)}
    columns = {column.name: column for column in inputs.learned}
    return [_field(columns[name], cells[name]) for name in inputs.names if name in columns]


def _field(column: Column, values: np.ndarray) -> dict[str, Any]:
    typical = _typical(column, values)
    offered = list(column.categories[:MANY])
    if column.kind == "category" and typical and typical not in offered:
        offered.append(typical)
    return {"name": column.name, "kind": column.kind, "typical": typical, "categories": offered}


def _typical(column: Column, values: np.ndarray) -> str:
    """Return the median of encoded values, which is one of them, or the most frequent category; empty without any."""
    known = values[values > 0] if column.kind == "category" else values[~np.isnan(values)]
    if not len(known):
        return ""
    if column.kind == "category":
        return column.show(float(np.bincount(known.astype(int)).argmax()))
    return column.show(float(np.sort(known)[len(known) // 2])).replace(",", "")


def _value(column: Column, given: str | float | None) -> Any:
    if given is None or given == "":
        return None
    if column.kind == "category":
        return str(given)
    if column.kind == "date":
        try:
            return np.datetime64(str(given), "ns").astype("datetime64[us]").item()
        except ValueError:
            raise UserError(f"column {column.name!r} must hold a date such as 2024-05-31; correct it.") from None
    try:
        return float(given)
    except ValueError:
        raise UserError(f"column {column.name!r} must hold a number; correct it, or leave it empty.") from None


def _require(inputs: Inputs, kind: str) -> None:
    if inputs.kind != kind:
        raise UserError(f"this model reads input of kind {inputs.kind!r}, but got {kind!r}; send such input.")
