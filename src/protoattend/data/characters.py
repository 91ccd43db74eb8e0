"""Texts as codes of their characters, and what a tokenizer of one's own is."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.errors import UserError

ALPHABET: str = string.ascii_lowercase + string.digits + string.punctuation + " "
"""The 69 characters with a code of their own, 1 to 69: every printable ASCII character after lower-casing.

26 letters + 10 digits + 32 punctuation marks + the space = 69. Conneau et al. (2017) also count 69, with 30
marks (no backslash, no @) and the padding and unknown tokens, which share code 0 here.
"""

Tokenizer = Callable[[list[str]], Any]
"""What reads texts for a pre-trained model: to a dict of arrays `(n, L)`, or to one array of ids `(n, L)`."""

_LAST_LATIN = 0x24F  # end of Latin Extended-B: the accented letters of European languages


def encode_text(texts: Sequence[str], length: int = 448) -> Tensor:
    """Return texts as uint8 codes `(n, length)`: 1 to 69 for `ALPHABET`, 0 for padding and unknown.

    Texts are cut at `length` characters or padded. Capitals count as small letters, accented Latin letters as
    their base, and line breaks and tabs as spaces.

    >>> encode_text(["Ab É!"], length=6).tolist()
    [[1, 2, 69, 5, 37, 0]]
    """
    if length < 1:
        raise UserError(f"length must be at least 1, but got {length}; the paper's is length=448")
    if isinstance(texts, str):
        raise UserError("texts must be a sequence of str, but got one str; pass [text]")
    try:
        cut = [text[:length] for text in texts]
        # One code point is four bytes in UTF-32, so that all texts become one array without a loop.
        joined = "".join(cut).encode("utf-32-le", errors="surrogatepass")
    except TypeError:
        row, kind = next((i, type(t).__name__) for i, t in enumerate(texts) if not isinstance(t, str))
        raise UserError(f"texts must be str, but texts[{row}] is {kind}; convert it with str(...)") from None
    found = _CODES.take(np.frombuffer(joined, dtype="<i4"), mode="clip")
    lengths = np.fromiter(map(len, cut), dtype=np.int64, count=len(cut))
    codes = np.zeros((len(cut), length), dtype=np.uint8)
    codes[np.arange(length) < lengths[:, None]] = found
    return torch.from_numpy(codes)


def _code_table() -> np.ndarray:
    """Return the code of each code point to one past the last Latin letter, which stands for all beyond."""
    codes = np.zeros(_LAST_LATIN + 2, dtype=np.uint8)
    for point in range(_LAST_LATIN + 1):
        base = unicodedata.normalize("NFKD", chr(point))[0].lower()
        codes[point] = ALPHABET.find(" " if base.isspace() else base) + 1
    return codes


_CODES = _code_table()
