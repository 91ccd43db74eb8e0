"""Texts on disk: all of them end to end as UTF-8, and where each one ends; one is decoded when it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from protoattend.errors import BadFile

SURROGATES = "surrogatepass"  # names of files need not be UTF-8: what Python makes of them is kept


class Texts:
    """A column of str like an object array, over bytes `(N,)` and ends `(n,)` that may be memory-mapped.

    >>> texts = Texts(np.frombuffer("añb".encode(), dtype=np.uint8), np.array([1, 1, 4]))
    >>> texts[0], texts[1], texts[2:].tolist()
    ('a', '', ['ñb'])
    """

    dtype = np.dtype(object)

    def __init__(self, content: np.ndarray, ends: np.ndarray) -> None:
        self._content = content
        self._ends = ends
        self.shape = ends.shape

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, which: Any) -> Any:
        """Return the text at a position, or an array of those at several."""
        positions = np.arange(len(self))[which]
        if positions.ndim == 0:
            return self._decode(int(positions))
        chosen = np.empty(len(positions), dtype=object)
        chosen[:] = [self._decode(position) for position in positions.tolist()]
        return chosen

    def damaged(self, at_most: int | None) -> bool:
        """Return whether the texts do not lie end to end in UTF-8; of more than `at_most` bytes, the last one's end."""
        if self._content.ndim != 1 or self._ends.ndim != 1 or self._ends.dtype != np.int64:
            return True
        if len(self._ends) and self._ends[-1] != len(self._content):
            return True
        if at_most is None or self._ends.nbytes <= at_most:
            starts = np.concatenate([[0], self._ends[:-1]])
            if (self._ends < starts).any():
                return True
        if at_most is None or self._content.nbytes <= at_most:
            try:
                self._content.tobytes().decode("utf-8", SURROGATES)
            except UnicodeDecodeError:
                return True
        return False

    def _decode(self, position: int) -> str:
        start = int(self._ends[position - 1]) if position else 0
        try:
            return self._content[start : int(self._ends[position])].tobytes().decode("utf-8", SURROGATES)
        except UnicodeDecodeError:
            raise BadFile(
                f"text {position} of the database is damaged: call verify(), and restore the folder from a copy."
            ) from None


def encode_texts(texts: list[str]) -> tuple[bytes, np.ndarray]:
    """Return texts end to end as UTF-8, and where each ends."""
    encoded = [text.encode("utf-8", SURROGATES) for text in texts]
    return b"".join(encoded), np.cumsum([len(text) for text in encoded], dtype=np.int64)
