"""Parquet files as tables, in memory that their size bounds: a few hundred bytes may stand for a hundred gigabytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from protoattend.data.archives import require_room
from protoattend.errors import BadFile, MissingExtra

CELL = 8  # bytes that a cell takes at the least, be it a number or a reference to a text


def read_parquet(path: Path) -> Any:
    """Return a Parquet file as a DataFrame of plain columns named by str, its rows numbered from 0."""
    try:
        import pandas  # noqa: F401 pyarrow makes the frame of it
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("pandas and pyarrow", "parquet", "reading Parquet files") from error
    try:
        _require_room(path, parquet.ParquetFile(path).metadata)
        file = parquet.ParquetFile(path, read_dictionary=_repeated(parquet.ParquetFile(path).schema_arrow))
        table = file.read()
        table.validate(full=True)  # texts are UTF-8, numbers of categories in range
        frame = table.to_pandas().reset_index(drop=True)
    except BadFile:
        raise
    # Its errors are those of Python and its own; a damaged note of pandas in the file adds the last four.
    except (
        *(pyarrow.ArrowException, ValueError, OSError, NotImplementedError, KeyError, MemoryError),
        *(TypeError, AttributeError, IndexError, RecursionError),
    ) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadFile(f"{path}: not a readable Parquet file ({reason}); it is cut short or of another kind.") from None
    frame.columns = [str(name) for name in frame.columns]
    twice = {name for name in frame.columns if list(frame.columns).count(name) > 1}
    if twice:
        raise BadFile(f"{path}: column names must be unique, but {min(twice)!r} is there twice; rename one.")
    texts = {str(name) for name in _repeated(file.schema_arrow)}
    # Texts were kept once each; as objects they still are.
    return frame.astype({name: object for name in frame.columns if name in texts})


def _repeated(schema: Any) -> list[str]:
    """Return the columns of texts and bytes, of which the file may hold each once."""
    from pyarrow import types

    kinds = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary, types.is_dictionary)
    return [each.name for each in schema if any(is_kind(each.type) for is_kind in kinds)]


def _require_room(path: Path, metadata: Any) -> None:
    """Raise where cells, or what they refer to, take far more memory than the file."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    cells = sum(max(chunk.num_values, 0) for chunk in chunks)
    require_room(path, CELL * max(cells, metadata.num_rows) + sum(chunk.total_uncompressed_size for chunk in chunks))
