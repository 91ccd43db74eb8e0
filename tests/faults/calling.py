"""Odd calls: every argument of the public methods, and every kind of X, handed what nobody should hand it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from protoattend import ProtoAttendClassifier
from protoattend.errors import ProtoAttendError

COLUMNS = 13  # of the table that calls are made with
PARAMETERS = (
    *("max_epochs", "batch_size", "learning_rate", "n_prototypes", "d_att", "validation_fraction", "random_state"),
    *("class_weight", "undersample", "categorical_features", "recipe", "device", "normalize", "verbose"),
    *("candidates", "n_candidates", "objective", "lambda_sparse", "n_processes"),
)
OF_METHODS = (
    *(("explain", "top"), ("explain", "without"), ("explain", "with_labels"), ("counterfactuals", "at_most")),
    *(("predict_or_abstain", "min_confidence"), ("contrast", "label"), ("prediction_set", "coverage")),
    *(("ood_score", "method"), ("explain_diverse", "top")),
)
OF_DATABASES = (
    *("remove", "condense", "condense_within", "preview", "quantize_keys", "without", "with_labels", "relabel"),
    *("forget",),
)


def odd_values(rng: np.random.Generator) -> dict[str, Any]:
    """Return values that are seldom right, some of them drawn."""
    size = tuple(int(n) for n in rng.integers(0, 5, size=rng.integers(0, 5)))
    table = rng.normal(size=(3, COLUMNS))
    frame = pd.DataFrame(table)
    return {
        "nothing": None,
        "a text": "abc",
        "a number": int(rng.integers(-10, 10)),
        "a fraction": float(rng.normal()),
        "infinity": float("inf"),
        "not a number": float("nan"),
        "a flag": bool(rng.integers(2)),
        "a huge number": 10**30,
        "texts": ["an apple", "a hammer", ""],
        "mixed": ["a", 1, None],
        "bytes": [b"a", b"b"],
        "surrogates": ["\udcff"],
        "ragged": [[1, 2], [3]],
        "nested": [[[1]]],
        "an empty list": [],
        "a dict": {"a": 1},
        "a set": {1, 2},
        "objects": [object()],
        "a generator": (row for row in table),
        "a class": int,
        "a frame": frame,
        "levels": pd.DataFrame(table, columns=pd.MultiIndex.from_product([["a"], range(COLUMNS)])),
        "a series": frame[0],
        "an array": rng.normal(size=size),
        "integers": rng.integers(-5, 300, size=size),
        "zero dimensions": np.array(1.0),
        "complex": np.ones((3, COLUMNS), dtype=complex),
        "missing": np.full((3, COLUMNS), np.nan),
        "dates": np.full((1, COLUMNS), "2020-01-01", dtype="M8[D]"),
        "records": np.zeros(3, dtype=[("a", "f4")]),
        "masked": np.ma.array(table, mask=True),
        "gradient": torch.randn(3, COLUMNS, requires_grad=True),
        "bfloat16": torch.randn(3, COLUMNS).bfloat16(),
        "sparse": torch.eye(COLUMNS).to_sparse(),
        "without values": torch.ones(3, COLUMNS, device="meta"),
        "images": np.zeros((2, 8, 8)),
    }


@dataclass(frozen=True)
class Targets:
    """A fitted classifier of each kind of input, and a table to fit on."""

    fitted: dict[str, ProtoAttendClassifier]
    X: np.ndarray
    y: np.ndarray


def calls(targets: Targets, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield odd calls by name: a pass over all methods with values drawn anew."""
    table = targets.fitted["table"]
    X, y = targets.X, targets.y
    small = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0)
    for told, value in odd_values(np.random.default_rng(seed)).items():
        for kind, clf in targets.fitted.items():
            yield f"{kind}.predict({told})", lambda clf=clf, value=value: clf.predict(value)
            yield f"{kind}.add({told})", lambda clf=clf, value=value: clf.database_.snapshot().add(value, y[:3])
        for method, name in OF_METHODS:
            call = getattr(table, method)
            yield f"{method}({name}={told})", lambda call=call, name=name, value=value: call(X[:2], **{name: value})
        for method in OF_DATABASES:
            more = ([0],) if method == "relabel" else ()
            call = getattr(table.database_.snapshot(), method)
            yield f"{method}({told})", lambda call=call, more=more, value=value: call(*more, value)
        yield f"calibrate(y={told})", lambda value=value: table.calibrate(X[:3], value)
        yield f"threshold_for({told})", lambda value=value: table.threshold_for(X, y, accuracy=value)
        yield f"load({told})", lambda value=value: ProtoAttendClassifier.load(value)
        yield f"fit({told})", lambda value=value: small.fit(value, y[:3])
        yield f"fit(X, {told})", lambda value=value: small.fit(X[:9], value)
        yield f"sample_weight={told}", lambda value=value: small.fit(X[:9], y[:9], sample_weight=value)
        if not isinstance(value, int) or value < 1:  # else a whole training, of another size
            for name in PARAMETERS:
                odd = ProtoAttendClassifier(**{"max_epochs": 1, "verbose": 0, name: value})
                yield f"{name}={told}", lambda odd=odd: odd.fit(X[:9], y[:9])


def raw(call: Callable[[], Any]) -> str | None:
    """Return the error of a call that is not one of ours, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except ProtoAttendError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
