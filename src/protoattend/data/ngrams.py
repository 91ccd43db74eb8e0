"""Texts as the words, beginnings of words and pairs of words that occur in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from protoattend.data.tokens import as_texts, beginnings

BEGINNING = 5  # characters that words of one stem mostly share
AT_LEAST = 2  # training texts that an n-gram must occur in: one of a single text relates it to no other
AT_MOST = 50_000  # n-grams that are known, the most frequent ones
READ = 100_000  # training texts at the most that n-grams are counted in
LEAST_LENGTH, LONGEST = 8, 512  # n-grams of a text

# A run of letters and digits, a mark, or one character of a script that puts no spaces between words.
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W{_NO_SPACES}]+|[^\w\s]")


def ngrams(text: str) -> list[str]:
    """Return the n-grams of a text, each once, as they occur: words, beginnings of long words, and pairs of words.

    >>> ngrams("Where is Paris?")
    ['where', 'where is', 'is', 'is paris', 'paris', 'paris ?', '?']
    >>> ngrams("connected")
    ['connected', 'conne*']
    """
    words = _WORD.findall(text.lower())
    found = chain.from_iterable(_at(word, after) for word, after in zip_longest(words, words[1:], fillvalue=""))
    return list(dict.fromkeys(found))


def _at(word: str, after: str) -> list[str]:
    stem = [f"{word[:BEGINNING]}*"] if len(word) > BEGINNING else []
    return [word, *stem, *([f"{word} {after}"] if after else [])]


@dataclass(frozen=True)
class NgramInputs:
    """Texts as numbers of known n-grams, from 1 on; of longer texts, the first `length`; 0 is padding."""

    vocabulary: tuple[str, ...]
    length: int
    kind: ClassVar[str] = "text"

    @classmethod
    def fit(cls, X: Any) -> NgramInputs:
        texts = as_texts(X)
        some = texts[np.linspace(0, len(texts) - 1, min(READ, len(texts))).round().astype(int)]
        found = [ngrams(text) for text in some]
        counts = Counter(chain.from_iterable(found))
        known = [gram for gram, count in counts.most_common(AT_MOST) if count >= AT_LEAST]
        vocabulary = known or [gram for gram, _ in counts.most_common(AT_MOST)]
        lengths = _count_known(found, set(vocabulary))
        return cls(tuple(vocabulary), int(np.clip(np.quantile(lengths, 0.95), LEAST_LENGTH, LONGEST)))

    def source(self, X: Any) -> np.ndarray:
        return as_texts(X)

    def tensor(self, source: np.ndarray) -> Tensor:
        codes = np.zeros((len(source), self.length), dtype=np.int32)
        for row, text in zip(codes, source, strict=True):
            known = [self._numbers[gram] for gram in ngrams(text) if gram in self._numbers][: self.length]
            row[: len(known)] = known
        return torch.from_numpy(codes)

    def excerpts(self, source: np.ndarray) -> np.ndarray:
        return beginnings(source)

    def preview(self, row: Any) -> str:
        return str(row)

    def form(self) -> dict[str, Any]:
        return {"n_grams": len(self.vocabulary), "length": self.length}

    def state(self) -> dict[str, Any]:
        return {"vocabulary": list(self.vocabulary), "length": self.length}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> NgramInputs:
        return cls(tuple(state["vocabulary"]), int(state["length"]))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {gram: number for number, gram in enumerate(self.vocabulary, start=1)}


def _count_known(found: Sequence[Sequence[str]], known: set[str]) -> list[int]:
    return [sum(gram in known for gram in grams) for grams in found]
