"""A section of the page of measured figures: a title, a text and a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

TITLES = {
    "adult-lstm": 'Adult, "lstm" of the paper',
    "adult-mlp": 'Adult, "mlp"',
    "fashion-fast-cnn": 'Fashion-MNIST, "fast-cnn"',
    "cifar-fast-cnn": 'CIFAR-10, "fast-cnn"',
    "cifar-half-width": 'CIFAR-10, half-width "fast-cnn", 8 epochs',
    "dbpedia-vdcnn": 'DBPedia (subset), "vdcnn" of the paper',
    "dbpedia-frozen": "DBPedia (subset), frozen MiniLM",
    "fruits-resnet32": 'Fruits (subset), "resnet32" of the paper',
    "fruits-frozen": "Fruits (subset), frozen EfficientNet-Lite0",
    "isic-resnet50": 'ISIC (subset), melanoma or not, "resnet50" of the paper',
}
Figures = dict[str, Any]


def section(title: str, text: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## {title}\n\n{text}\n\n{table}\n"


def listed(seeds: dict[str, int]) -> str:
    return ", ".join(f"{count} on {data}" for data, count in seeds.items())


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def unless_missing(figure: float | None, form: str, missing: str) -> str:
    return missing if figure is None else format(figure, form)
