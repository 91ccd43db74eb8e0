"""Mutations of saved folders: bytes flipped, files cut or removed, JSON fields changed; and what becomes of each.

A mutation is well met where it is refused by one of our errors, or changes nothing that is read. It is *silent* where
other answers come without an error, and *raw* where another error than ours comes out.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from protoattend import ProtoAttendClassifier
from protoattend.errors import ProtoAttendError
from protoattend.files.meta import checksum

STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 10**18, 1e308, float("nan"), float("inf"), "", "x", "../../secret", [], {}, [[]]),
    *({"part": "Linear"}, [1] * 5, "a" * 10_000, [[[[[]]]]]),
)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutation: "refused", "same", "silent" or "raw"; `told` is the message."""

    outcome: str
    mutation: str
    told: str = ""


def answers(folder: Path, X: Any) -> list[Any]:
    """Return what a saved classifier says: labels, probabilities, confidence, prototypes and sets, as plain values."""
    clf = ProtoAttendClassifier.load(folder)
    explained = [
        (p.index, str(p.label), round(p.weight, 6), str(p.preview)) for e in clf.explain(X, top=3) for p in e.prototypes
    ]
    said = [clf.predict(X).tolist(), clf.predict_proba(X).tolist(), clf.confidence(X).tolist(), explained]
    if clf.conformal_ is not None:
        said.append([list(map(str, each)) for each in clf.prediction_set(X, coverage=0.9)])
    if clf.recalibration_ is not None:
        said.append(clf.calibrated_proba(X).tolist())
    return [*said, clf.classes_.tolist(), [str(clf.database_.preview(index)) for index in clf.database_.indices[:3]]]


def mutate(folder: Path, rng: np.random.Generator) -> tuple[str, bool]:
    """Change something in a folder; return what, and whether other answers would be a silent failure.

    They would not be where somebody has changed a meta.json and made its checksum right again.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[rng.integers(len(files))]
    name = str(path.relative_to(folder))
    kind = rng.choice(["flip", "cut", "grow", "remove", "zero", "swap", "json", "json", "signed", "signed"])
    if kind in ("json", "signed"):
        metas = [path for path in files if path.name == "meta.json"]
        path = metas[rng.integers(len(metas))]
        what = _change_json(path, rng, signed=kind == "signed")
        return f"{kind} {path.relative_to(folder)} {what}", kind == "json"
    content = bytearray(path.read_bytes())
    place = int(rng.integers(len(content)))
    if kind == "flip":
        content[place] ^= 1 << int(rng.integers(8))
    elif kind == "cut":
        del content[place:]
    elif kind == "grow":
        content += bytes(int(rng.integers(1, 100)))
    elif kind == "zero":
        content[place : place + 64] = bytes(min(64, len(content) - place))
    elif kind == "swap":
        content = bytearray(files[rng.integers(len(files))].read_bytes())
    path.write_bytes(content) if kind != "remove" else path.unlink()
    return f"{kind} {name} at {place}", True


def _change_json(path: Path, rng: np.random.Generator, *, signed: bool) -> str:
    meta = json.loads(path.read_text())
    places: list[tuple[Any, Any]] = []
    _collect(meta, places)
    holder, key = places[rng.integers(len(places))]
    if rng.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
        what = f"without {key}"
    else:
        holder[key] = STRANGE[rng.integers(len(STRANGE))]
        what = f"{key}={str(holder[key])[:40]}"
    if signed:
        meta.pop("checksum", None)
        meta["checksum"] = checksum(meta)
    path.write_text(json.dumps(meta))
    return what


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 3))
    for key in keys:
        places.append((value, key))
        if isinstance(value[key], (dict, list)):
            _collect(value[key], places)


def attack(original: Path, work: Path, X: Any, seed: int, expected: list[Any]) -> Verdict:
    """Mutate a copy of a saved classifier once, use it, and judge."""
    rng = np.random.default_rng(seed)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(original, work)
    mutation, judged = mutate(work, rng)
    return judge(lambda: answers(work, X), expected, f"seed {seed}: {mutation}", judged=judged)


def judge(use: Callable[[], Any], expected: Any, mutation: str, *, judged: bool) -> Verdict:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = use()
    except ProtoAttendError as error:
        return Verdict("refused", mutation, str(error))
    except Exception as error:
        return Verdict("raw", mutation, f"{type(error).__name__}: {error}")
    return Verdict("same" if not judged or said == expected else "silent", mutation)
