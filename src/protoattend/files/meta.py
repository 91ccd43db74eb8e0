"""meta.json of every folder we save: written with a checksum of itself, and checked when it is read.

The checksum is of what the JSON means, not of its bytes. Folders saved before there were checksums have none, and are
checked by the schema alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from protoattend.errors import BadFile
from protoattend.files.meta_schema import check_meta
from protoattend.files.schema import Malformed

LARGEST = 1 << 28  # bytes: the categories of a table are in it
CHECKSUM = "checksum"


def write_json(path: Path, content: Any) -> None:
    """Write what JSON can hold; names that are not UTF-8, as those of some files, are escaped."""
    written = json.dumps(content, indent=1, ensure_ascii=False)
    try:
        path.write_text(written, encoding="utf-8")
    except UnicodeEncodeError:
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def write_meta(folder: Path, content: dict[str, Any]) -> None:
    """Write the meta.json of a folder, with its checksum."""
    write_json(folder / "meta.json", content | {CHECKSUM: checksum(content)})


def read_meta(folder: Path, what: str, version: int, *, oldest: int | None = None) -> dict[str, Any]:
    """Return meta.json of a folder that holds `what` in format `version`, or in one since `oldest`, checked."""
    path = folder / "meta.json"
    if not path.is_file():
        raise BadFile(f"{folder} must be a folder with {what}, but it has no meta.json; check the path.")
    meta = _parsed(path)
    if not isinstance(meta, dict) or meta.get("what") != what:
        raise BadFile(f"{folder} must hold {what}, but its meta.json describes something else; check the path.")
    if type(meta.get("version")) is not int or meta["version"] not in range(oldest or version, version + 1):
        raise BadFile(
            f"{folder} has format version {meta.get('version')}, but this protoattend reads version {version}; "
            "save it again with the protoattend that wrote it, or install a matching one."
        )
    noted = meta.pop(CHECKSUM, None)
    if noted is not None and noted != checksum(meta):
        raise BadFile(
            f"{path} does not match its checksum: it was changed or the disk is failing; restore it from a copy."
        )
    try:
        check_meta(meta)
    except Malformed as error:
        raise BadFile(f"{path} is not as it was written: {error}; restore it from a copy.") from None
    return meta


def checksum(content: Any) -> str:
    """Return the SHA-256 of what JSON can hold, however it is laid out.

    >>> checksum({"a": 1, "b": (2.5, None)}) == checksum({"b": [2.5, None], "a": 1})
    True
    """
    plain = json.loads(json.dumps(content))
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _parsed(path: Path) -> Any:
    size = path.stat().st_size
    if size > LARGEST:
        raise BadFile(f"{path} must have at most {LARGEST} bytes, but it has {size}; restore it from a copy.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} must be JSON, but it cannot be read ({error}); restore it from a copy.") from None
