"""torch Datasets as X: to learn from, and to decide on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from protoattend import ProtoAttendClassifier
from protoattend.data.inputs import unpack_dataset, without_labels
from protoattend.errors import UserError


class Items(Dataset[Any]):
    """A map-style Dataset of whatever is in a list."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(np.zeros((8, 8)), 0), (np.ones((8, 8)), 1)])


class WithoutLength(Dataset[Any]):
    def __getitem__(self, i: int) -> Any:
        return np.zeros((8, 8)), 0


@pytest.mark.parametrize("read", [unpack_dataset, without_labels])
@pytest.mark.parametrize("dataset", [Stream(), WithoutLength()])
def test_samples_must_be_there_by_number(read: Any, dataset: Any) -> None:
    name = type(dataset).__name__
    with pytest.raises(UserError, match=rf"by number, but {name} only goes through them; pass .*list\(dataset\)"):
        read(dataset)


def test_the_fix_named_for_streams_works() -> None:
    samples = list(Stream())
    X, y = unpack_dataset(Subset(samples, range(len(samples))))  # type: ignore[arg-type]
    assert X.shape == (2, 8, 8)
    assert y == [0, 1]


@pytest.mark.parametrize("read", [unpack_dataset, without_labels])
def test_images_of_two_sizes_are_named(read: Any) -> None:
    images = [(np.zeros((1, 8, 8)), 0)] * 3 + [(np.zeros((1, 9, 8)), 1)]
    message = r"dataset\[0\] is \(1, 8, 8\) and that of dataset\[3\] is \(1, 9, 8\); resize"
    with pytest.raises(UserError, match=message):
        read(Items(images))


def test_what_gives_no_pairs_or_nothing() -> None:
    with pytest.raises(UserError, match=r"must give pairs \(x, y\)"):
        unpack_dataset(Items([np.zeros(3)] * 4))
    with pytest.raises(UserError, match="at least one sample, but its length is 0"):
        unpack_dataset(Items([]))


@pytest.mark.parametrize("wrap", [lambda x: (x, 0), lambda x: (x,), lambda x: x])
def test_samples_with_labels_and_without(wrap: Any) -> None:
    images = torch.arange(12.0).reshape(3, 1, 2, 2)
    np.testing.assert_array_equal(without_labels(Items([wrap(image) for image in images])), images.numpy())
    assert without_labels(Items([wrap(text) for text in ("a", "b")])) == ["a", "b"]


def test_what_is_no_dataset_stays_as_it_is() -> None:
    for X in (np.zeros((2, 3)), ["a", "b"]):
        assert without_labels(X) is X


def test_decisions_on_a_dataset(digit_classifier: ProtoAttendClassifier, few_digits: Any) -> None:
    X, y = few_digits[0][:20], few_digits[1][:20]
    images = torch.from_numpy(X)
    for dataset in (TensorDataset(images, torch.from_numpy(y)), TensorDataset(images), Items(list(images))):
        np.testing.assert_array_equal(digit_classifier.predict_proba(dataset), digit_classifier.predict_proba(X))
        assert digit_classifier.score(dataset, y) == digit_classifier.score(X, y)
        assert len(digit_classifier.explain(dataset, top=1)) == 20
    with pytest.raises(UserError, match="Stream only goes through them"):
        digit_classifier.predict(Stream())
