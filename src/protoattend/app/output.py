"""Tables that commands write: the format is that of the file's ending, and no file is replaced by accident."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protoattend.app.neutral import for_csv
from protoattend.app.talk import Talk, as_json
from protoattend.errors import CannotWrite, MissingExtra, UserError
from protoattend.files.known import CLASSIFIER
from protoattend.folders import require_free, try_to_write

Columns = Mapping[str, Sequence[Any]]  # cells are str, int, float, bool, None, or lists of these
DIGITS = 6  # behind the point, of shares and scores


def as_csv(columns: Columns) -> str:
    """Return columns as CSV in which no text is a formula; a list is written as JSON, a truth as yes or no.

    >>> print(as_csv({"row": [0], "label": ["=1+1"], "set": [["a", "b"]]}), end="")
    row,label,set
    0,'=1+1,"[""a"", ""b""]"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([for_csv(name) for name in columns])
    writer.writerows([_flat(cell) for cell in row] for row in zip(*columns.values(), strict=True))
    return text.getvalue()


def _flat(cell: Any) -> Any:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return as_json(cell, ascii_only=False) if isinstance(cell, (list, tuple)) else for_csv(cell)


def records(columns: Columns) -> list[dict[str, Any]]:
    """Return columns as rows with names."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _csv_bytes(columns: Columns) -> bytes:
    return as_csv(columns).encode()


def _json_bytes(columns: Columns) -> bytes:
    return (as_json(records(columns), ascii_only=False) + "\n").encode()


def _jsonl_bytes(columns: Columns) -> bytes:
    return "".join(as_json(record, ascii_only=False) + "\n" for record in records(columns)).encode()


def _parquet_bytes(columns: Columns) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "writing Parquet files") from error
    native = json.loads(as_json(columns))  # which knows numpy's numbers
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(native), buffer)
    return buffer.getvalue()


FORMATS: Mapping[str, Callable[[Columns], bytes]] = {
    ".csv": _csv_bytes,
    ".json": _json_bytes,
    ".jsonl": _jsonl_bytes,
    ".parquet": _parquet_bytes,
}


PAGES = (".html", ".htm")


def require_writable(
    out: Path | None, *inputs: Path, force: bool = False, endings: Sequence[str] = tuple(FORMATS)
) -> None:
    """Raise, before any work is done, where a table, or what has other `endings`, cannot be written to `out`.

    Its folder must be there and take files, and it may not be one of the `inputs`, nor an older file unless `force`.
    """
    if out is None:
        return
    if out.suffix.lower() not in endings:
        raise UserError(
            f"the name of the output must end in {', '.join(endings)}, which says its format, but got {out}; rename it."
        )
    _require_place(out)
    require_new(out, *inputs, force=force)


def require_corrected(out: Path, path: Path, *, force: bool) -> None:
    """Raise where a corrected copy of `path` cannot be written to `out`: of a file, in the same format."""
    if path.is_dir():
        require_writable(out, force=force)
        return
    if out.suffix.lower() != path.suffix.lower():
        raise UserError(f"a corrected copy of {path} must end in {path.suffix}, as it does, but got {out}; rename it.")
    _require_place(out)
    require_new(out, path, force=force)


def _require_place(out: Path) -> None:
    if not out.absolute().parent.is_dir():
        raise UserError(f"the folder of {out} must exist, but it does not; make it or choose another.")
    try_to_write(out, out.absolute().parent)


def require_new(out: Path, *inputs: Path, force: bool = False) -> None:
    """Raise where `out` is one of the inputs, or is there already and not to be replaced."""
    for path in inputs:
        if out.resolve() == path.resolve():
            raise UserError(f"input is never replaced, but the output {out} is the input; choose another name.")
    if out.is_dir():
        raise UserError(f"the output must be a file, but {out} is a folder; choose another name.")
    if out.exists() and not force:
        raise UserError(f"{out} is there already; choose another name, or replace it with --force.")


def require_new_folder(to: Path, *inputs: Path, force: bool = False) -> None:
    """Raise, before any work is done, where a classifier cannot be saved in the folder `to`."""
    for path in inputs:
        if to.resolve() == path.resolve():
            raise UserError(f"input is never replaced, but {to} is the input; choose another folder.")
    require_free(to, CLASSIFIER)
    if to.is_dir() and any(to.iterdir()) and not force:
        raise UserError(f"{to} holds a classifier already; choose another folder, or replace it with --force.")
    try_to_write(to, Path(os.path.realpath(to)).parent)


def write_table(columns: Columns, out: Path) -> None:
    """Write columns in the format of the file's ending, wholly or not at all."""
    content = FORMATS[out.suffix.lower()](columns)
    with new_file(out) as path:
        path.write_bytes(content)


def give_table(table: dict[str, Any], out: Path | None, talk: Talk) -> None:
    """Write a table to the file `out`, or to standard output as CSV or JSON."""
    rows = len(next(iter(table.values())))
    if out is None:
        talk.text(as_csv(table), records(table) if talk.json else None)
        return
    write_table(table, out)
    talk.say(f"{rows:,} row{'' if rows == 1 else 's'} written to {out}.")
    talk.lines([], {"rows": rows, "columns": list(table), "out": out})


def beside(names: Mapping[str, list[Any]], table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return a table with what its rows are called in front; a name the table has too is told apart.

    >>> beside({"label": ["B7"]}, {"label": ["oak"]})
    {'id label': ['B7'], 'label': ['oak']}
    """
    return {f"id {name}" if name in table else name: cells for name, cells in names.items()} | dict(table)


def rounded(values: Any) -> list[float]:
    """Return an array of shares or scores with as many digits as a table needs."""
    return [round(value, DIGITS) for value in values.tolist()]


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """Yield a temporary file that takes the place of `out` when the block ends well and vanishes if it fails."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}-", suffix=out.suffix, dir=out.absolute().parent)
    except OSError as error:
        raise CannotWrite(str(out), error) from error
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        fresh.chmod(0o644)  # mkstemp makes it private
        os.replace(fresh, out)
    except OSError as error:
        if error.errno is None or error.filename not in (None, name):  # of another file
            raise
        raise CannotWrite(str(out), error) from error
    finally:
        fresh.unlink(missing_ok=True)
