"""The rows of a run: a part of a data set to learn from, its test split, and how that differs from the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from protoattend.data.inputs import take_rows
from protoattend.datasets import catalogue


@dataclass(frozen=True)
class Rows:
    """Samples with their labels, and a remark where they are not the published split."""

    X: Any
    y: np.ndarray
    note: str = ""

    def take(self, rows: np.ndarray) -> Rows:
        """Return these rows, in ascending order."""
        return Rows(take_rows(self.X, np.sort(rows)), self.y[np.sort(rows)], self.note)


def load_rows(name: str, split: str) -> Rows:
    """Return a whole split, labels by name; those of ISIC are the paper's two, and "digits" are scikit-learn's."""
    if name == "digits":
        images, labels = load_digits().images.astype(np.uint8), load_digits().target
        test = np.arange(len(labels)) % 3 == 0
        return Rows(images, labels).take(np.flatnonzero(test if split == "test" else ~test))
    found = catalogue.load(name, split)
    labels = np.array(found.classes)[found.y] if found.y.dtype.kind in "iu" else found.y
    return Rows(found.X, catalogue.melanoma_or_benign(labels) if name == "isic" else labels, found.note)


def rows_of_run(name: str, config: Mapping[str, Any], seed: int) -> tuple[Rows, Rows]:
    """Return rows to learn from, drawn by the seed, and test rows, which are the same for all seeds.

    Images are smaller by the factor `shrink`, where the experiment has one.
    """
    train, test = (load_rows(name, split) for split in catalogue.SPLITS)
    if "shrink" in config:
        train, test = (replace(rows, X=shrunk(rows.X, config["shrink"])) for rows in (train, test))
    return (
        drawn(train, config.get("rows"), np.random.default_rng(seed)),
        drawn(test, config.get("test_rows"), np.random.default_rng(0)),
    )


def drawn(rows: Rows, count: int | None, generator: np.random.Generator) -> Rows:
    """Return so many of the rows at random; all of them for None."""
    if count is None or count >= len(rows.y):
        return rows
    return rows.take(generator.permutation(len(rows.y))[:count])


def shrunk(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images whose pixels are the means of `factor` x `factor` ones; edges that are left over are cut off."""
    n, height, width, *channels = images.shape
    h, w = height // factor, width // factor
    blocks = images[:, : h * factor, : w * factor].reshape(n, h, factor, w, factor, *channels)
    return blocks.mean(axis=(2, 4)).round().astype(images.dtype)


def rotated(images: np.ndarray) -> np.ndarray:
    """Return images by a quarter turn."""
    return np.ascontiguousarray(np.rot90(images, axes=(1, 2)))


def as_small_colour(images: np.ndarray) -> np.ndarray:
    """Return images as 32 x 32 in colour: gray ones padded, large ones shrunk by taking every so manieth pixel."""
    if images.ndim == 3:
        side = (32 - images.shape[1]) // 2
        padded = np.pad(images, ((0, 0), (side, side), (side, side)))
        return np.repeat(padded[..., None], 3, axis=3)
    chosen = np.linspace(0, images.shape[1] - 1, 32).round().astype(int)
    return np.ascontiguousarray(images[:, chosen][:, :, chosen])
