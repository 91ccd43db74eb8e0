"""Images as PNG: what another reader finds in them, and what is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from protoattend.errors import UserError
from protoattend.viz.png import data_uri, png_bytes, shrink


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (5, 7, 3), (300, 2)])
def test_png_is_read_back_by_another_reader(shape):
    image = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png_bytes(image)))), image)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png_bytes(image[::-1, ::-1])))), image[::-1, ::-1])


@pytest.mark.parametrize(
    "image",
    [np.zeros((2, 2)), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 2), np.uint8), np.zeros(3, np.uint8)],
)
def test_png_refuses_what_is_no_image(image):
    with pytest.raises(UserError, match="must be uint8"):
        data_uri(image)


def test_shrink_takes_means_and_keeps_thin_images():
    image = np.arange(16, dtype=np.uint8).reshape(4, 4)
    np.testing.assert_array_equal(shrink(image, 2), [[2, 4], [10, 12]])
    assert shrink(image, 4) is image
    assert shrink(np.zeros((900, 1, 3), np.uint8), 300).shape == (300, 1, 3)
