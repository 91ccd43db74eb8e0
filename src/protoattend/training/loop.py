"""The training loop: one short function that every strategy, objective and baseline goes through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protoattend.core.attention import confidence_loss, prototype_counts, sparsity_loss
from protoattend.core.mixup import Mix
from protoattend.core.model import Output, ProtoAttend, Stored
from protoattend.core.objectives import TERM_NAMES, objective
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
    """Samples `(n, ...)` with their labels `(n,)` as class numbers."""

    samples: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, rows: Tensor) -> Labelled:
        return Labelled(self.samples[rows], self.labels[rows])


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

    def targets(self, n_classes: int) -> Tensor:
        """Return the labels, or what blending makes of them."""
        return self.y if self.mix is None else self.mix.targets(self.y, n_classes)


# A loss function maps (model, batch, progress) to named terms, already weighted; their sum is minimised.
LossTerms = Callable[[ProtoAttend, Batch, float], dict[str, Tensor]]


def prototype_terms(config: TrainingConfig, strategy: Strategy, class_weight: Tensor | None = None) -> LossTerms:
    """Return the paper's loss: the objective's cross entropies and the two regularisers."""
    weights = objective(config.objective)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        draw = strategy.draw(batch.rows, batch.y, progress)
        output: Output = model(batch.x, draw.source, draw.exclude(batch.rows, batch.mix), batch.mix)
        strategy.remember(output.encoded, batch.rows, batch.y)
        targets = batch.targets(output.self_logits.shape[1])
        losses = {
            TERM_NAMES[alpha]: weight(progress) * F.cross_entropy(output.logits(alpha), targets, class_weight)
            for alpha, weight in weights.items()
        }
        return losses | _regularisers(config, output, draw, batch.y)

    return terms


def plain_terms(class_weight: Tensor | None = None) -> LossTerms:
    """Return conventional supervised learning of the same encoder: cross entropy at alpha 0, no attention."""

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        logits = model.self_logits(batch.x, batch.mix)
        return {"self": F.cross_entropy(logits, batch.targets(logits.shape[1]), class_weight)}

    return terms


def _regularisers(config: TrainingConfig, output: Output, draw: Draw, y: Tensor) -> dict[str, Tensor]:
    losses = {}
    if config.lambda_sparse:
        losses["sparse"] = config.lambda_sparse * sparsity_loss(output.weights)
    if config.lambda_conf:
        losses["conf"] = config.lambda_conf * confidence_loss(output.weights, draw.labels, y)
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
    steps_per_epoch = max(1, len(data) // config.batch_size)
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
        for rows in _batches(len(data), config.batch_size, generator):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * config.schedule.factor(step, total)
            x, y = data.samples[rows], data.labels[rows].to(device)
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
            refresh_batch_norm(model, data.samples, config.batch_size)
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


def refresh_batch_norm(model: ProtoAttend, samples: Tensor, batch_size: int) -> None:
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
    some = samples[:: max(1, len(samples) // (BATCHES_FOR_NORM * batch_size))]
    with torch.no_grad():
        for x in _chunks(model, some[: max(1, len(some) // batch_size) * batch_size], batch_size):
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
        outputs = [model(x, stored) for x in _chunks(model, validation.samples)]
        y = validation.labels
        counts = torch.cat([prototype_counts(o.weights, 0.95) for o in outputs])
        return Measures(
            n_samples=len(y),
            self_accuracy=_accuracy(torch.cat([o.self_logits for o in outputs]), y),
            prototype_accuracy=_accuracy(torch.cat([o.prototype_logits for o in outputs]), y),
            median_prototypes=float(counts.median()),
        )


def measure_plain(model: ProtoAttend, validation: Labelled) -> Measures:
    """Return the accuracy of the plain encoder, as both accuracies."""
    model.eval()
    with torch.inference_mode():
        logits = torch.cat([model.self_logits(x) for x in _chunks(model, validation.samples)])
    accuracy = _accuracy(logits, validation.labels)
    return Measures(len(validation), accuracy, accuracy, float("nan"))


def _accuracy(logits: Tensor, y: Tensor) -> float:
    return float((logits.argmax(1).cpu() == y).float().mean())


def _batches(n_rows: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the rows of each batch in random order; a last, smaller batch is left to the next epoch's shuffle."""
    order = torch.randperm(n_rows, generator=generator)
    for start in range(0, max(1, n_rows // batch_size) * batch_size, batch_size):
        yield order[start : start + batch_size]


def _chunks(model: ProtoAttend, samples: Tensor, size: int | None = None) -> Iterator[Tensor]:
    device = next(model.parameters()).device
    for chunk in samples.split(size or rows_at_once(model.encoder, device)):
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
