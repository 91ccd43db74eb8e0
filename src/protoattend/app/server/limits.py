"""What one request may ask for, and how much may wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a request; beyond them it is answered by 413 (too large), 408 (too long) or 429 (too many waiting).

    Attributes
    ----------
    body : int
        Bytes of a request.
    rows : int
        Rows of one inference request.
    pixels : int
        Of an image as it is uploaded, before it is resized.
    seconds : float
        From the first byte of a request to its answer.
    waiting : int
        Rows of all requests that wait to be decided.
    batch : int
        Rows decided at once, of several requests.
    """

    body: int = 8 << 20
    rows: int = 1024
    pixels: int = 1 << 25
    seconds: float = 30.0
    waiting: int = 8192
    batch: int = 256
