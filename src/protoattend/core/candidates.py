"""Where the candidates of a forward come from: functions that are passed to the model.

`in_batch` is such a function; `fresh`, `reencoded`, `stored` and `batch_and_stored` make one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from protoattend.core.attention import relational_attention
from protoattend.parallel import gather, ranks

if TYPE_CHECKING:
    from protoattend.core.model import Encoded, ProtoAttend


@dataclass(frozen=True)
class Resolved:
    """Candidates' keys `(D, d_att)` and values `(D, d_out)`; `chosen` `(D,)` says which of those offered they are."""

    keys: Tensor
    values: Tensor
    chosen: Tensor | None = None

    def narrow(self, offered: Tensor | None) -> Tensor | None:
        """Return the part of something given for every offered candidate, `(..., D)`, that concerns the chosen ones."""
        return offered if offered is None or self.chosen is None else offered[..., self.chosen]


# (model, encoded inputs, exclude, sample_weight) -> candidates; the last two are those of the model's forward.
CandidateSource = Callable[["ProtoAttend", "Encoded", Tensor | None, Tensor | None], Resolved]


def in_batch(
    model: ProtoAttend, encoded: Encoded, exclude: Tensor | None = None, sample_weight: Tensor | None = None
) -> Resolved:
    """Every sample of the batch, of all processes, is a candidate for the others; one encoder pass serves both."""
    return Resolved(gather(encoded.keys), gather(encoded.values))


def fresh(candidate_x: Tensor) -> CandidateSource:
    """Candidates given as raw samples, encoded with gradient beside the inputs (the paper's training)."""

    def resolve(model: ProtoAttend, encoded: Encoded, *_: Tensor | None) -> Resolved:
        candidates = model.encode(ranks().share(candidate_x))
        return Resolved(gather(candidates.keys), gather(candidates.values))

    return resolve


def reencoded(candidate_x: Tensor, at_once: int = 512) -> CandidateSource:
    """As `fresh`, at a third of the cost where candidates are many: gradient only through those that get any weight.

    Sparsemax gives no weight, and so no gradient, to nearly all candidates. All are encoded without gradient,
    `at_once` rows at a time; then the union of the inputs' supports once more, with it. Leaving out candidates of no
    weight changes no other weight. Batch normalisation by the statistics of a batch would encode the union
    differently than all candidates, so here it goes by its running statistics, and nothing is dropped out.
    """

    def resolve(model: ProtoAttend, encoded: Encoded, exclude: Tensor | None, sample_weight: Tensor | None) -> Resolved:
        with settled(model.encoder):
            with torch.no_grad():
                parts = ranks().share(candidate_x).split(at_once)
                weights = relational_attention(
                    encoded.queries,
                    gather(torch.cat([model.encode(part).keys for part in parts])),
                    normalize="sparsemax",
                    temperature=model.temperature,
                    exclude=exclude,
                    sample_weight=sample_weight,
                )
            chosen = weights.any(0).nonzero().squeeze(1)
            candidates = model.encode(candidate_x[chosen])
        return Resolved(candidates.keys, candidates.values, chosen)

    return resolve


def stored(keys: Tensor, values: Tensor) -> CandidateSource:
    """Candidates encoded before: the inference database, without gradient."""
    return lambda *_: Resolved(keys, values)


def batch_and_stored(keys: Tensor, values: Tensor) -> CandidateSource:
    """The batch first, then candidates of past steps without gradient (the paper's closing idea)."""

    def resolve(model: ProtoAttend, encoded: Encoded, *_: Tensor | None) -> Resolved:
        batch = in_batch(model, encoded)
        return Resolved(torch.cat([batch.keys, keys]), torch.cat([batch.values, values]))

    return resolve


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
