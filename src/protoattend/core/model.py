"""The model: an encoder, three heads, relational attention over candidates, and a linear decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from protoattend.core.attention import relational_attention
from protoattend.core.mixup import Mix
from protoattend.core.normalize import normalizer
from protoattend.parallel import gather, ranks


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


@dataclass(frozen=True)
class Resolved:
    """Candidates' keys `(D, d_att)` and values `(D, d_out)`; `chosen` `(D,)` says which of those offered they are."""

    keys: Tensor
    values: Tensor
    chosen: Tensor | None = None

    def narrow(self, offered: Tensor | None) -> Tensor | None:
        """Return the part of something given for every offered candidate, `(..., D)`, that concerns the chosen ones."""
        return offered if offered is None or self.chosen is None else offered[..., self.chosen]


class Candidates(Protocol):
    """Where the candidates of a forward come from: the strategy is what is passed in."""

    def resolve(
        self, model: ProtoAttend, encoded: Encoded, exclude: Tensor | None, candidate_weights: Tensor | None
    ) -> Resolved:
        """Return the candidates, given the encoded inputs; the last two arguments are those of `forward`."""


@dataclass(frozen=True)
class InBatch:
    """Every sample of the batch, of all processes, is a candidate for the others; one encoder pass serves both."""

    def resolve(self, model: ProtoAttend, encoded: Encoded, *_: Tensor | None) -> Resolved:
        return Resolved(gather(encoded.keys), gather(encoded.values))


@dataclass(frozen=True)
class Fresh:
    """Candidates given as raw samples, encoded with gradient beside the inputs (the paper's training)."""

    candidate_x: Tensor

    def resolve(self, model: ProtoAttend, encoded: Encoded, *_: Tensor | None) -> Resolved:
        candidates = model.encode(ranks().share(self.candidate_x))
        return Resolved(gather(candidates.keys), gather(candidates.values))


@dataclass(frozen=True)
class Reencoded:
    """As Fresh, at a third of the cost where candidates are many: gradient only through those that get any weight.

    Sparsemax gives no weight, and so no gradient, to nearly all candidates. All are encoded without gradient,
    `at_once` rows at a time; then the union of the inputs' supports once more, with it. Leaving out candidates of no
    weight changes no other weight. Batch normalisation by the statistics of a batch would encode the union
    differently than all candidates, so here it goes by its running statistics, and nothing is dropped out.
    """

    candidate_x: Tensor
    at_once: int = 512

    def resolve(
        self, model: ProtoAttend, encoded: Encoded, exclude: Tensor | None, candidate_weights: Tensor | None
    ) -> Resolved:
        with settled(model.encoder):
            with torch.no_grad():
                parts = ranks().share(self.candidate_x).split(self.at_once)
                keys = gather(torch.cat([model.encode(part).keys for part in parts]))
                weights = relational_attention(
                    encoded.queries, keys, normalize="sparsemax", exclude=exclude, candidate_weights=candidate_weights
                )
            chosen = weights.any(0).nonzero().squeeze(1)
            candidates = model.encode(self.candidate_x[chosen])
        return Resolved(candidates.keys, candidates.values, chosen)


@dataclass(frozen=True)
class Stored:
    """Candidates encoded before: the inference database, without gradient."""

    keys: Tensor
    values: Tensor

    def resolve(self, model: ProtoAttend, encoded: Encoded, *_: Tensor | None) -> Resolved:
        return Resolved(self.keys, self.values)


@dataclass(frozen=True)
class BatchAndStored:
    """The batch first, then candidates of past steps without gradient (the paper's closing idea)."""

    keys: Tensor
    values: Tensor

    def resolve(self, model: ProtoAttend, encoded: Encoded, *_: Tensor | None) -> Resolved:
        batch = InBatch().resolve(model, encoded)
        return Resolved(torch.cat([batch.keys, self.keys]), torch.cat([batch.values, self.values]))


@contextmanager
def settled(module: nn.Module) -> Iterator[None]:
    """Inside the block, what a batch norm or dropout layer does to a row depends on that row alone."""
    unsettled = [m for m in module.modules() if m.training and isinstance(m, _DEPEND_ON_THE_BATCH)]
    for m in unsettled:
        m.eval()
    try:
        yield
    finally:
        for m in unsettled:
            m.train()


_DEPEND_ON_THE_BATCH = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


class ProtoAttend(nn.Module):
    """ProtoAttend around any encoder that maps a batch to features `(B, ...)`.

    Queries and keys are one fully-connected layer with ReLU; values have layer normalisation on top; the decision
    g() is linear without bias, so that the class scores of a candidate are computed once for all inputs. Keys are then
    brought to one length, which the paper does not do: where lengths are free, the few candidates with the longest
    keys become prototypes of everything, the more so the larger the database.

    `attention_weight` is how much of the gradient that comes back through queries, keys and candidates' values reaches
    the encoder: at 1 (the paper) attention pulls the encoder away from what its own decision would have it learn. The
    heads always learn from all of it.

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
        candidates: Candidates,
        exclude: Tensor | None = None,
        mix: Mix | None = None,
        candidate_weights: Tensor | None = None,
    ) -> Output:
        """Relate inputs `(B, ...)` to candidates; `exclude` `(B, D)` is true where a candidate may not be used.

        `candidate_weights` `(D,)` is how many times each candidate counts; None is once each.
        """
        features = self._features(x, mix)
        encoded = self._for_attention(features)
        resolved = candidates.resolve(self, encoded, exclude, candidate_weights)
        weights = relational_attention(
            encoded.queries,
            resolved.keys,
            normalize=self.normalize,
            exclude=resolved.narrow(exclude),
            candidate_weights=resolved.narrow(candidate_weights),
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
