"""Pre-trained modules as encoders: frozen, with the paper's mapping trained on their features, or fine-tuned."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from protoattend.data.characters import Tokenizer
from protoattend.encoders.build import ROWS_AT_ONCE, Encoder, plain_front
from protoattend.encoders.outputs import Output, Reader
from protoattend.encoders.preparation import ImagePreparation, PrepareImages
from protoattend.encoders.tabular import FeatureMapping, Rescale
from protoattend.errors import UserError

AS_THEY_ARE = ImagePreparation()


def frozen(
    module: nn.Module,
    *,
    tokenizer: Tokenizer | None = None,
    output: Output = None,
    images: ImagePreparation = AS_THEY_ARE,
) -> FrozenModule:
    """Return a pre-trained module as encoder whose parameters never change.

    Parameters
    ----------
    module : nn.Module
        The pre-trained module; a copy of it is used.
    tokenizer : callable, default=None
        Reads texts: a list of str to a dict of arrays (n, L), the module's named arguments, or to an array of ids.
    output : str, int or callable, default=None
        Chooses the features where a module gives several things, by key, attribute or index; a callable takes them out
        itself. None takes `pooler_output`, else `last_hidden_state`, else `logits`, else the first tensor.
    images : ImagePreparation, default=ImagePreparation()
        What the module wants of images.

    Returns
    -------
    encoder : FrozenModule
        For `ProtoAttendClassifier(encoder=...)`.

    Raises
    ------
    UserError
        If `module` is no nn.Module, or another argument is of the wrong kind.

    Notes
    -----
    Features are computed once; the paper's mapping of pre-trained features (Appendix A, the AwA setting: one layer of
    256 with ReLU and layer normalisation) and the heads are trained on them. Maps (B, C, H, W) are averaged over their
    places and sequences (B, T, C) over the tokens of the attention mask, unless a callable gave them.

    Examples
    --------
    >>> from protoattend import ProtoAttendClassifier
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())  # stands for a pre-trained one
    >>> ProtoAttendClassifier(frozen(net, images=ImagePreparation(size=64, channels=3)))
    ProtoAttendClassifier(encoder=frozen(Sequential))
    """
    return FrozenModule(module, tokenizer, output, images)


def fine_tuned(
    module: nn.Module,
    *,
    learning_rate: float = 2e-5,
    tokenizer: Tokenizer | None = None,
    output: Output = None,
    images: ImagePreparation = AS_THEY_ARE,
) -> FineTunedModule:
    """Return a pre-trained module as encoder that is trained along at a learning rate of its own.

    Parameters
    ----------
    module : nn.Module
        The pre-trained module; a copy of it is trained.
    learning_rate : float, default=2e-5
        For the module; the schedule multiplies it and the classifier's own alike.
    tokenizer : callable, default=None
        Reads texts: a list of str to a dict of arrays (n, L), the module's named arguments, or to an array of ids.
    output : str, int or callable, default=None
        Chooses the features where a module gives several things, by key, attribute or index; a callable takes them out
        itself. None takes `pooler_output`, else `last_hidden_state`, else `logits`, else the first tensor.
    images : ImagePreparation, default=ImagePreparation()
        What the module wants of images.

    Returns
    -------
    encoder : FineTunedModule
        For `ProtoAttendClassifier(encoder=...)`.

    Raises
    ------
    UserError
        If `module` is no nn.Module, or another argument is of the wrong kind.

    Examples
    --------
    >>> from protoattend import ProtoAttendClassifier
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())  # stands for a pre-trained one
    >>> ProtoAttendClassifier(fine_tuned(net, learning_rate=1e-4))
    ProtoAttendClassifier(encoder=fine_tuned(Sequential))
    """
    return FineTunedModule(module, tokenizer, output, images, learning_rate)


@dataclass(frozen=True, eq=False, repr=False)
class Pretrained(ABC):
    """A pre-trained module and how it is read; what it becomes depends on whether it is trained."""

    module: nn.Module
    tokenizer: Tokenizer | None
    output: Output
    images: ImagePreparation
    how: ClassVar[str]

    def __repr__(self) -> str:
        return f"{self.how}({type(self.module).__name__})"

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise UserError(f"a pre-trained encoder must be an nn.Module, but got {self.module!r}; pass the module.")
        if not (self.tokenizer is None or callable(self.tokenizer)):
            raise UserError(f"tokenizer must be a callable from a list of str, but got {self.tokenizer!r}.")
        if not (self.output is None or isinstance(self.output, (str, int)) or callable(self.output)):
            raise UserError(f"output must be a name, an index or a callable, but got {self.output!r}.")

    @abstractmethod
    def encoder(self, kind: str, form: Mapping[str, Any], n_features: int) -> Encoder:
        """Return the encoder for a kind of input, around a copy of the module, which gives `n_features` features."""

    def count_features(self, kind: str, form: Mapping[str, Any], samples: Tensor) -> int:
        """Return how many features the module gives, by showing it some samples."""
        if kind == "images":
            self.images.check(samples)
        probe = nn.Sequential(*self._parts(kind, form)).eval()
        with torch.no_grad():
            features = probe(samples[:2])
        require_finite(features, str(self))
        return int(features.shape[1])

    def _parts(self, kind: str, form: Mapping[str, Any]) -> tuple[nn.Module, Reader]:
        """Return a front for this kind of input, and a reader with a copy of the module."""
        if kind == "text" and self.tokenizer is None:
            raise UserError(
                f"a pre-trained text model reads tokens, but {self!r} has no tokenizer; pass tokenizer=, a callable "
                "from a list of str to tokens (protoattend.data.characters.encode_text gives codes of characters)."
            )
        front = PrepareImages(self.images, form) if kind == "images" else plain_front(kind, form)
        return front, Reader(copy.deepcopy(self.module), self.output)


class FrozenModule(Pretrained):
    """A module whose weights never change."""

    how: ClassVar[str] = "frozen"

    def encoder(self, kind: str, form: Mapping[str, Any], n_features: int) -> Encoder:
        """Return the module as front, and as body what is trained: the paper's mapping of its features."""
        mapping = FeatureMapping(n_features)
        trained = Encoder(Rescale(n_features), mapping, nn.Identity(), mapping.out_features)
        return Encoder(Frozen(*self._parts(kind, form)), trained, nn.Identity(), mapping.out_features)


@dataclass(frozen=True, eq=False, repr=False)
class FineTunedModule(Pretrained):
    """A module that is trained along at a learning rate of its own."""

    learning_rate: float
    how: ClassVar[str] = "fine_tuned"

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = self.learning_rate
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < 10:
            raise UserError(
                f"learning_rate must be a number above 0, but got learning_rate={rate!r}; to keep the weights as they "
                "are, use frozen(module)."
            )

    def encoder(self, kind: str, form: Mapping[str, Any], n_features: int) -> Encoder:
        """Return the module as body behind its front, ending in layer normalisation like any module of a user."""
        front, reader = self._parts(kind, form)
        return Encoder(front, FineTuned(reader, self.learning_rate), nn.LayerNorm(n_features), n_features)


class Frozen(nn.Sequential):
    """A front and a reader, from samples to features `(B, F)`: always in eval mode, and nothing in it is trained."""

    def __init__(self, front: nn.Module, reader: Reader) -> None:
        super().__init__(front, reader)
        self.rows_at_once = getattr(front, "rows_at_once", ROWS_AT_ONCE)
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        return super().train(False)


class FineTuned(nn.Sequential):
    """A reader with a learning rate of its own."""

    def __init__(self, reader: Reader, learning_rate: float) -> None:
        super().__init__(reader)
        self.learning_rate = learning_rate


def require_finite(features: Tensor, whose: str, start: int = 0) -> None:
    """Raise unless all features `(B, F)` are finite, naming the first row, counted from `start`, that is not."""
    bad = ~torch.isfinite(features).all(1)
    if bad.any():
        row = start + int(bad.nonzero()[0])
        raise UserError(
            f"an encoder must give finite features, but {whose} gave NaN or infinity for row {row} of X; check its "
            "weights, and what it wants of its input (images=, tokenizer=)."
        )
