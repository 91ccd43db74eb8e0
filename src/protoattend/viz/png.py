"""Images as PNG, without an imaging library: pages of explanations must work wherever the classifier does."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

from protoattend.errors import UserError

UP = 2  # PNG filter: a row is stored as its difference from the one above, which compresses photographs better
SMALL, LARGE = 96, 320  # pixels: images below are enlarged with hard edges, images above are shrunk
COLOUR_TYPES = {2: 0, 3: 2}  # number of array axes -> PNG's number for gray and RGB


def png_bytes(image: np.ndarray) -> bytes:
    """Return a uint8 image `(h, w)` or `(h, w, 3)` as the bytes of a PNG file.

    >>> png_bytes(np.zeros((8, 8), dtype=np.uint8))[1:4]
    b'PNG'
    """
    gray_or_rgb = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
    if image.dtype != np.uint8 or not gray_or_rgb or image.size == 0:
        raise UserError(
            "an image must be uint8 of shape (h, w) or (h, w, 3) with at least one pixel, "
            f"but got {image.dtype} {image.shape}; scale it to 0..255 and call .astype('uint8')."
        )
    height, width = image.shape[:2]
    flat = image.reshape(height, -1)
    rows = np.diff(flat, axis=0, prepend=np.zeros_like(flat[:1]))
    filtered = np.insert(rows, 0, UP, axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[image.ndim], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def data_uri(image: np.ndarray) -> str:
    """Return a uint8 image as a `data:` address that holds the whole PNG."""
    return "data:image/png;base64," + b64encode(png_bytes(image)).decode("ascii")


def shrink(image: np.ndarray, limit: int) -> np.ndarray:
    """Return the image with no side above `limit` pixels, each the mean of a square of the original's."""
    factor = -(-max(image.shape[:2]) // limit)
    if factor <= 1:
        return image
    # A side shorter than the factor (a strip) keeps at least one pixel.
    squares = [max(side // factor, 1) for side in image.shape[:2]]
    steps = [min(factor, side) for side in image.shape[:2]]
    cut = image[: squares[0] * steps[0], : squares[1] * steps[1]]
    blocks = cut.reshape(squares[0], steps[0], squares[1], steps[1], *image.shape[2:])
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
