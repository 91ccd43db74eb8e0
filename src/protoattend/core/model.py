"""The model: an encoder, three heads, relational attention over candidates, and a linear decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from protoattend.core.attention import relational_attention
from protoattend.core.candidates import CandidateSource
from protoattend.core.likeness import Likeness
from protoattend.core.mixup import Mix
from protoattend.core.normalize import normalizer
from protoattend.errors import UserError

KEY_LAYERS_OF_THE_PAPER = 2  # a fully-connected layer and ReLU; the third brings keys to one length


@dataclass(frozen=True)
class Encoded:
    """What the heads give for a batch: queries and keys `(B, d_att)`, values `(B, d_out)`."""

    queries: Tensor
    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Output:
    """One forward: weights `(B, D)`, the mixture `(B, d_out)` and the logits at every alpha.

    `chosen` `(D,)` says which of the offered candidates the weights are of; None is all.
    """

    encoded: Encoded
    weights: Tensor
    chosen: Tensor | None
    mixture: Tensor
    self_logits: Tensor
    prototype_logits: Tensor

    def logits(self, alpha: float) -> Tensor:
        """Return y_hat(alpha) of eq. 2. The decision is linear, so it is the convex combination of the ends."""
        return (1 - alpha) * self.self_logits + alpha * self.prototype_logits

    @property
    def joint_logits(self) -> Tensor:
        return self.logits(0.5)


class ProtoAttend(nn.Module):
    """ProtoAttend around any encoder: queries, keys and values, attention over candidates, and a linear decision.

    Parameters
    ----------
    encoder : nn.Module
        Maps a batch to features (B, ...), which are flattened.
    n_classes : int
        Number of classes C.
    in_features : int, default=None
        Number of features of the encoder; None takes `encoder.out_features`.
    d_att : int, default=16
        Width of queries and keys.
    d_out : int, default=64
        Width of values.
    normalize : {"sparsemax", "softmax"}, default="sparsemax"
        n() of eq. 1.
    attention_weight : float, default=1.0
        How much of the gradient that comes back through queries, keys and candidates' values reaches the encoder. At 1
        (the paper) attention pulls the encoder away from what its own decision would have it learn. The heads always
        learn from all of it.
    precision : {"float32", "bfloat16"}, default="float32"
        What the encoder computes in while it trains.

    Attributes
    ----------
    temperature : Tensor of shape ()
        Scale of the scores, 1 in training. The lower it is, the fewer prototypes decide; their order stays.

    Raises
    ------
    UserError
        If `normalize` is none of the two.

    Notes
    -----
    Weights are p_i = n(K q_i / (sqrt(d_att) temperature)) (eq. 1), and the decision is
    y_hat_i(alpha) = g((1 - alpha) v_i + alpha sum_j p_ij v_j) (eq. 2).

    Queries and keys are one fully-connected layer with ReLU; values have layer normalisation on top; g is linear
    without bias, so that the class scores of a candidate are computed once for all inputs. Keys are then brought to one
    length, which the paper does not do: where lengths are free, the few candidates with the longest keys become
    prototypes of everything, the more so the larger the database. `free_keys()` leaves them as they are.

    Examples
    --------
    >>> from protoattend.core.candidates import in_batch
    >>> model = ProtoAttend(nn.Flatten(), n_classes=3, in_features=8)
    >>> x = torch.randn(5, 8)
    >>> model(x, in_batch, exclude=torch.eye(5, dtype=torch.bool)).prototype_logits.shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        encoder: nn.Module,
        n_classes: int,
        *,
        in_features: int | None = None,
        d_att: int = 16,
        d_out: int = 64,
        normalize: str = "sparsemax",
        attention_weight: float = 1.0,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        normalizer(normalize)  # an unknown name fails here rather than at the first step
        width = _out_features(encoder) if in_features is None else in_features
        self.encoder = encoder
        self.normalize = normalize
        self.d_att = d_att  # numbers of queries and keys that are learned; those of likeness come behind them
        self.attention_weight = attention_weight
        self.precision: torch.dtype = getattr(torch, precision)
        self.query = nn.Sequential(nn.Linear(width, d_att), nn.ReLU())
        self.key = nn.Sequential(nn.Linear(width, d_att), nn.ReLU(), nn.RMSNorm(d_att, elementwise_affine=False))
        self.value = nn.Sequential(nn.Linear(width, d_out), nn.ReLU(), nn.LayerNorm(d_out))
        self.decision = nn.Linear(d_out, n_classes, bias=False)
        self.temperature: Tensor
        self.register_buffer("temperature", torch.ones(()))
        self.likeness: Likeness | None = None

    def free_keys(self) -> None:
        """Leave keys the lengths they have, as the paper does."""
        self.key = nn.Sequential(*list(self.key)[:KEY_LAYERS_OF_THE_PAPER])

    def encode(self, x: Tensor, mix: Mix | None = None) -> Encoded:
        """Return queries, keys and values of a batch: the encoder that inputs and candidates share.

        Parameters
        ----------
        x : Tensor of shape (B, ...)
            Inputs.
        mix : Mix, default=None
            Blends inputs in pairs, in training.

        Returns
        -------
        encoded : Encoded
            queries and keys (B, d_att), values (B, d_out).

        Examples
        --------
        >>> model = ProtoAttend(nn.Flatten(), n_classes=3, in_features=8)
        >>> model.encode(torch.randn(5, 8)).values.shape
        torch.Size([5, 64])
        """
        return self._with_likeness(self._for_attention(self.features(x, mix)), x)

    def self_logits(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        """Return y_hat(0) of eq. 2: the plain classifier, without attention.

        Parameters
        ----------
        x : Tensor of shape (B, ...)
            Inputs.
        mix : Mix, default=None
            Blends inputs in pairs, in training.

        Returns
        -------
        logits : Tensor of shape (B, n_classes)

        Examples
        --------
        >>> ProtoAttend(nn.Flatten(), n_classes=3, in_features=8).self_logits(torch.randn(5, 8)).shape
        torch.Size([5, 3])
        """
        return self.decision(self.value(self.features(x, mix)))

    def _for_attention(self, features: Tensor) -> Encoded:
        # Between equal ends lerp is exactly the identity; only its gradient is scaled.
        features = torch.lerp(features.detach(), features, self.attention_weight)
        return Encoded(self.query(features), self.key(features), self.value(features))

    def _with_likeness(self, encoded: Encoded, x: Tensor) -> Encoded:
        """Let queries and keys carry the likeness of inputs, which is no part of training."""
        if self.likeness is None or self.training:
            return encoded
        of_queries, of_keys = self.likeness(self.sketch(x))
        queries, keys = torch.cat([encoded.queries, of_queries], dim=1), torch.cat([encoded.keys, of_keys], dim=1)
        return Encoded(queries, keys, encoded.values)

    def sketch(self, x: Tensor) -> Tensor:
        """Return the sketches that likeness compares; with test-time augmentation, their mean over changed copies."""
        assert self.likeness is not None
        augmentation: Any = getattr(self.encoder, "test_time_augmentation", ())
        if len(augmentation) <= 1:
            return cast(Tensor, self.likeness.sketch(x))
        sketches = [self.likeness.sketch(changed) for changed in augmentation.of(x)]
        return torch.stack(sketches).mean(0)

    def features(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        """Return what the encoder makes of a batch `(B, in_features)`: what the heads read."""
        # The encoder, nearly all of the work, may train in bfloat16; attention and decision stay exact.
        low = self.training and self.precision is not torch.float32
        with torch.autocast(x.device.type, self.precision, enabled=low):
            features = self.encoder(x) if mix is None else self.encoder(x, mix)
        return features.flatten(1).to(self.decision.weight.dtype)

    def forward(
        self,
        x: Tensor,
        candidates: CandidateSource,
        exclude: Tensor | None = None,
        mix: Mix | None = None,
        sample_weight: Tensor | None = None,
    ) -> Output:
        """Relate inputs to candidates.

        Parameters
        ----------
        x : Tensor of shape (B, ...)
            Inputs.
        candidates : callable
            Where the D candidates come from: `core.candidates.in_batch`, `fresh(candidate_x)` and others.
        exclude : Tensor of bool of shape (B, D), default=None
            True where a candidate may not be used, as an input for itself.
        mix : Mix, default=None
            Blends inputs in pairs, in training.
        sample_weight : Tensor of shape (D,), default=None
            How many times each candidate counts; None is once each.

        Returns
        -------
        output : Output
            weights (B, D), mixture (B, d_out), self_logits and prototype_logits (B, n_classes), and `logits(alpha)`.

        Examples
        --------
        >>> from protoattend.core.candidates import fresh
        >>> model = ProtoAttend(nn.Flatten(), n_classes=3, in_features=8)
        >>> model(torch.randn(5, 8), fresh(torch.randn(20, 8))).weights.shape
        torch.Size([5, 20])
        """
        features = self.features(x, mix)
        encoded = self._with_likeness(self._for_attention(features), x)
        resolved = candidates(self, encoded, exclude, sample_weight)
        weights = relational_attention(
            encoded.queries,
            resolved.keys,
            normalize=self.normalize,
            temperature=self.temperature,
            exclude=resolved.narrow(exclude),
            sample_weight=resolved.narrow(sample_weight),
        )
        mixture = weights @ resolved.values
        return Output(
            encoded=encoded,
            weights=weights,
            chosen=resolved.chosen,
            mixture=mixture,
            self_logits=self.decision(self.value(features)),
            prototype_logits=self.decision(mixture),
        )


def _out_features(encoder: nn.Module) -> int:
    width = getattr(encoder, "out_features", None)
    if not isinstance(width, int):
        raise UserError(
            f"the heads must know how many features the encoder gives, but {type(encoder).__name__} has no "
            "out_features; pass in_features=..., the width of its output."
        )
    return width
