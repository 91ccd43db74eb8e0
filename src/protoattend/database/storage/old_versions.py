"""Folders of format versions 1 and 2: whole columns, without class scores; in version 1 every row counts once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.database.rows import heeding_labels
from protoattend.database.storage.checks import Form, require_values
from protoattend.errors import ARRAY_ERRORS, BadFile
from protoattend.files.schema import listed, text

COLUMNS = ("ids", "labels", "queries", "keys", "values", "edited", "weights", "source")


def read_old(folder: Path, meta: Mapping[str, Any], decision: Tensor) -> dict[str, Any]:
    """Return the columns of a folder, checked; class scores are made with the model's `decision` `(C, d_out)`."""
    arrays: dict[str, np.ndarray] = {}
    for file_name, checksum in meta["sha256"].items():
        path = folder / file_name
        if not path.is_file():
            raise BadFile(f"{folder} must hold {file_name}, but it is missing; restore the folder from a copy.")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
                raise BadFile(
                    f"{path} does not match its checksum in meta.json: it is truncated or was changed; restore it."
                )
        arrays[path.stem] = _read_column(path, meta["count"])
    if meta["version"] == 1:
        arrays["weights"] = np.ones(meta["count"], dtype=np.float32)
    if set(arrays) != set(COLUMNS) or {array.ndim > 0 and len(array) for array in arrays.values()} != {meta["count"]}:
        raise BadFile(f"{folder} must hold {meta['count']} rows in each of {COLUMNS}, but it does not; restore it.")
    require_values(folder, {name: arrays[name] for name in COLUMNS if name != "source"}, Form.of(decision))
    class_scores = torch.from_numpy(arrays["values"]) @ decision.T
    edited = torch.from_numpy(arrays["edited"])
    labels = torch.from_numpy(arrays["labels"])
    class_scores[edited] = heeding_labels(class_scores[edited], labels[edited])
    return arrays | {"class_scores": class_scores.numpy()}


def _read_column(path: Path, count: int) -> np.ndarray:
    try:
        if path.suffix == ".json":
            texts = json.loads(path.read_text(encoding="utf-8"))
            listed(text(), count)(texts, path.name)
            column = np.empty(len(texts), dtype=object)
            column[:] = texts
            return column
        return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
    except (*ARRAY_ERRORS, RecursionError) as error:
        raise BadFile(f"{path} must be an array, but it cannot be read ({error}); restore it from a copy.") from None
