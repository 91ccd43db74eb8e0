"""The database as a folder: meta.json and one .npy a column (texts as JSON), each with its checksum.

Version 2 has the column "weights"; in version 1 every row counts once.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.errors import BadFile
from protoattend.folders import atomic_folder, read_meta, write_json

WHAT, VERSION = "protoattend candidate database", 2
COLUMNS = ("ids", "labels", "queries", "keys", "values", "edited", "weights", "source")


def write(folder: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Write the columns and their meta.json, wholly or not at all."""
    with atomic_folder(folder) as fresh:
        checksums = {}
        for name in COLUMNS:
            path = fresh / _file_name(arrays[name], name)
            if arrays[name].dtype == object:
                path.write_text(json.dumps(arrays[name].tolist(), ensure_ascii=False), encoding="utf-8")
            else:
                np.save(path, arrays[name], allow_pickle=False)
            checksums[path.name] = _checksum(path)
        own = {"what": WHAT, "version": VERSION, "count": len(arrays["ids"]), "sha256": checksums}
        write_json(fresh / "meta.json", own | meta)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return meta and columns of a saved database, checked."""
    meta = read_meta(folder, WHAT, VERSION, oldest=1)
    arrays: dict[str, np.ndarray] = {}
    for file_name, checksum in meta["sha256"].items():
        path = folder / file_name
        if not path.is_file():
            raise BadFile(f"{folder} must hold {file_name}, but it is missing; restore the folder from a copy.")
        if _checksum(path) != checksum:
            raise BadFile(
                f"{path} does not match its checksum in meta.json: it is truncated or was changed; restore it."
            )
        arrays[path.stem] = _read_column(path)
    if meta["version"] == 1:
        arrays["weights"] = np.ones(meta["count"], dtype=np.float32)
    if set(arrays) != set(COLUMNS) or {len(array) for array in arrays.values()} != {meta["count"]}:
        raise BadFile(f"{folder} must hold {meta['count']} rows in each of {COLUMNS}, but it does not; restore it.")
    return meta, arrays


def _file_name(array: np.ndarray, name: str) -> str:
    return f"{name}.json" if array.dtype == object else f"{name}.npy"


def _read_column(path: Path) -> np.ndarray:
    if path.suffix == ".json":
        texts = json.loads(path.read_text(encoding="utf-8"))
        column = np.empty(len(texts), dtype=object)
        column[:] = texts
        return column
    return np.load(path, allow_pickle=False)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
