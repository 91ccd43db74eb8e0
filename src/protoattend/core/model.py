"""The model: an encoder, three heads, relational attention over candidates, and a linear decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from protoattend.core.attention import relational_attention
from protoattend.core.mixup import Mix
from protoattend.core.normalize import normalizer


@dataclass(frozen=True)
class Encoded:
    """What the heads give for a batch: queries and keys `(B, d_att)`, values `(B, d_out)`."""

    queries: Tensor
    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Output:
    """One forward: weights `(B, D)`, the mixture `(B, d_out)` and the logits at every alpha."""

    encoded: Encoded
    weights: Tensor
    mixture: Tensor
    self_logits: Tensor
    prototype_logits: Tensor

    def logits(self, alpha: float) -> Tensor:
        """Return y_hat(alpha) of eq. 2. The decision is linear, so it is the convex combination of the ends."""
        return (1 - alpha) * self.self_logits + alpha * self.prototype_logits

    @property
    def joint_logits(self) -> Tensor:
        return self.logits(0.5)


class Candidates(Protocol):
    """Where the candidates of a forward come from: the strategy is what is passed in."""

    def resolve(self, model: ProtoAttend, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """Return the candidates' keys `(D, d_att)` and values `(D, d_out)`, given the encoded inputs."""


@dataclass(frozen=True)
class InBatch:
    """Every sample of the batch is a candidate for the others; one encoder pass serves both sides."""

    def resolve(self, model: ProtoAttend, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return encoded.keys, encoded.values


@dataclass(frozen=True)
class Fresh:
    """Candidates given as raw samples, encoded with gradient beside the inputs (the paper's training)."""

    candidate_x: Tensor

    def resolve(self, model: ProtoAttend, encoded: Encoded) -> tuple[Tensor, Tensor]:
        candidates = model.encode(self.candidate_x)
        return candidates.keys, candidates.values


@dataclass(frozen=True)
class Stored:
    """Candidates encoded before: the inference database, without gradient."""

    keys: Tensor
    values: Tensor

    def resolve(self, model: ProtoAttend, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return self.keys, self.values


@dataclass(frozen=True)
class BatchAndStored:
    """The batch first, then candidates of past steps without gradient (the paper's closing idea)."""

    keys: Tensor
    values: Tensor

    def resolve(self, model: ProtoAttend, encoded: Encoded) -> tuple[Tensor, Tensor]:
        return torch.cat([encoded.keys, self.keys]), torch.cat([encoded.values, self.values])


class ProtoAttend(nn.Module):
    """ProtoAttend around any encoder that maps a batch to features `(B, ...)`.

    Queries and keys are one fully-connected layer with ReLU; values have layer normalisation on top; the decision
    g() is linear without bias, so that the class scores of a candidate are computed once for all inputs.

    >>> model = ProtoAttend(nn.Flatten(), n_classes=3, in_features=8)
    >>> x = torch.randn(5, 8)
    >>> model(x, InBatch(), exclude=torch.eye(5, dtype=torch.bool)).prototype_logits.shape
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
    ) -> None:
        super().__init__()
        normalizer(normalize)  # an unknown name fails here rather than at the first step
        width = in_features if in_features is not None else int(encoder.out_features)  # type: ignore[arg-type]
        self.encoder = encoder
        self.normalize = normalize
        self.query = nn.Sequential(nn.Linear(width, d_att), nn.ReLU())
        self.key = nn.Sequential(nn.Linear(width, d_att), nn.ReLU())
        self.value = nn.Sequential(nn.Linear(width, d_out), nn.ReLU(), nn.LayerNorm(d_out))
        self.decision = nn.Linear(d_out, n_classes, bias=False)

    def encode(self, x: Tensor, mix: Mix | None = None) -> Encoded:
        """Return queries, keys and values of a batch: the shared encoder of inputs and candidates."""
        features = self._features(x, mix)
        return Encoded(self.query(features), self.key(features), self.value(features))

    def self_logits(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        """Return y_hat(0): the plain classifier, without attention."""
        return self.decision(self.value(self._features(x, mix)))

    def _features(self, x: Tensor, mix: Mix | None) -> Tensor:
        features = self.encoder(x) if mix is None else self.encoder(x, mix)
        return features.flatten(1)

    def forward(
        self,
        x: Tensor,
        candidates: Candidates,
        exclude: Tensor | None = None,
        mix: Mix | None = None,
        candidate_weights: Tensor | None = None,
    ) -> Output:
        """Relate inputs `(B, ...)` to candidates; `exclude` `(B, D)` is true where a candidate may not be used.

        `candidate_weights` `(D,)` is how many times each candidate counts; None is once each.
        """
        encoded = self.encode(x, mix)
        keys, values = candidates.resolve(self, encoded)
        weights = relational_attention(
            encoded.queries, keys, normalize=self.normalize, exclude=exclude, candidate_weights=candidate_weights
        )
        mixture = weights @ values
        return Output(
            encoded=encoded,
            weights=weights,
            mixture=mixture,
            self_logits=self.decision(encoded.values),
            prototype_logits=self.decision(mixture),
        )
