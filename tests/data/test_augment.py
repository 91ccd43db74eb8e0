from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from protoattend.data.augment import (
    Augmentation,
    random_crop,
    random_cutout,
    random_flip,
    standardize_per_image,
)
from protoattend.errors import UserError

DTYPES = [torch.uint8, torch.float32, torch.float64]
OPERATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "crop": lambda images, generator: random_crop(images, 2, generator),
    "left-right": lambda images, generator: random_flip(images, generator, -1),
    "upside down": lambda images, generator: random_flip(images, generator, -2),
    "cutout": lambda images, generator: random_cutout(images, 3, generator),
    "all": Augmentation(padding=2, horizontal=True, vertical=True, cutout=3),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(batch: int = 64, *, channels: int = 3, height: int = 7, width: int = 5) -> Tensor:
    """Images without zeros or repeats inside an image, so that every shift and flip shows."""
    pixels = channels * height * width
    rows = [torch.randperm(255, generator=seeded(i))[:pixels] + 1 for i in range(batch)]
    return torch.stack(rows).view(batch, channels, height, width).to(torch.uint8)


def shift_of(image: Tensor, original: Tensor, padding: int) -> tuple[int, int]:
    """Find, by trying all of them, the window of the padded original that the image is."""
    height, width = original.shape[1:]
    padded = np.pad(original.numpy(), ((0, 0), (padding, padding), (padding, padding)))
    for down in range(2 * padding + 1):
        for right in range(2 * padding + 1):
            if np.array_equal(padded[:, down : down + height, right : right + width], image.numpy()):
                return down, right
    raise AssertionError("no window of the padded image")


@pytest.mark.parametrize("dtype", DTYPES)
def test_crop_takes_every_window_of_the_padded_image(dtype: torch.dtype) -> None:
    originals = pictures(200).to(dtype)
    cropped = random_crop(originals, 1, seeded())
    shifts = [shift_of(image, original, 1) for image, original in zip(cropped, originals, strict=True)]
    assert {*shifts} == {(down, right) for down in range(3) for right in range(3)}
    assert max(shifts.count(shift) for shift in shifts) < 200 * 0.2  # each 1/9 on average


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [-1, -2, 2, 3])
def test_flip_turns_about_half_of_the_images_along_one_dimension(dtype: torch.dtype, dim: int) -> None:
    originals = pictures(200).to(dtype)
    flipped = random_flip(originals, seeded(), dim)
    axis = dim if dim < 0 else dim - 4
    turned = 0
    for image, original in zip(flipped.numpy(), originals.numpy(), strict=True):
        mirrored = np.flip(original, axis)
        turned += np.array_equal(image, mirrored)
        assert np.array_equal(image, mirrored) != np.array_equal(image, original)
    assert 70 < turned < 130


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_cutout_is_one_square_around_any_pixel_cut_at_the_border(size: int) -> None:
    originals = pictures(300)
    holed = random_cutout(originals, size, seeded())
    centres = set()
    for image, original in zip(holed.numpy(), originals.numpy(), strict=True):
        matches = []
        for y in range(7):
            for x in range(5):
                expected = original.copy()
                top, left = y - size // 2, x - size // 2
                expected[:, max(0, top) : top + size, max(0, left) : left + size] = 0
                if np.array_equal(image, expected):
                    matches.append((y, x))
        assert matches
        centres.update(matches)
    assert len(centres) == 35


def test_standardize_equals_numpy_one_image_at_a_time() -> None:
    originals = pictures(9)
    for images in (originals, originals.float() / 255, originals.double()):
        found = standardize_per_image(images)
        assert found.dtype == (torch.float32 if images.dtype == torch.uint8 else images.dtype)
        for image, original in zip(found, images, strict=True):
            array = original.numpy().astype(np.float64)
            expected = (array - array.mean()) / max(array.std(), 1 / np.sqrt(array.size))
            np.testing.assert_allclose(image.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_standardize_of_an_even_image_is_zero() -> None:
    assert torch.equal(standardize_per_image(torch.full((2, 1, 4, 4), 200, dtype=torch.uint8)), torch.zeros(2, 1, 4, 4))
    faint = torch.zeros(1, 1, 4, 4)
    faint[0, 0, 0, 0] = 1e-3
    assert standardize_per_image(faint).abs().max() < 1e-2  # not blown up to unit variance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_reproducible_typed_and_without_touching_the_input(
    operation: Callable[[Tensor, torch.Generator], Tensor], dtype: torch.dtype
) -> None:
    images = pictures().to(dtype)
    before = images.clone()
    global_state = torch.get_rng_state()
    first, again, other = (operation(images, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), global_state)
    assert first.dtype == dtype
    assert first.shape == images.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    first.zero_()
    assert torch.equal(images, before)  # the result does not share memory with the input


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_each_image_has_its_own_draw(operation: Callable[[Tensor, torch.Generator], Tensor]) -> None:
    same = pictures(1).expand(64, -1, -1, -1)
    assert len(torch.unique(operation(same, seeded()), dim=0)) > 1


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_memory_layout_does_not_matter(operation: Callable[[Tensor, torch.Generator], Tensor]) -> None:
    images = pictures()
    expected = operation(images, seeded())
    assert torch.equal(operation(images.contiguous(memory_format=torch.channels_last), seeded()), expected)
    strided = torch.stack([images, images], dim=-1)[..., 0]
    assert torch.equal(operation(strided, seeded()), expected)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_empty_batch_and_single_pixel(operation: Callable[[Tensor, torch.Generator], Tensor]) -> None:
    assert operation(torch.zeros(0, 3, 4, 4), seeded()).shape == (0, 3, 4, 4)
    assert operation(torch.ones(2, 1, 1, 1), seeded()).shape == (2, 1, 1, 1)


def test_augmentation_is_its_parts_in_order_from_one_generator() -> None:
    images = pictures()
    found = Augmentation(padding=2, horizontal=True, vertical=True, cutout=3)(images, seeded())
    generator = seeded()
    expected = random_crop(images, 2, generator)
    expected = random_flip(expected, generator, -1)
    expected = random_flip(expected, generator, -2)
    assert torch.equal(found, random_cutout(expected, 3, generator))


@pytest.mark.parametrize(
    ("augmentation", "alone"),
    [
        (Augmentation(padding=2), "crop"),
        (Augmentation(horizontal=True), "left-right"),
        (Augmentation(vertical=True), "upside down"),
        (Augmentation(cutout=3), "cutout"),
    ],
)
def test_each_part_works_alone(augmentation: Augmentation, alone: str) -> None:
    images = pictures()
    assert torch.equal(augmentation(images, seeded()), OPERATIONS[alone](images, seeded()))


def test_augmentation_without_parts_draws_nothing() -> None:
    images, generator = pictures(), seeded()
    assert Augmentation()(images, generator) is images
    assert torch.equal(generator.get_state(), seeded().get_state())


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UserError, match=r"\(B, C, H, W\), but they have \(3, 4, 4\)"):
        random_crop(torch.zeros(3, 4, 4), 1, seeded())
    with pytest.raises(UserError, match="padding must be 0 or more pixels, but got -1"):
        Augmentation(padding=-1)
    with pytest.raises(UserError, match="size must be 0 or more pixels, but got -2"):
        random_cutout(pictures(1), -2, seeded())
    with pytest.raises(UserError, match="dim must be -1"):
        random_flip(pictures(1), seeded(), 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Augmentation().padding = 3  # type: ignore[misc]
