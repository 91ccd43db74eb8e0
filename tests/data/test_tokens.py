"""Texts through a tokenizer: what it may give, and what is said when it gives something else."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch

from protoattend.data.inputs import Reading, fit_inputs, inputs_from_state
from protoattend.data.tokens import TokenInputs
from protoattend.errors import UserError

TEXTS = ["a bc", "def", ""]


def padded(texts: list[str]) -> dict[str, list[list[int]]]:
    longest = max(1, *map(len, texts))
    ids = [[ord(c) for c in text] + [0] * (longest - len(text)) for text in texts]
    return {"input_ids": ids, "attention_mask": [[int(i > 0) for i in row] for row in ids]}


@pytest.mark.parametrize(
    "convert",
    [
        lambda tokens: tokens,
        lambda tokens: UserDict({name: np.array(rows) for name, rows in tokens.items()}),
        lambda tokens: {name: torch.tensor(rows) for name, rows in tokens.items()},
    ],
)
def test_named_arrays_become_one_tensor(convert: Any) -> None:
    inputs = fit_inputs(TEXTS, Reading(tokenizer=lambda texts: convert(padded(texts))))
    assert isinstance(inputs, TokenInputs)
    assert inputs.kind == "text"
    assert inputs.form() == {"names": ("input_ids", "attention_mask")}
    samples = inputs.tensor(inputs.source(TEXTS))
    assert samples.shape == (3, 2, 4)
    assert samples[1].tolist() == [[100, 101, 102, 0], [1, 1, 1, 0]]
    assert inputs.preview(inputs.source(TEXTS)[0]) == "a bc"


def test_ids_alone() -> None:
    inputs = fit_inputs(TEXTS, Reading(tokenizer=lambda texts: torch.tensor(padded(texts)["input_ids"])))
    assert inputs.form() == {"names": ()}
    assert inputs.tensor(inputs.source(["", ""])).tolist() == [[0], [0]]
    assert inputs.tensor(inputs.source(TEXTS)).shape == (3, 4)


def test_state_round_trip() -> None:
    inputs = fit_inputs(TEXTS, Reading(tokenizer=padded))
    again = inputs_from_state(inputs.kind, inputs.state(), padded)
    assert again == inputs


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (lambda texts: [[1] * len(text) for text in texts], r"integers \(3, L\).*lists of several lengths; let it pad"),
        (lambda texts: np.zeros((len(texts), 4)), r"ids is of float64 and shape \(3, 4\)"),
        (lambda texts: np.zeros((2, 4), int), r"ids is of int64 and shape \(2, 4\)"),
        (lambda texts: np.zeros(len(texts), int), r"ids is of int64 and shape \(3,\)"),
        (lambda texts: {"a": np.zeros((3, 2), int), "b": np.zeros((3, 4), int)}, r"'a': \(3, 2\), 'b': \(3, 4\)"),
        (
            lambda texts: {"a" if len(texts) == 3 else "b": np.zeros((len(texts), 4), int)},
            r"\['b'\] as in fit.*\['a'\]",
        ),
    ],
)
def test_wrong_tokens(tokenizer: Any, message: str) -> None:
    inputs = fit_inputs(TEXTS, Reading(tokenizer=tokenizer))
    with pytest.raises(UserError, match=message):
        inputs.tensor(inputs.source(TEXTS))


def test_a_tokenizer_reads_texts_only() -> None:
    with pytest.raises(UserError, match="a tokenizer reads texts, but X is images"):
        fit_inputs(np.zeros((3, 8, 8)), Reading(tokenizer=padded))
    with pytest.raises(UserError, match=r"X\[1\] is None"):
        fit_inputs(["a", None], Reading(tokenizer=padded))
