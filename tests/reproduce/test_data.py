"""The rows of a run: drawn by the seed, and test rows that are the same for all of them."""

from __future__ import annotations

import numpy as np

from protoattend.reproduce.data import as_small_colour, rotated, rows_of_run, shrunk


def test_the_seed_draws_what_is_learned_from() -> None:
    config = {"rows": 100, "test_rows": 50}
    (first, test), (second, same) = (rows_of_run("digits", config, seed) for seed in (0, 1))
    assert len(first.y) == 100
    assert not np.array_equal(first.X, second.X)
    assert np.array_equal(test.X, same.X)
    whole, _ = rows_of_run("digits", {}, 0)
    assert len(whole.y) == 1198


def test_gray_and_large_images_become_small_ones_in_colour() -> None:
    gray = np.zeros((2, 28, 28), dtype=np.uint8)
    gray[:, 14, 14] = 200
    small = as_small_colour(gray)
    assert small.shape == (2, 32, 32, 3)
    assert small[0, 16, 16].tolist() == [200, 200, 200]
    assert as_small_colour(np.zeros((1, 100, 100, 3), dtype=np.uint8)).shape == (1, 32, 32, 3)


def test_images_shrink_to_means_of_pixels() -> None:
    image = np.array([[[1, 3, 9], [5, 7, 9], [9, 9, 9]]], dtype=np.uint8)
    assert shrunk(image, 2).tolist() == [[[4]]]
    train, test = rows_of_run("digits", {"shrink": 2}, 0)
    assert train.X.shape[1:] == test.X.shape[1:] == (4, 4)


def test_a_quarter_turn() -> None:
    assert rotated(np.array([[[1, 2], [3, 4]]])).tolist() == [[[2, 4], [1, 3]]]
