"""Encoders by name: a front that makes samples fit for the network, and the network itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from protoattend.core.mixup import Mix
from protoattend.data.augment import standardize_per_image
from protoattend.data.samples import Samples
from protoattend.encoders.image import FastCNN, resnet_for
from protoattend.encoders.lstm import PaperLSTM
from protoattend.encoders.parts import PARTS, describe, make_part, part, show
from protoattend.encoders.tabular import MLP, BinnedTable, FeatureMapping, FeatureTable, PlainTable, count_bins
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.encoders.text import VDCNN, CharCNN, NgramBag
from protoattend.errors import UserError, choose

MOST_NUMBERS = 2**25  # of the images that are looked at for their mean: 134 MB as floats

NAMES: Mapping[str, tuple[str, ...]] = {  # by kind of input
    "images": ("fast-cnn", "resnet32", "resnet50"),
    "text": ("n-grams", "char-cnn", "vdcnn"),
    "table": ("mlp", "lstm", "features"),
}
# These have layer normalisation where the paper puts it. All others end in it, so that scores are of one scale: the
# LSTM's bounded outputs, for one, would give small ones, and flat attention.
FROM_THE_PAPER = ("resnet32", "resnet50", "vdcnn", "features")

ROWS_AT_ONCE = 512
MANY_IMAGES = 20_000  # from which on wider stages are worth their time, and neither blending nor Adam is
# From which on some n-grams are left out in training. A short text may hang on one word: without it, the few texts are
# learned by words that say nothing, so that weights decay instead (`training.choices`). On held-out rows that was more
# accurate on most of four sets with up to 3,200 texts, and less on one with 6,500.
MANY_TEXTS = 5_000


@part
class Standardize(nn.Module):
    """Images `(B, c, h, w)` as float, each channel with mean 0 and variance 1 over the training samples."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(1, channels, 1, 1))
        self.register_buffer("scale", torch.ones(1, channels, 1, 1))

    def learn_from(self, samples: Samples) -> None:
        # 5,000 images tell the mean well enough, fewer where they are large
        numbers = math.prod(samples.shape)
        some = samples[:: max(1, len(samples) // 5000, -(-numbers // MOST_NUMBERS))].float()
        self.mean.copy_(some.mean((0, 2, 3), keepdim=True))
        self.scale.copy_(some.std((0, 2, 3), keepdim=True).clamp(min=1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return (x.float() - self.mean) / self.scale


@part
class StandardizeEach(nn.Module):
    """Images `(B, c, h, w)` as float, each with mean 0 and variance 1 over its own pixels, as in the paper."""

    def forward(self, x: Tensor) -> Tensor:
        return standardize_per_image(x)


class UnitRange(nn.Module):
    """Images for a user's own module: uint8 becomes float in [0, 1], floats stay as they are."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255 if x.dtype == torch.uint8 else x


@part
class AsLong(nn.Module):
    """Character codes as the integers an embedding wants."""

    def forward(self, x: Tensor) -> Tensor:
        return x.long()


class AsTokens(nn.Module):
    """Tokens `(B, K, L)` as K named arguments, without columns that are padding in all rows; ids `(B, L)` as they are.

    Only few texts go through a large model at once: fewer are padded to the longest, and less leaves the cache.
    """

    rows_at_once = 16

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)

    def forward(self, x: Tensor) -> Tensor | dict[str, Tensor]:
        if not self.names:
            return x.long()
        named = dict(zip(self.names, x.long().unbind(1), strict=True))
        if "attention_mask" not in named:
            return named
        used = named["attention_mask"].any(0)
        used[0] = True  # a text without tokens is one padding token
        return {name: tokens[:, used] for name, tokens in named.items()}


class Encoder(nn.Module):
    """A front, a body and a norm; `learn_from` shows them the training samples once, before training.

    In training it reads samples as they come, afterwards by `test_time_augmentation`.
    """

    def __init__(self, front: nn.Module, body: nn.Module, norm: nn.Module, out_features: int) -> None:
        super().__init__()
        # Characters and tokens cannot be blended, only their embeddings, inside the encoders that know how.
        self.mixes_inside = isinstance(body, (CharCNN, VDCNN, NgramBag))
        self.can_mix = self.mixes_inside or not isinstance(front, (AsLong, AsTokens))
        self.rows_at_once: int = getattr(front, "rows_at_once", ROWS_AT_ONCE)  # where no gradient is needed
        self.front = front
        self.body = body
        self.norm = norm
        self.out_features = out_features
        self.test_time_augmentation = TestTimeAugmentation()

    def learn_from(self, samples: Samples) -> None:
        show(self.front, samples)
        if not isinstance(self.body, Encoder):  # behind a frozen front, it learns from features
            show(self.body, samples)

    def forward(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        augmentation = self.test_time_augmentation
        if self.training or len(augmentation) == 1:
            return self.norm(self._features(x, mix))
        return self.norm(sum(self._features(version, mix) for version in augmentation.of(x)) / len(augmentation))

    def config(self) -> dict[str, Any]:
        """Return what the encoder is made of, as JSON can hold it."""
        parts = {name: describe(getattr(self, name)) for name in ("front", "body", "norm")}
        return parts | {"out_features": self.out_features}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Encoder:
        """Return an encoder made of the same parts, with fresh weights."""
        front, body, norm = (make_part(config[name]) for name in ("front", "body", "norm"))
        return cls(front, body, norm, config["out_features"])

    def _features(self, x: Tensor, mix: Mix | None) -> Tensor:
        features = self.front(x)
        if mix is None:
            features = self.body(features)
        else:
            features = self.body(features, mix) if self.mixes_inside else self.body(mix(features))
        return features.flatten(1)


def build_encoder(name: str, kind: str, form: Mapping[str, Any], *, n_rows: int = 0) -> Encoder:
    """Return the encoder called `name` for a kind of input whose `form` (sizes) is known, to be trained on `n_rows`."""
    every = [encoder for names in NAMES.values() for encoder in names]
    chosen = _default(kind, form) if name == "auto" else choose(name, ["auto", *every], "encoder")
    if chosen not in NAMES[kind]:
        fitting = ", ".join(repr(encoder) for encoder in NAMES[kind])
        raise UserError(f"encoder={chosen!r} does not read {kind}; for {kind} use 'auto', {fitting} or an nn.Module.")
    if kind == "images":
        front, body = _for_images(chosen, form, n_rows)
    else:
        front, body = _for_text(chosen, form, n_rows) if kind == "text" else _for_table(chosen, form)
    out_features = int(body.out_features)  # type: ignore[arg-type]
    return Encoder(front, body, nn.Identity() if chosen in FROM_THE_PAPER else nn.LayerNorm(out_features), out_features)


def _default(kind: str, form: Mapping[str, Any]) -> str:
    """Return what "auto" takes: the first of a kind, but for texts that are read as characters."""
    return "char-cnn" if kind == "text" and "n_grams" not in form else NAMES[kind][0]


def wrap_encoder(module: nn.Module, kind: str, form: Mapping[str, Any], out_features: int) -> Encoder:
    """Return a user's module as encoder, behind the plainest front for its kind of input."""
    return Encoder(plain_front(kind, form), module, nn.LayerNorm(out_features), out_features)


def adapt(encoder: Encoder, *, layer_norm: bool, each_image: bool) -> None:
    """Let the LSTM or a user's module end as it is, or each image be standardised by itself, as a recipe says.

    The paper's encoders of images and texts end in layer normalisation, and so do ours that stand in their place.
    """
    ours = isinstance(encoder.body, tuple(PARTS.values())) and not isinstance(encoder.body, PaperLSTM)
    if not (layer_norm or ours):
        encoder.norm = nn.Identity()
    if each_image and isinstance(encoder.front, (Standardize, UnitRange)):
        encoder.front = StandardizeEach()


def count_features(module: nn.Module, kind: str, form: Mapping[str, Any], probe: Tensor) -> int:
    """Return how many features a user's module gives, by showing it some samples."""
    training = module.training
    module.eval()
    with torch.no_grad():
        features = module(plain_front(kind, form)(probe))
    module.train(training)
    if not isinstance(features, Tensor) or features.ndim < 2 or len(features) != len(probe):
        raise UserError(
            f"an encoder must map a batch of {len(probe)} samples to a tensor ({len(probe)}, features), but "
            f"{type(module).__name__} gave {getattr(features, 'shape', type(features).__name__)}; wrap it."
        )
    return features[0].numel()


def plain_front(kind: str, form: Mapping[str, Any]) -> nn.Module:
    """Return the plainest front for a kind of input: numbers as they come, or the tokens of a tokenizer."""
    if kind == "images":
        return UnitRange()
    if kind == "table":
        return PlainTable(form["n_numbers"], form["cardinalities"])
    return AsTokens(form["names"]) if "names" in form else AsLong()


def rows_at_once(encoder: nn.Module, device: torch.device) -> int:
    """Return how many rows an encoder reads at once where no gradient is needed; a GPU is idle with a few."""
    rows = int(getattr(encoder, "rows_at_once", ROWS_AT_ONCE))
    return rows if device.type == "cpu" else max(rows, 64)


def _for_images(name: str, form: Mapping[str, Any], n_rows: int) -> tuple[nn.Module, nn.Module]:
    front = Standardize(form["channels"])
    if name == "fast-cnn":
        return front, FastCNN(form["channels"], form.get("widths") or _widths(form, n_rows))
    return front, resnet_for(name, form["channels"], min(form["height"], form["width"]))


def _widths(form: Mapping[str, Any], n_rows: int) -> tuple[int, ...]:
    size, grey = min(form["height"], form["width"]), form["channels"] == 1
    if size < 16:  # a stage for each halving: on 3x3 maps a third, widest stage costs most and adds nothing
        return (32, 128)
    if n_rows >= MANY_IMAGES and size <= 40:  # minutes; of larger images it would be hours
        return (32, 128, 256) if grey else (64, 256, 256)
    if grey and size < 32:  # in the same time, more epochs are worth more than more width
        return (16, 64, 128)
    return (32, 128, 256)


def _for_text(name: str, form: Mapping[str, Any], n_rows: int) -> tuple[nn.Module, nn.Module]:
    if name == "n-grams":
        sizes = form["n_grams"], form["n_subwords"]
        return AsLong(), NgramBag(*sizes) if n_rows >= MANY_TEXTS else NgramBag(*sizes, dropout=0.0)
    return AsLong(), CharCNN() if name == "char-cnn" else VDCNN(length=form["length"])


def _for_table(name: str, form: Mapping[str, Any]) -> tuple[nn.Module, nn.Module]:
    sizes = form["n_numbers"], form["cardinalities"]
    if name == "mlp":
        binned = BinnedTable(*sizes, n_bins=count_bins(form["n_numbers"]))
        return binned, MLP(binned.out_features)
    plain = PlainTable(*sizes)
    if name == "lstm":
        return plain, PaperLSTM(plain.out_features)
    features = FeatureTable(form["cardinalities"], form["means"], form["scales"])
    return features, FeatureMapping(features.out_features)
