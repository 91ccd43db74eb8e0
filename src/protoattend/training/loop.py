"""The training loop: one short function that every strategy, objective and baseline goes through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.core.attention import confidence_loss, prototype_counts, sparsity_loss
from protoattend.core.mixup import Mix
from protoattend.core.model import Output, ProtoAttend, Stored
from protoattend.core.objectives import SELF, TERM_NAMES, objective
from protoattend.data.samples import Samples, batches, chunks, subset
from protoattend.data.weights import choose_rows
from protoattend.encoders.build import rows_at_once
from protoattend.encoders.pretrained import FineTuned
from protoattend.errors import UserError
from protoattend.training.candidates import Draw, Strategy
from protoattend.training.history import EpochRecord, History, Measures
from protoattend.training.schedule import OneCycle, Schedule

Augment = Callable[[Tensor, torch.Generator], Tensor]
VALIDATIONS = 12  # at the most in one training: more would cost time and tell little
VALIDATION_CANDIDATES = 2048
BATCHES_FOR_NORM = 16


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that steers training."""

    objective: str = "self+prototype+joint"
    attention_weight: float = 1.0
    lambda_sparse: float = 0.0
    lambda_conf: float = 0.0
    batch_size: int = 256
    max_epochs: int = 20
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.0
    mixup: float = 0.0
    schedule: Schedule = field(default_factory=OneCycle)
    clip_norm: float = 20.0


@dataclass(frozen=True)
class Labelled:
    """Samples `(n, ...)`, in memory or on disk, with their labels `(n,)` as class numbers.

    `weights` `(n,)` is how many times each row counts, `shares` `(n,)` how much of its class is kept; None is 1 each.
    """

    samples: Samples
    labels: Tensor
    weights: Tensor | None = None
    shares: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, rows: Tensor) -> Labelled:
        weights, shares = (None if part is None else part[rows] for part in (self.weights, self.shares))
        return Labelled(subset(self.samples, rows), self.labels[rows], weights, shares)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """Return the rows of one epoch in random order: all, or of each class a fresh choice of its share."""
        if self.shares is None:
            return torch.randperm(len(self), generator=generator)
        kept = choose_rows(self.labels, self.shares, generator)
        return kept[torch.randperm(len(kept), generator=generator)]

    @property
    def rows_of_an_epoch(self) -> int:
        return len(self.shuffled(torch.Generator()))


@dataclass(frozen=True)
class Step:
    """Where training stands, for a progress bar."""

    epoch: int
    step: int
    total: int
    losses: Mapping[str, float]
    measures: Measures | None


@dataclass(frozen=True)
class Batch:
    """One step's inputs `(B, ...)`, labels and rows in the training set `(B,)`, and how they are blended, if at all."""

    x: Tensor
    y: Tensor
    rows: Tensor
    mix: Mix | None

    def targets(self, n_classes: int, weights: Tensor | None = None) -> Tensor:
        """Return the labels, or what blending and the weights `(B,)` make of them."""
        if weights is None:
            return self.y if self.mix is None else self.mix.targets(self.y, n_classes)
        counted = F.one_hot(self.y, n_classes) * weights[:, None]
        return counted if self.mix is None else self.mix(counted)


# A loss function maps (model, batch, progress) to named terms, already weighted; their sum is minimised.
LossTerms = Callable[[ProtoAttend, Batch, float], dict[str, Tensor]]


def prototype_terms(
    config: TrainingConfig,
    strategy: Strategy,
    class_weight: Tensor | None = None,
    row_weights: Tensor | None = None,
) -> LossTerms:
    """Return the paper's loss: the objective's cross entropies and the two regularisers.

    Terms with alpha above 0 count `attention_weight` times. The query and key heads learn from these terms alone, and
    Adam adapts to any scale of them; what changes is how much they pull the encoder away from plain learning.
    `row_weights` `(n,)` is how many times each training row counts, as an input and as a candidate; None is once each.
    """
    weights = objective(config.objective)
    scales = {alpha: 1.0 if alpha == SELF else config.attention_weight for alpha in weights}
    relative = _mean_one(row_weights)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        draw = strategy.draw(batch.rows, batch.y, progress)
        exclude = draw.exclude(batch.rows, batch.mix)
        if batch.mix is not None and bool(exclude.all(1).any()):
            # Among two or three rows a blend has a part in common with every candidate; a pure sample has not.
            batch = replace(batch, mix=None)
            exclude = draw.exclude(batch.rows)
        counts, input_weights = (None if relative is None else relative[rows] for rows in (draw.rows, batch.rows))
        output: Output = model(batch.x, draw.source, exclude, batch.mix, counts)
        strategy.remember(output.encoded, batch.rows, batch.y)
        targets = batch.targets(output.self_logits.shape[1], input_weights)
        cross_entropy = partial(F.cross_entropy, target=targets, weight=class_weight)
        losses = {
            TERM_NAMES[alpha]: scales[alpha] * weight(progress) * cross_entropy(output.logits(alpha))
            for alpha, weight in weights.items()
        }
        return losses | _regularisers(config, output, draw, batch.y, input_weights)

    return terms


def plain_terms(class_weight: Tensor | None = None, row_weights: Tensor | None = None) -> LossTerms:
    """Return conventional supervised learning of the same encoder: cross entropy at alpha 0, no attention."""
    relative = _mean_one(row_weights)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        logits = model.self_logits(batch.x, batch.mix)
        targets = batch.targets(logits.shape[1], None if relative is None else relative[batch.rows])
        return {"self": F.cross_entropy(logits, targets, class_weight)}

    return terms


def _mean_one(weights: Tensor | None) -> Tensor | None:
    """Return the weights by which training goes: it draws batches of one size, however often all rows are repeated."""
    return None if weights is None else weights / weights.mean()


def _regularisers(
    config: TrainingConfig, output: Output, draw: Draw, y: Tensor, input_weights: Tensor | None
) -> dict[str, Tensor]:
    losses = {}
    if config.lambda_sparse:
        losses["sparse"] = config.lambda_sparse * sparsity_loss(output.weights, input_weights)
    if config.lambda_conf:
        losses["conf"] = config.lambda_conf * confidence_loss(output.weights, draw.labels, y, input_weights)
    return losses


def train(
    model: ProtoAttend,
    data: Labelled,
    config: TrainingConfig,
    *,
    loss_terms: LossTerms,
    measure: Callable[[], Measures] | None,
    generator: torch.Generator,
    augment: Augment | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
) -> History:
    """Train in place and keep the state with the best prototype accuracy where `measure` is given."""
    device = next(model.parameters()).device
    groups = parameter_groups(model, config.learning_rate)
    optimizer = torch.optim.Adam(groups, weight_decay=config.weight_decay, fused=True)
    rates = [group["lr"] for group in groups]
    steps_per_epoch = max(1, data.rows_of_an_epoch // config.batch_size)
    total = steps_per_epoch * config.max_epochs
    every = -(-config.max_epochs // VALIDATIONS)
    records: list[EpochRecord] = []
    best_accuracy, best_epoch, best_state = 0.0, config.max_epochs - 1, None
    step = 0
    latest: Measures | None = None
    for epoch in range(config.max_epochs):
        started = time.perf_counter()
        sums: dict[str, Tensor] = {}
        model.train()
        for rows, x in batches(data.samples, _batches(data, config.batch_size, generator)):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * config.schedule.factor(step, total)
            y = data.labels[rows].to(device)
            x = (x if augment is None else augment(x, generator)).to(device)
            mix = Mix.draw(len(rows), config.mixup, generator).to(device) if config.mixup else None
            terms = loss_terms(model, Batch(x, y, rows.to(device), mix), step / total)
            loss = torch.stack(list(terms.values())).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            _require_finite(terms, norm, step)
            optimizer.step()
            sums = {name: sums.get(name, 0.0) + term.detach() for name, term in terms.items()}
            step += 1
            on_step(Step(epoch, step, total, _means(terms, 1), latest))
        look = epoch == config.max_epochs - 1 or epoch % every == every - 1
        if look:
            refresh_batch_norm(model, data, config.batch_size)
        measures = measure() if measure is not None and look else None
        records.append(EpochRecord(epoch, time.perf_counter() - started, _means(sums, steps_per_epoch), measures))
        if measures is not None:
            latest = measures
            best_accuracy = max(best_accuracy, measures.prototype_accuracy)
            if measures.good_enough(best_accuracy):
                best_epoch, best_state = epoch, _copy_of_state(model)
    if best_state is not None:
        model.load_state_dict(best_state)
    model.eval()
    return History(tuple(records), best_epoch)


def parameter_groups(model: nn.Module, learning_rate: float) -> list[dict[str, Any]]:
    """Return what an optimizer trains at which rate: fine-tuned modules at their own, all else at `learning_rate`."""
    tuned = [module for module in model.modules() if isinstance(module, FineTuned)]
    apart = {parameter for module in tuned for parameter in module.parameters()}
    common = [parameter for parameter in model.parameters() if parameter not in apart]
    own = [{"params": list(module.parameters()), "lr": module.learning_rate} for module in tuned]
    return [{"params": common, "lr": learning_rate}, *own]


def refresh_batch_norm(model: ProtoAttend, data: Labelled, batch_size: int) -> None:
    """Estimate batch-norm statistics anew on pure samples: those of training are of blended and occluded ones."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    model.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over the batches
        norm.train()
    if data.shares is None:
        some = subset(data.samples, slice(None, None, max(1, len(data) // (BATCHES_FOR_NORM * batch_size))))
    else:
        drawn = data.shuffled(torch.Generator().manual_seed(0))
        some = subset(data.samples, drawn[: BATCHES_FOR_NORM * batch_size])
    whole = slice(max(1, len(some) // batch_size) * batch_size)
    with torch.no_grad():
        for x in _chunks(model, subset(some, whole), batch_size):
            model.encoder(x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()


def measure_with_prototypes(model: ProtoAttend, validation: Labelled, candidates: Labelled) -> Measures:
    """Return both accuracies and the median number of prototypes for 95 % of the decision."""
    model.eval()
    with torch.inference_mode():
        parts = [model.encode(x) for x in _chunks(model, candidates.samples)]
        stored = Stored(torch.cat([p.keys for p in parts]), torch.cat([p.values for p in parts]))
        weights = None if candidates.weights is None else candidates.weights.to(stored.keys.device)
        outputs = [model(x, stored, candidate_weights=weights) for x in _chunks(model, validation.samples)]
        counts = torch.cat([prototype_counts(o.weights, 0.95) for o in outputs])
        return Measures(
            n_samples=_effective_count(validation),
            self_accuracy=_accuracy(torch.cat([o.self_logits for o in outputs]), validation),
            prototype_accuracy=_accuracy(torch.cat([o.prototype_logits for o in outputs]), validation),
            median_prototypes=float(counts.median()),
        )


def measure_plain(model: ProtoAttend, validation: Labelled) -> Measures:
    """Return the accuracy of the plain encoder, as both accuracies."""
    model.eval()
    with torch.inference_mode():
        logits = torch.cat([model.self_logits(x) for x in _chunks(model, validation.samples)])
    accuracy = _accuracy(logits, validation)
    return Measures(_effective_count(validation), accuracy, accuracy, float("nan"))


def _accuracy(logits: Tensor, data: Labelled) -> float:
    correct = (logits.argmax(1).cpu() == data.labels).float()
    if data.weights is None:
        return float(correct.mean())
    return min(1.0, float(correct @ data.weights / data.weights.sum()))  # the two sums may round differently


def _effective_count(data: Labelled) -> int:
    """Return how many equally weighted samples would give an accuracy with the same standard error (Kish)."""
    if data.weights is None:
        return len(data)
    return round(float(data.weights.sum() ** 2 / data.weights.square().sum()))


def _batches(data: Labelled, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the rows of each batch in random order; a last, smaller batch is left to the next epoch's shuffle."""
    order = data.shuffled(generator)
    for start in range(0, max(1, len(order) // batch_size) * batch_size, batch_size):
        yield order[start : start + batch_size]


def _chunks(model: ProtoAttend, samples: Samples, size: int | None = None) -> Iterator[Tensor]:
    device = next(model.parameters()).device
    for chunk in chunks(samples, size or rows_at_once(model.encoder, device)):
        yield chunk.to(device)


def _means(sums: Mapping[str, Tensor], count: int) -> dict[str, float]:
    return {name: float(value.detach()) / count for name, value in sums.items()}


def _copy_of_state(model: ProtoAttend) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _require_finite(terms: Mapping[str, Tensor], norm: Tensor, step: int) -> None:
    if bool(torch.isfinite(norm)):
        return
    broken = [name for name, term in terms.items() if not bool(torch.isfinite(term))] or ["gradient"]
    raise UserError(
        f"the loss must stay finite, but its {' and '.join(broken)} became NaN or infinite at step {step}; "
        "lower learning_rate, or look for extreme values in X."
    )
