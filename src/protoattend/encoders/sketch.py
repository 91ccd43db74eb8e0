"""Sketches: inputs in a small, fixed form that keeps what a person sees, and that encoders learn to ignore."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.data.characters import ALPHABET
from protoattend.data.samples import Samples, chunks
from protoattend.encoders.parts import part
from protoattend.encoders.tabular import PlainTable
from protoattend.encoders.text import WEIGHT_OF_SUBWORDS

SIDE = 8  # pixels of a sketched image
FURTHEST = 5.0  # standard deviations: beyond, one odd number would be all that two rows are compared by
GRAM, BUCKETS = 4, 2048


@part
class ImageSketch(nn.Module):
    """Images `(B, c, h, w)` averaged to at most 8 x 8 pixels, as numbers `(B, width)`."""

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.size = (min(SIDE, height), min(SIDE, width))
        self.width = channels * self.size[0] * self.size[1]

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x.float(), self.size).flatten(1)


@part
class TableSketch(nn.Module):
    """Rows of a table `(B, f)`: standardised numbers, at most 5 standard deviations, and multi-hot categories."""

    def __init__(self, n_numbers: int, cardinalities: Sequence[int]) -> None:
        super().__init__()
        self.plain = PlainTable(n_numbers, cardinalities)
        self.width = self.plain.out_features

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x).clamp(-FURTHEST, FURTHEST).float()


@part
class TextSketch(nn.Module):
    """Codes of characters `(B, L)` as hashed counts of four in a row `(B, width)`, rare ones counting more.

    Their product is the overlap of two texts, as by TF-IDF.
    """

    def __init__(self) -> None:
        super().__init__()
        self.width = BUCKETS
        self.idf: Tensor
        self.register_buffer("idf", torch.ones(BUCKETS))

    def learn_from(self, samples: Samples) -> None:
        """Count in how many of the training texts each bucket occurs."""
        self.idf.copy_(_idf(self._counts, samples))

    def forward(self, x: Tensor) -> Tensor:
        weighted = self._counts(x).sqrt() * self.idf
        return F.normalize(weighted, dim=1)

    def _counts(self, codes: Tensor) -> Tensor:
        grams = F.pad(codes.long(), (0, max(0, GRAM - codes.shape[1]))).unfold(1, GRAM, 1)
        places = (len(ALPHABET) + 1) ** torch.arange(GRAM, device=codes.device)
        buckets = _hash((grams * places).sum(2), self.width)
        whole = (grams > 0).all(2).float()
        return torch.zeros(len(codes), self.width, device=codes.device).scatter_add_(1, buckets, whole)


@part
class NgramSketch(nn.Module):
    """Numbers of n-grams `(B, L)` as TF-IDF, hashed to fewer numbers `(B, width)`.

    Those above `n_whole` are parts of words, which weigh as they do in a bag of n-grams.
    """

    def __init__(self, n_whole: int | None = None) -> None:
        super().__init__()
        self.n_whole = n_whole
        self.width = BUCKETS
        self.idf: Tensor
        self.register_buffer("idf", torch.ones(BUCKETS))

    def learn_from(self, samples: Samples) -> None:
        """Count in how many of the training texts each bucket occurs."""
        self.idf.copy_(_idf(self._counts, samples))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self._counts(x) * self.idf, dim=1)

    def _counts(self, codes: Tensor) -> Tensor:
        known = (codes > 0).float()
        if self.n_whole is not None:
            known = torch.where(codes > self.n_whole, WEIGHT_OF_SUBWORDS, known)
        return torch.zeros(len(codes), self.width, device=codes.device).scatter_add_(1, _hash(codes, self.width), known)


def _hash(numbers: Tensor, buckets: int) -> Tensor:
    """Return the bucket of each number, by Knuth's multiplicative hash."""
    return numbers.long() * 2654435761 % 2**31 % buckets


def _idf(counts: Callable[[Tensor], Tensor], samples: Samples) -> Tensor:
    seen = torch.stack([(counts(some) > 0).sum(0) for some in chunks(samples, 1024)]).sum(0)
    return torch.log((1 + len(samples)) / (1 + seen)) + 0.1


def make_sketch(kind: str, form: Mapping[str, Any]) -> nn.Module | None:
    """Return the sketch of a kind of input; None for the tokens of a tokenizer, which only its model can read."""
    if kind == "images":
        return ImageSketch(form["channels"], form["height"], form["width"])
    if kind == "table":
        return TableSketch(form["n_numbers"], form["cardinalities"])
    if "names" in form:
        return None
    return NgramSketch(form["n_grams"] - form["n_subwords"]) if "n_grams" in form else TextSketch()
