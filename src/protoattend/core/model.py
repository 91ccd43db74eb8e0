"""The model: an encoder, three heads, relational attention over candidates, and a linear decision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from protoattend.core.attention import relational_attention
from protoattend.core.candidates import CandidateSource
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
    """ProtoAttend around any encoder that maps a batch to features `(B, ...)`.

    Queries and keys are one fully-connected layer with ReLU; values have layer normalisation on top; the decision
    g() is linear without bias, so that the class scores of a candidate are computed once for all inputs. Keys are then
    brought to one length, which the paper does not do: where lengths are free, the few candidates with the longest
    keys become prototypes of everything, the more so the larger the database.

    `attention_weight` is how much of the gradient that comes back through queries, keys and candidates' values reaches
    the encoder: at 1 (the paper) attention pulls the encoder away from what its own decision would have it learn. The
    heads always learn from all of it.

    `temperature` is a number of the model, 1 in training: scores are K q / (sqrt(d_att) temperature). The lower it is,
    the fewer prototypes decide; their order stays.

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
    ) -> None:
        super().__init__()
        normalizer(normalize)  # an unknown name fails here rather than at the first step
        width = in_features if in_features is not None else int(encoder.out_features)  # type: ignore[arg-type]
        self.encoder = encoder
        self.normalize = normalize
        self.attention_weight = attention_weight
        self.query = nn.Sequential(nn.Linear(width, d_att), nn.ReLU())
        self.key = nn.Sequential(nn.Linear(width, d_att), nn.ReLU(), nn.RMSNorm(d_att, elementwise_affine=False))
        self.value = nn.Sequential(nn.Linear(width, d_out), nn.ReLU(), nn.LayerNorm(d_out))
        self.decision = nn.Linear(d_out, n_classes, bias=False)
        self.temperature: Tensor
        self.register_buffer("temperature", torch.ones(()))

    def encode(self, x: Tensor, mix: Mix | None = None) -> Encoded:
        """Return queries, keys and values of a batch: the shared encoder of inputs and candidates."""
        return self._for_attention(self._features(x, mix))

    def self_logits(self, x: Tensor, mix: Mix | None = None) -> Tensor:
        """Return y_hat(0): the plain classifier, without attention."""
        return self.decision(self.value(self._features(x, mix)))

    def _for_attention(self, features: Tensor) -> Encoded:
        # Between equal ends lerp is exactly the identity; only its gradient is scaled.
        features = torch.lerp(features.detach(), features, self.attention_weight)
        return Encoded(self.query(features), self.key(features), self.value(features))

    def _features(self, x: Tensor, mix: Mix | None) -> Tensor:
        # On a GPU the encoder, nearly all of the work, trains in bfloat16; attention and decision stay exact.
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.training and x.is_cuda):
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
        """Relate inputs `(B, ...)` to candidates; `exclude` `(B, D)` is true where a candidate may not be used.

        `sample_weight` `(D,)` is how many times each candidate counts; None is once each.
        """
        features = self._features(x, mix)
        encoded = self._for_attention(features)
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
