"""Which files a saved folder is made of: all others are somebody else's, and are never replaced or removed."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

CLASSIFIER, DATABASE = "protoattend classifier", "protoattend candidate database"
EDIT, MONITOR = "protoattend database edit", "protoattend drift monitor"
COLUMNS = ("ids", "labels", "keys", "class_scores", "edited", "weights", "queries", "values", "source", "excerpts")
OF_TEXTS = tuple(f"{name}_{part}" for name in ("source", "excerpts") for part in ("text", "ends"))

PART = ".protoattend-"  # in the hidden name of a folder that is being written, or was replaced
_COLUMN = rf"({'|'.join((*COLUMNS, *OF_TEXTS))})\.npy"
_UNFINISHED = rf"\.\w+({re.escape(PART)}[0-9a-f]{{8}}(\.old)?|-\w+)"  # the second as it once was
_EDIT = rf"(meta\.json|{_COLUMN})"
_DATABASE = rf"(meta\.json|{_COLUMN}|source\.json|edits/(\d{{8}}|{_UNFINISHED})/{_EDIT})"
_FILES = {
    CLASSIFIER: rf"meta\.json|model\.safetensors|reading\.json|(database|{_UNFINISHED})/{_DATABASE}",
    DATABASE: _DATABASE,
    EDIT: _EDIT,
    MONITOR: r"meta\.json|state\.safetensors",
}


def kind_of(folder: Path) -> str | None:
    """Return what our own meta.json says that a folder holds; None where it has none of ours."""
    try:
        content: Any = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    what = content.get("what") if isinstance(content, dict) else None
    return what if isinstance(what, str) and what in _FILES else None


def strangers(folder: Path) -> list[str]:
    """Return the files in a folder of ours, those in its folders too, that are not ours."""
    known = re.compile(_FILES[str(kind_of(folder))])
    found = []
    for here, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = Path(here, name)
            own = os.path.relpath(path, folder).replace(os.sep, "/")
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode) and not (stat.S_ISREG(mode) and known.fullmatch(own)):
                found.append(own)
    return sorted(found)
