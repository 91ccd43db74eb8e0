"""Networks for texts: a bag of n-grams, the paper's VDCNN (Appendix A.2) and a small one on characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.core.mixup import Mix
from protoattend.data.characters import ALPHABET
from protoattend.data.samples import Samples, chunks
from protoattend.encoders.parts import part
from protoattend.errors import UserError

WEIGHT_OF_SUBWORDS = 0.5


@part
class NgramBag(nn.Module):
    """Numbers of n-grams `(B, length)` to the sum of their embeddings `(B, width)`, rare ones counting more.

    As fastText, but each n-gram has its inverse document frequency for a weight, and the weights of a text have length
    1, as in TF-IDF. With `dropout`, some n-grams are left out in training, so that a decision does not hang on a single
    one. The last `n_subwords` n-grams are parts of words and weigh half: a word has many, and most are in other words.

    >>> NgramBag(9)(torch.tensor([[1, 2, 0], [9, 0, 0]])).shape
    torch.Size([2, 128])
    """

    def __init__(self, n_grams: int, n_subwords: int = 0, *, width: int = 128, dropout: float = 0.3) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise UserError(f"dropout must be in [0, 1), but got {dropout}; 0.3 is the default")
        self.embedding = nn.Embedding(n_grams + 1, width, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.n_subwords = n_subwords
        self.dropout = dropout
        self.out_features = width
        self.idf: Tensor
        self.register_buffer("idf", torch.ones(n_grams + 1))
        self.idf[0] = 0.0

    def learn_from(self, samples: Samples) -> None:
        """Weigh each n-gram by how few of the training texts have it."""
        counts = torch.stack([some.long().flatten().bincount(minlength=len(self.idf)) for some in chunks(samples)])
        self.idf.copy_(torch.log((1 + len(samples)) / (1 + counts.sum(0))) + 1)
        self.idf[len(self.idf) - self.n_subwords :] *= WEIGHT_OF_SUBWORDS
        self.idf[0] = 0.0

    def forward(self, codes: Tensor, mix: Mix | None = None) -> Tensor:
        """Map numbers of n-grams to features; `mix` blends the sums."""
        weights = F.dropout(self.idf[codes], self.dropout, self.training)
        features = F.embedding_bag(
            codes, self.embedding.weight, per_sample_weights=F.normalize(weights, dim=1), mode="sum", padding_idx=0
        )
        return features if mix is None else mix(features)


@part
class VDCNN(nn.Module):
    """The 9-layer VDCNN of Appendix A.2: codes `(B, length)` to features `(B, 1024)`.

    Embeddings of 16; a convolution of 64 filters with stride 2; then eight convolutions of 64, 64, 128, 128,
    256, 256, 512, 512 filters, all of width 3 and followed by BN and ReLU; k-max pooling with k = 8; two
    fully-connected layers of 1024 with ReLU and layer normalisation.

    The paper's "8 convolution blocks" are single convolutions here: with the first they make the "9-layer
    VDCNN" of its main text, and Conneau et al. (2017) count depth 9 so too. Max-pooling (width 3, stride 2)
    follows each two of them but the last two, where k-max pooling takes its place. The paper's "weight
    normalization with parameter 0.00001" is a weight decay of the filters, and belongs to the optimiser.

    `length` is what the texts are encoded to; below 113 characters fewer than 8 positions are left to pool.

    >>> from protoattend.data.characters import encode_text
    >>> VDCNN(length=128)(encode_text(["a text", "another"], length=128)).shape
    torch.Size([2, 1024])
    """

    def __init__(self, length: int = 448) -> None:
        super().__init__()
        if length < 1:
            raise UserError(f"length must be at least 1, but got {length}; the paper's is length=448")
        self.length = length
        self.out_features = 1024
        self.embedding = _character_embedding(16)
        layers: list[nn.Module] = [_conv_bn_relu(16, 64, stride=2)]
        ins = 64
        for outs in (64, 128, 256, 512):
            layers += [_conv_bn_relu(ins, outs), _conv_bn_relu(outs, outs)]
            if outs < 512:
                layers.append(nn.MaxPool2d((1, 3), stride=(1, 2), padding=(0, 1)))
            ins = outs
        self.body = nn.Sequential(*layers)
        self.k = min(8, -(-length // 16))  # four strides of 2, each rounding up
        self.head = nn.Sequential(
            nn.Linear(512 * self.k, 1024), nn.ReLU(), nn.LayerNorm(1024),
            nn.Linear(1024, 1024), nn.ReLU(), nn.LayerNorm(1024),
        )  # fmt: skip
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, codes: Tensor, mix: Mix | None = None) -> Tensor:
        """Map codes `(B, length)`, any integer type, to features `(B, 1024)`; `mix` blends the embeddings."""
        _check_codes(codes, shortest=16 * (self.k - 1) + 1)
        sequence = self.body(_embed(self.embedding, codes, mix)).squeeze(2)
        return cast(Tensor, self.head(k_max_pool(sequence, self.k).flatten(1)))


@part
class CharCNN(nn.Module):
    """A small character network for short texts: codes `(B, length)` to features `(B, out_features)`.

    Embeddings of 32, then one convolution per kernel width, side by side, that read syllables to words of 3
    to 9 characters; the maximum over the text makes features independent of where a word stands (Kim, 2014).

    >>> from protoattend.data.characters import encode_text
    >>> CharCNN()(encode_text(["a text", "another"], length=64)).shape
    torch.Size([2, 384])
    """

    def __init__(self, kernels: Sequence[int] = (3, 5, 7, 9), *, width: int = 96) -> None:
        super().__init__()
        if not kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in kernels):
            raise UserError(f"kernels must be odd widths, but got {tuple(kernels)}; pass kernels=(3, 5, 7, 9)")
        self.embedding = _character_embedding(32)
        self.convs = nn.ModuleList(
            nn.Conv2d(32, width, (1, kernel), padding=(0, kernel // 2), bias=False) for kernel in kernels
        )
        self.out_features = width * len(kernels)
        self.norm = nn.BatchNorm1d(self.out_features)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, codes: Tensor, mix: Mix | None = None) -> Tensor:
        """Map codes `(B, length)`, any integer type and length, to features; `mix` blends the embeddings."""
        _check_codes(codes, shortest=1)
        sequence = _embed(self.embedding, codes, mix)
        highest = [conv(sequence).amax(dim=(2, 3)) for conv in self.convs]
        return F.relu(self.norm(torch.cat(highest, dim=1)))


def k_max_pool(sequence: Tensor, k: int) -> Tensor:
    """Keep the k largest values of each channel in the order they stand: `(B, C, T)` to `(B, C, k)`."""
    positions = sequence.topk(k, dim=2, sorted=False).indices.sort(dim=2).values
    return sequence.gather(2, positions)


def _embed(embedding: nn.Embedding, codes: Tensor, mix: Mix | None) -> Tensor:
    """Return embeddings as a map of height 1 `(B, width, 1, length)`.

    Convolutions of height 1 read it as it lies in memory (channels_last); 1-D ones copy.
    """
    embedded = embedding(codes.int())
    return (embedded if mix is None else mix(embedded)).transpose(1, 2).unsqueeze(2)


def _character_embedding(width: int) -> nn.Embedding:
    # Padding is the zero vector and stays it, as convolutions see beyond the ends of a text.
    return nn.Embedding(len(ALPHABET) + 1, width, padding_idx=0)


def _conv_bn_relu(ins: int, outs: int, *, stride: int = 1) -> nn.Sequential:
    # BN's shift makes a bias of the convolution redundant.
    conv = nn.Conv2d(ins, outs, (1, 3), stride=(1, stride), padding=(0, 1), bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outs), nn.ReLU(inplace=True))


def _check_codes(codes: Tensor, *, shortest: int) -> None:
    if codes.ndim != 2 or codes.is_floating_point():
        raise UserError(
            f"codes must be integers of shape (B, length), but they are {codes.dtype} {tuple(codes.shape)}; "
            "make them with encode_text(texts)"
        )
    if codes.shape[1] < shortest:
        raise UserError(
            f"codes must have at least {shortest} characters here, but they have {codes.shape[1]}; "
            f"pad them with encode_text(texts, length={shortest})"
        )
