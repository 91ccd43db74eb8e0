"""One image file as pixels: upright, without transparency, 8 bits deep, in the size and colours asked for."""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from protoattend.errors import BadFile, MissingExtra

ORIENTATION = 0x0112  # the EXIF tag; 5 to 8 mean that width and height change places
GREY_MODES = frozenset({"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N"})
# Not PNG, of which all pixels would be decoded to look for EXIF behind them; not TIFF, whose size Pillow turns itself.
EXIF_IN_HEADER = frozenset({"JPEG", "MPO", "WEBP"})
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # those of the suffixes that are read
PIXELS = 1 << 26  # of one image, as it is decoded
LARGE = 1 << 22  # pixels: images above are decoded one at a time, whatever the number of threads
_large = Lock()


@dataclass(frozen=True)
class Header:
    """What a file says of its image before any pixel is decoded."""

    height: int
    width: int
    grey: bool


def read_header(path: str) -> Header:
    """Return height, width (of the upright image) and whether it is grey, without decoding it."""
    try:
        with _opened(path) as image:
            width, height = image.size
            turned = image.format in EXIF_IN_HEADER and image.getexif().get(ORIENTATION) in (5, 6, 7, 8)
            height, width = (width, height) if turned else (height, width)
            return Header(height, width, image.mode in GREY_MODES)
    except Exception as error:  # a damaged file can make a decoder fail in any way
        raise _unreadable(path, error) from error


def decode_image(path: str, *, channels: int = 3, size: tuple[int, int] | None = None) -> np.ndarray:
    """Return the image as uint8 `(h, w, channels)`, resized to `size` (height, width) unless it has that size.

    EXIF orientation is heeded, transparent pixels lie on white, palettes become colours, 16-bit greys become 8-bit.
    """
    module = _pillow()
    try:
        with _opened(path) as image, _one_at_a_time(image):
            if size is not None:
                # A JPEG is decoded at a fraction of its size where that leaves twice the pixels needed, which is
                # far quicker. Square, as the image may lie on its side.
                image.draft(None, (2 * max(size), 2 * max(size)))
            if image.width * image.height > PIXELS:  # before any is decoded
                raise ValueError(f"it has {image.width} x {image.height} pixels, above the limit of {PIXELS}")
            pixels = _eight_bit(_upright(image), "L" if channels == 1 else "RGB")
            if size is not None and pixels.size != size[::-1]:
                pixels = pixels.resize(size[::-1], module.Resampling.BILINEAR)
            return np.asarray(pixels).reshape(pixels.height, pixels.width, channels)
    except Exception as error:  # as above
        raise _unreadable(path, error) from error


def _opened(path: str) -> Any:
    """Open an image of a known format: by its content Pillow would hand some files to other programs."""
    module = _pillow()
    if isinstance(path, (str, os.PathLike)) and not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is no regular file")
    return module.open(path, formats=FORMATS)


def _one_at_a_time(image: Any) -> AbstractContextManager[Any]:
    """Return a context that lets one large image at a time into memory."""
    return _large if image.width * image.height > LARGE and image.format not in ("JPEG", "MPO") else nullcontext()


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    return image


def _eight_bit(image: Any, mode: str) -> Any:
    """Return an image of any mode as mode "L" or "RGB"."""
    module = _pillow()
    if image.mode == "F":
        raise ValueError("its pixels are floats of unknown range; save it with 8 bits a channel")
    if image.mode.startswith("I"):  # Pillow itself would cut 16 bits off at 255
        image = module.fromarray((np.clip(np.asarray(image), 0, 65535) / 257).round().astype(np.uint8))
    elif image.has_transparency_data:
        on_white = module.new("RGBA", image.size, "white")
        on_white.alpha_composite(image.convert("RGBA"))
        image = on_white
    return image.convert(mode)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra("Pillow", "images", "reading image files") from error
    return Image


def _unreadable(path: str, error: Exception) -> BadFile:
    if isinstance(error, FileNotFoundError):
        return BadFile(
            f"{path}: the image must lie where it was when its folder was read, but it is not there; put it back, or "
            "tell a trained classifier where its folder lies now: database_.relocate(old_folder, new_folder)."
        )
    reason = str(error).removesuffix(f" '{path}'") or type(error).__name__
    return BadFile(
        f"{path}: not a readable image ({reason}); restore it, remove it, or leave such files out with corrupt='skip' "
        "(--skip-corrupt on the command line)."
    )
