"""Image files of every sort become upright 8-bit pixels, and damaged ones an error that names them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from protoattend.data.decode import decode_image, read_header
from protoattend.errors import BadFile

COLOUR = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]


def put(path: Path, image: Image.Image, **options: object) -> str:
    image.save(path, **options)
    return str(path)


def test_lossless_files_come_back_as_they_are(tmp_path: Path) -> None:
    for suffix in ("png", "bmp", "tif", "ppm"):
        path = put(tmp_path / f"x.{suffix}", Image.fromarray(COLOUR))
        np.testing.assert_array_equal(decode_image(path), COLOUR)
        assert decode_image(path, channels=1).shape == (6, 9, 1)
    path = put(tmp_path / "grey.png", Image.fromarray(GREY))
    np.testing.assert_array_equal(decode_image(path, channels=1)[..., 0], GREY)
    np.testing.assert_array_equal(decode_image(path), np.stack([GREY] * 3, axis=-1))


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (1, lambda x: x),
        (2, lambda x: x[:, ::-1]),
        (3, lambda x: x[::-1, ::-1]),
        (4, lambda x: x[::-1]),
        (5, lambda x: x.swapaxes(0, 1)),
        (6, lambda x: x[::-1].swapaxes(0, 1)),
        (7, lambda x: x[::-1, ::-1].swapaxes(0, 1)),
        (8, lambda x: x[:, ::-1].swapaxes(0, 1)),
    ],
)
def test_exif_orientation_is_heeded(tmp_path: Path, orientation: int, turn: object) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    upright = turn(COLOUR)  # type: ignore[operator]
    for suffix in ("tif", "png"):
        path = put(tmp_path / f"x.{suffix}", Image.fromarray(COLOUR), exif=exif)
        np.testing.assert_array_equal(decode_image(path), upright)
    for suffix in ("tif", "jpg", "webp"):
        path = put(tmp_path / f"x.{suffix}", Image.fromarray(COLOUR), exif=exif)
        header = read_header(path)
        assert (header.height, header.width) == upright.shape[:2]
        assert decode_image(path).shape == upright.shape


def test_palettes_become_their_colours(tmp_path: Path) -> None:
    indexed = Image.fromarray(COLOUR).convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
    path = put(tmp_path / "x.png", indexed)
    np.testing.assert_array_equal(decode_image(path), np.asarray(indexed.convert("RGB")))
    assert not read_header(path).grey


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    alpha = np.zeros((6, 9, 1), np.uint8)
    alpha[:, 4:] = 255
    path = put(tmp_path / "x.png", Image.fromarray(np.concatenate([COLOUR, alpha], axis=2)))
    np.testing.assert_array_equal(decode_image(path)[:, 4:], COLOUR[:, 4:])
    assert (decode_image(path)[:, :4] == 255).all()
    grey = put(tmp_path / "grey.png", Image.fromarray(np.concatenate([GREY[..., None], alpha], axis=2)))
    np.testing.assert_array_equal(decode_image(grey, channels=1)[:, 4:, 0], GREY[:, 4:])
    assert (decode_image(grey, channels=1)[:, :4] == 255).all()
    key = put(tmp_path / "key.png", Image.fromarray(np.zeros((4, 4, 3), np.uint8)), transparency=(0, 0, 0))
    assert (decode_image(key) == 255).all()


def test_sixteen_bits_are_scaled_and_one_bit_is_black_and_white(tmp_path: Path) -> None:
    deep = GREY.astype(np.uint16) * 257
    path = put(tmp_path / "deep.png", Image.fromarray(deep))
    assert read_header(path).grey
    np.testing.assert_array_equal(decode_image(path, channels=1)[..., 0], GREY)
    bits = put(tmp_path / "bits.png", Image.fromarray(GREY > 127))
    assert set(np.unique(decode_image(bits, channels=1))) == {0, 255}


def test_resizing(tmp_path: Path) -> None:
    flat = put(tmp_path / "flat.png", Image.new("RGB", (40, 20), (10, 20, 30)))
    image = decode_image(flat, size=(8, 16))
    assert image.shape == (8, 16, 3)
    assert (image == [10, 20, 30]).all()
    same = put(tmp_path / "same.png", Image.fromarray(COLOUR))
    np.testing.assert_array_equal(decode_image(same, size=(6, 9)), COLOUR)


def test_a_large_jpeg_decoded_at_a_fraction_is_close_to_the_whole(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 800).astype(np.uint8)
    image = Image.fromarray(np.stack(np.broadcast_arrays(ramp, ramp[:600, None], 128), axis=-1).astype(np.uint8))
    path = put(tmp_path / "big.jpg", image, quality=95)
    whole = np.asarray(Image.open(path).convert("RGB").resize((40, 30), Image.Resampling.BILINEAR))
    assert np.abs(decode_image(path, size=(30, 40)).astype(int) - whole).max() <= 4


def test_damaged_files_are_named(tmp_path: Path) -> None:
    data = Path(put(tmp_path / "whole.png", Image.fromarray(COLOUR))).read_bytes()
    for name, content in (("empty", b""), ("text", b"hello"), ("cut", data[: len(data) // 2])):
        bad = tmp_path / f"{name}.png"
        bad.write_bytes(content)
        with pytest.raises(BadFile, match=rf"{name}\.png: not a readable image .*corrupt='skip'"):
            decode_image(str(bad))
    for name in ("empty", "text"):
        with pytest.raises(BadFile, match=rf"{name}\.png"):
            read_header(str(tmp_path / f"{name}.png"))
    floats = put(tmp_path / "floats.tif", Image.fromarray(GREY.astype(np.float32)))
    with pytest.raises(BadFile, match="floats of unknown range"):
        decode_image(floats)


def test_a_file_that_has_moved(tmp_path: Path) -> None:
    path = put(tmp_path / "x.png", Image.fromarray(COLOUR))
    os.rename(path, tmp_path / "elsewhere.png")
    with pytest.raises(BadFile, match=r"x\.png: .*not there; put it back.*relocate"):
        decode_image(path)
