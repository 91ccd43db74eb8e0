"""The one schema of every meta.json: what a folder may say of itself, by what it holds and by its version.

Settings and parts of encoders are named here and checked where they are made; all else is checked here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protoattend.files.known import CLASSIFIER, COLUMNS, DATABASE, EDIT, MONITOR, OF_TEXTS
from protoattend.files.schema import (
    Rule,
    anything,
    both,
    corners,
    distinct,
    either,
    flag,
    listed,
    mapping,
    maybe,
    number,
    one_of,
    positive,
    record,
    same_length,
    same_names,
    scalar,
    text,
    whole,
)

_SHA256 = text(r"[0-9a-f]{64}")
_COUNT, _SIZE = whole(1, 1 << 40), whole(1, 1 << 20)
_HEAD: dict[str, Rule] = {"what": text(), "version": whole()}
_DTYPES = one_of("<i8", "<i4", "<f4", "<f2", "<f8", "|i1", "|u1", "|b1")

# No other names than these: none can lead out of the folder.
_FILE = record({"dtype": _DTYPES, "shape": listed(whole(0, 1 << 40)), "bytes": whole(), "sha256": _SHA256})
_FILES = record({}, dict.fromkeys((*COLUMNS, *OF_TEXTS), _FILE))
_OLD_FILES = record({}, dict.fromkeys((*(f"{name}.npy" for name in COLUMNS), "source.json"), _SHA256))

_COLUMN = record(
    {"name": text(), "kind": one_of("number", "date", "category"), "categories": listed(text())},
    {"mean": number(), "scale": positive, "log_offset": maybe(number()), "identifies": flag},
)
_IMAGES = record({"channels": one_of(1, 3, 4), "height": _SIZE, "width": _SIZE, "low": number(), "high": number()})
# Texts that are all empty have no n-grams.
_VOCABULARY = either(listed(text(), 0), both(listed(text()), distinct))
_GRAMS = record(
    {"vocabulary": _VOCABULARY, "length": _SIZE}, {"n_subwords": whole(), "subwords": one_of("trigrams", "beginnings")}
)
_TEXTS = either(record({"names": listed(text())}), _GRAMS, record({"length": _SIZE}))
_TABLE = both(
    record({"columns": listed(_COLUMN), "names": both(listed(text()), distinct), "named": flag}),
    same_names("columns", "names"),
)
_KINDS = {"images": _IMAGES, "text": _TEXTS, "table": _TABLE}


def _inputs(value: Any, where: str) -> None:
    record({"kind": one_of(*_KINDS), "state": anything})(value, where)
    _KINDS[value["kind"]](value["state"], f"{where}.state")


_CLASSES = record({"dtype": text(r"[<|][iufb]\d|<U\d{1,5}|\|O"), "values": both(listed(scalar), distinct)})

_NUMBER = either(flag, maybe(number(-(1 << 20), 1 << 20)))
_ARGUMENT = either(text(), _NUMBER, listed(_NUMBER))
_PART = both(mapping(_ARGUMENT), lambda value, where: text()(value.get("part"), f"{where}.part"))
_PARTS = record({"front": _PART, "body": _PART, "norm": _PART, "out_features": _SIZE})
_ENCODER = record(
    {
        "own": maybe(one_of("module", "frozen", "fine-tuned", "fine_tuned")),
        "name": text(),
        "test_time_augmentation": maybe(record({}, {"mirror": flag, "shift": whole(0, 1 << 12)})),
    },
    {"config": _PARTS, "n_features": _SIZE},
)
_METRICS = mapping(number())
_EPOCH = record(
    {"epoch": whole(), "seconds": number(0), "losses": mapping(number())},
    {"metrics": maybe(_METRICS), "measures": maybe(_METRICS)},
)
_CONFORMAL = both(
    record({"nonconformity": listed(number()), "labels": listed(whole(-1))}), same_length("nonconformity", "labels")
)
_CURVE = both(listed(listed(number(0, 1)), 2), corners)
_CALIBRATED: dict[str, Rule] = {
    "conformal": maybe(either(listed(number()), _CONFORMAL)),
    "recalibration": maybe(record({"temperature": positive, "isotonic": _CURVE})),
}
_TRAINED: dict[str, Rule] = {
    "inputs": _inputs,
    "classes": _CLASSES,
    "history": record({"records": listed(_EPOCH), "best_epoch": whole()}, {"refitted": flag, "settled": flag}),
}
_READING = maybe(mapping(maybe(either(flag, text()))))
_CLASSIFIER = record(
    _HEAD
    | _TRAINED
    | _CALIBRATED
    | {
        "settings": mapping(anything),
        "encoder": _ENCODER,
        "keys_of_one_length": flag,
        "likeness": maybe(record({"sketch": _PART, "rank": _SIZE})),
        "reading": _READING,
    },
    {"files": record({"model.safetensors": record({"bytes": whole(), "sha256": _SHA256})})},
)
_OLD_CLASSIFIER = record(
    _HEAD
    | _TRAINED
    | {"params": both(mapping(anything), lambda value, where: text()(value.get("encoder"), f"{where}.encoder"))}
    | {"own_module": maybe(either(flag, one_of("module", "frozen", "fine-tuned", "fine_tuned")))},
    _CALIBRATED | {"keys_of_one_length": flag},
)

_DATABASE_HEAD: dict[str, Rule] = _HEAD | {"count": _COUNT, "next_id": whole(1), "fingerprint": _SHA256}
_ROUNDING = record({"dtype": one_of("float16", "int8"), "scale": listed(number()), "error": listed(number())})
_READINGS = record(
    {"flat_temperature": positive},
    {
        "probability_temperature": positive,
        "typical_only": flag,
        "familiar_from": maybe(listed(number())),
        "flat_likeness": flag,
    },
)
_DATABASE = record(
    _DATABASE_HEAD | {"files": _FILES, "rounding": maybe(_ROUNDING)},
    {"readings": maybe(_READINGS)},
)
_OLD_DATABASE = record(_DATABASE_HEAD | {"sha256": _OLD_FILES})

_EDIT_HEAD: dict[str, Rule] = _HEAD | {"files": _FILES}
_EDITS: dict[str, Rule] = {
    "added": record(_EDIT_HEAD | {"kind": text(), "count": _COUNT}),
    "removed": record(_EDIT_HEAD | {"kind": text(), "count": _COUNT}),
    "relabelled": record(_EDIT_HEAD | {"kind": text(), "count": _COUNT}),
    "relocated": record(_EDIT_HEAD | {"kind": text(), "old": text(), "new": text()}),
}
_BITS = whole(0, (1 << 128) - 1)
_GENERATOR = record(
    {
        "bit_generator": one_of("PCG64"),
        "state": record({"state": _BITS, "inc": _BITS}),
        "has_uint32": whole(0, 1),
        "uinteger": whole(0, (1 << 32) - 1),
    }
)
_MONITOR = record(
    _HEAD
    | {
        "classes": listed(anything),
        "false_alarm": number(0, 1),
        "recent": _COUNT,
        "alarm_at": maybe(whole()),
        "n_seen": whole(),
        "generator": _GENERATOR,
    },
    {"files": record({"state.safetensors": record({"bytes": whole(), "sha256": _SHA256})})},
)


def check_meta(meta: Mapping[str, Any]) -> None:
    """Raise `Malformed` unless a meta.json, whose "what" and "version" are known, is as its schema says."""
    what, old = meta["what"], meta["version"] < 3
    if what == EDIT:
        one_of(*_EDITS)(meta.get("kind"), "kind")
        _EDITS[meta["kind"]](meta, "")
        return
    schemas: dict[str, Rule] = {
        CLASSIFIER: _OLD_CLASSIFIER if old else _CLASSIFIER,
        DATABASE: _OLD_DATABASE if old else _DATABASE,
        MONITOR: _MONITOR,
    }
    schemas[what](meta, "")
