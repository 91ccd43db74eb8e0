"""Texts for a pre-trained model: read by its own tokenizer, kept as they are."""

from __future__ import annotations

from collections.abc import Mapping, Set, Sized
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from protoattend.data.characters import Tokenizer
from protoattend.errors import UserError

EXCERPT = 200  # characters kept of a text to show it


@dataclass(frozen=True)
class TokenInputs:
    """Texts as tokens: `(n, K, L)` where the tokenizer gives K named arrays, `(n, L)` where it gives ids alone."""

    tokenizer: Tokenizer
    names: tuple[str, ...]
    kind: ClassVar[str] = "text"

    @classmethod
    def fit(cls, X: Any, tokenizer: Tokenizer) -> TokenInputs:
        tokens = tokenizer(list(as_texts(X[:2])))
        names = tuple(map(str, tokens)) if isinstance(tokens, Mapping) else ()
        return cls(tokenizer, names)

    def source(self, X: Any) -> np.ndarray:
        return as_texts(X)

    def tensor(self, source: np.ndarray) -> Tensor:
        tokens = self.tokenizer(list(source))
        if not self.names:
            return _ids(tokens, len(source), "ids")
        if not isinstance(tokens, Mapping) or set(tokens) != set(self.names):
            got = list(tokens) if isinstance(tokens, Mapping) else type(tokens).__name__
            raise UserError(f"a tokenizer must give {list(self.names)} as in fit, but it gave {got}; use the same one.")
        columns = [_ids(tokens[name], len(source), name) for name in self.names]
        if len({column.shape for column in columns}) > 1:
            shapes = {name: tuple(column.shape) for name, column in zip(self.names, columns, strict=True)}
            raise UserError(f"all arrays of a tokenizer must be of one shape (n, L), but they are {shapes}.")
        return torch.stack(columns, dim=1)

    def excerpts(self, source: np.ndarray) -> np.ndarray:
        return beginnings(source)

    def preview(self, row: Any) -> str:
        return str(row)

    def form(self) -> dict[str, Any]:
        return {"names": self.names}

    def state(self) -> dict[str, Any]:
        return {"names": self.names}

    @classmethod
    def from_state(cls, state: dict[str, Any], tokenizer: Tokenizer) -> TokenInputs:
        return cls(tokenizer, tuple(state["names"]))


def as_texts(X: Any) -> np.ndarray:
    """Return texts as an array of str objects, each checked."""
    if isinstance(X, (str, bytes)) or not isinstance(X, Sized) or getattr(X, "shape", None) == ():
        raise UserError(f"texts must be a list of str, but X is of type {type(X).__name__}; pass [text].")
    if isinstance(X, (Mapping, Set)) or len(getattr(X, "shape", (0,))) != 1:  # a frame goes through its columns
        raise UserError(
            f"texts must be a list of str, but X is of type {type(X).__name__}; pass one column, such as "
            "frame['text'], or list(...)."
        )
    rows: Any = X
    texts = np.empty(len(rows), dtype=object)
    for i, text in enumerate(rows):
        if not isinstance(text, str):
            raise UserError(
                f"every text must be a str, but X[{i}] is {text!r} of type {type(text).__name__}; "
                "drop it or pass an empty string, which is read as a text without characters."
            )
        texts[i] = text
    return texts


def beginnings(texts: np.ndarray) -> np.ndarray:
    """Return the first 200 characters of each text; an ellipsis stands for the rest.

    >>> len(beginnings(as_texts(["word " * 1000]))[0])
    200
    """
    return as_texts([text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…" for text in texts])


def _ids(values: Any, n_texts: int, name: str) -> Tensor:
    """Return one array of a tokenizer, a tensor or nested lists, as int32 `(n, L)`."""
    try:
        ids = np.asarray(values)
        what = f"of {ids.dtype} and shape {ids.shape}"
    except ValueError:
        ids, what = np.empty(0), "made of lists of several lengths"
    if ids.shape == (n_texts, 0):
        ids = np.zeros((n_texts, 1), dtype=np.int32)  # texts without tokens are one padding token each
    if ids.ndim != 2 or ids.dtype.kind not in "iub" or len(ids) != n_texts:
        raise UserError(
            f"a tokenizer must give integers ({n_texts}, L) for {n_texts} texts, but {name} is {what}; "
            "let it pad: for example lambda texts: tokenizer(texts, padding=True, truncation=True)."
        )
    return torch.from_numpy(ids.astype(np.int32))
