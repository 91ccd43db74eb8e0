"""Texts as the words, pairs of words and parts of words (subwords) that occur in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from protoattend.data.tokens import as_texts, beginnings

AT_LEAST = 2  # training texts that an n-gram must occur in: one of a single text relates it to no other
AT_MOST = 50_000  # n-grams that are known, the most frequent ones
READ, MEASURED = 100_000, 50_000  # training texts at the most that n-grams are counted in, and whose length counts
LEAST_LENGTH, LONGEST = 8, 512  # n-grams of a text

# A run of letters and digits, a mark, or one character of a script that puts no spaces between words.
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W{_NO_SPACES}]+|[^\w\s]")


def ngrams(text: str) -> list[str]:
    """Return the n-grams of a text, each once: words and pairs of words as they occur, and then what words consist of.

    Of a text that is cut, it is the subwords that go.

    >>> ngrams("Is Paris")
    ['is', 'is paris', 'paris', '<is*', 'is>*', '<pa*', 'par*', 'ari*', 'ris*']
    """
    words = _words(text)
    subwords = chain.from_iterable(map(trigrams, words))
    return list(dict.fromkeys(chain(_words_and_pairs(words, lambda word: ()), subwords)))


@lru_cache(2**16)  # the words of many texts are few, and so their parts are the same objects
def trigrams(word: str) -> tuple[str, ...]:
    """Return the runs of three characters of a word, its ends marked, so that "linq2sql" is like "linq" and "sql".

    >>> trigrams("linq")
    ('<li*', 'lin*', 'inq*', 'nq>*')
    """
    marked = f"<{word}>" if len(word) > 1 else ""
    return tuple(f"{marked[i : i + 3]}*" for i in range(len(marked) - 2))


def ngrams_with_beginnings(text: str) -> list[str]:
    """Return the n-grams that classifiers read before: words, the first five characters of longer ones, and pairs.

    >>> ngrams_with_beginnings("Connected to")
    ['connected', 'conne*', 'connected to', 'to']
    """
    return list(dict.fromkeys(_words_and_pairs(_words(text), lambda word: (f"{word[:5]}*",) if len(word) > 5 else ())))


SUBWORDS: Mapping[str, Callable[[str], list[str]]] = {"trigrams": ngrams, "beginnings": ngrams_with_beginnings}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _words_and_pairs(words: Sequence[str], parts: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield each word, its parts, and the pair of it and the next one."""
    for word, after in zip_longest(words, words[1:]):
        yield word
        yield from parts(word)
        if after is not None:
            yield f"{word} {after}"


@dataclass(frozen=True)
class NgramInputs:
    """Texts as numbers of known n-grams, from 1 on; of longer texts, the first `length`; 0 is padding.

    The last `n_subwords` of the vocabulary are trigrams, which occur in many more words and each say less.
    """

    vocabulary: tuple[str, ...]
    length: int
    n_subwords: int
    subwords: str = "trigrams"
    kind: ClassVar[str] = "text"

    @classmethod
    def fit(cls, X: Any) -> NgramInputs:
        texts = as_texts(X)
        counts = Counter(chain.from_iterable(map(ngrams, _some(texts, READ))))
        known = [gram for gram, count in counts.most_common(AT_MOST) if count >= AT_LEAST]
        vocabulary = sorted(known or [gram for gram, _ in counts.most_common(AT_MOST)], key=_is_subword)
        members = set(vocabulary)
        lengths = [sum(gram in members for gram in ngrams(text)) for text in _some(texts, MEASURED)]
        length = int(np.clip(np.quantile(lengths, 0.95), LEAST_LENGTH, LONGEST))
        return cls(tuple(vocabulary), length, sum(map(_is_subword, vocabulary)))

    def source(self, X: Any) -> np.ndarray:
        return as_texts(X)

    def tensor(self, source: np.ndarray) -> Tensor:
        codes = np.zeros((len(source), self.length), dtype=np.int32)
        read = SUBWORDS[self.subwords]
        for row, text in zip(codes, source, strict=True):
            known = [self._numbers[gram] for gram in read(text) if gram in self._numbers][: self.length]
            row[: len(known)] = known
        return torch.from_numpy(codes)

    def excerpts(self, source: np.ndarray) -> np.ndarray:
        return beginnings(source)

    def preview(self, row: Any) -> str:
        return str(row)

    def form(self) -> dict[str, Any]:
        return {"n_grams": len(self.vocabulary), "n_subwords": self.n_subwords, "length": self.length}

    def state(self) -> dict[str, Any]:
        return asdict(self) | {"vocabulary": list(self.vocabulary)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> NgramInputs:
        n_subwords, subwords = state.get("n_subwords", 0), state.get("subwords", "beginnings")
        return cls(tuple(state["vocabulary"]), int(state["length"]), int(n_subwords), str(subwords))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {gram: number for number, gram in enumerate(self.vocabulary, start=1)}


def _is_subword(gram: str) -> bool:
    return len(gram) > 1 and gram.endswith("*") and " " not in gram  # "*" is a mark, and "2 *" a pair


def _some(texts: np.ndarray, most: int) -> np.ndarray:
    """Return so many texts at the most, evenly spaced."""
    return texts[np.linspace(0, len(texts) - 1, min(most, len(texts))).round().astype(int)]
