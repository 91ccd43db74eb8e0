"""Odd calls: every argument of the public methods, and every kind of X, handed what nobody should hand it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from tests.faults.methods import Method, functions, methods_of

from protoattend import ProtoAttendClassifier
from protoattend.errors import ProtoAttendError

COLUMNS = 13  # of the table that calls are made with
PARAMETERS = (
    *("max_epochs", "batch_size", "learning_rate", "n_prototypes", "d_att", "validation_fraction", "random_state"),
    *("class_weight", "undersample", "categorical_features", "recipe", "device", "normalize", "verbose"),
    *("candidates", "n_candidates", "objective", "lambda_sparse", "n_processes"),
)


def _within_itself() -> list[Any]:
    """Return a list that holds itself."""
    own: list[Any] = []
    own.append(own)
    return own


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
        "huge numbers": [10**30, -(10**400)],
        "a longer number": 10**400,
        "fractions": [Fraction(1, 3), Decimal("0.1")],
        "moments": [datetime(2020, 1, 1), None],
        "long doubles": table.astype(np.longdouble),
        "halves": table.astype(np.float16),
        "largest": np.full((3, COLUMNS), np.finfo(np.float64).max),
        "matrix": scipy.sparse.eye(3, COLUMNS, format="csr"),
        "backwards": table[::-1, ::-1],
        "categories": pd.Categorical(["a", None, "b"]),
        "nullable": pd.array([1, None, 3], dtype="Int64"),
        "durations": np.array([1, 2, 3], dtype="m8[s]"),
        "twice": pd.DataFrame(table, columns=["a"] * COLUMNS),
        "no rows": frame[:0],
        "no columns": frame[[]],
        "cells of lists": pd.DataFrame({name: [[1], {2: 3}, object()] for name in range(COLUMNS)}),
        "within itself": _within_itself(),
        "a long text": "a" * 100_000,
        "zero bytes": ["a\0b", "\0"],
        "a range": range(3),
        "a view": memoryview(b"abc"),
    }


@dataclass(frozen=True, eq=False)
class Targets:
    """A fitted classifier of each kind of input, and a table to fit on."""

    fitted: dict[str, ProtoAttendClassifier]
    X: np.ndarray
    y: np.ndarray

    @cached_property
    def methods(self) -> list[Method]:
        """All that is called with one argument odd: methods of the table's classifier, and functions."""
        return [*methods_of(self.fitted["table"], self.X, self.y), *functions()]


def calls(targets: Targets, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield odd calls by name: a pass over all methods with values drawn anew."""
    X, y = targets.X, targets.y
    small = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0)
    for told, value in odd_values(np.random.default_rng(seed)).items():
        for kind, clf in targets.fitted.items():
            yield f"{kind}.predict({told})", lambda clf=clf, value=value: clf.predict(value)
            yield f"{kind}.add({told})", lambda clf=clf, value=value: clf.database_.snapshot().add(value, y[:3])
        for method in targets.methods:
            for name, call in method.odd(value):
                yield f"{name}{told})", call
        yield f"fit({told})", lambda value=value: small.fit(value, y[:3])
        yield f"fit(X, {told})", lambda value=value: small.fit(X[:9], value)
        yield f"resume_from={told}", lambda value=value: small.fit(X[:9], y[:9], resume_from=value)
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
