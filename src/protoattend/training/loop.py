"""The training loop: one short function that every strategy, objective and baseline goes through."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from protoattend.config import TrainingPlan
from protoattend.core.model import ProtoAttend
from protoattend.data.samples import batches
from protoattend.errors import BadFile, UserError
from protoattend.parallel import gather, ranks
from protoattend.training.batches import Augment, Batch, Labelled, epoch_batches, make_batch, seed_of_dropout
from protoattend.training.checkpoint import Checkpointer, NoCheckpointer
from protoattend.training.evaluation import refresh_batch_norm
from protoattend.training.history import EpochRecord, History, Metrics
from protoattend.training.losses import LossTerms
from protoattend.training.optimizers import make_optimizers
from protoattend.training.state import TrainingState

VALIDATIONS = 12  # at the most in one training: more would cost time and tell little
DEAD = 0.5  # share of all-zero queries above which something is wrong


@dataclass(frozen=True)
class Step:
    """Where training stands, for a progress bar."""

    epoch: int
    step: int
    total: int
    losses: Mapping[str, float]
    metrics: Metrics | None


def train(
    model: ProtoAttend,
    data: Labelled,
    plan: TrainingPlan,
    *,
    loss_terms: LossTerms,
    evaluate: Callable[[], Metrics] | None,
    seed: int,
    augment: Augment | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    checkpointer: Checkpointer = NoCheckpointer(),  # noqa: B008 - it has no state
) -> History:
    """Train in place and keep the state with the best prototype accuracy where `evaluate` is given.

    With several processes (`ranks`), each takes its share of every batch, and all end with the same weights.
    """
    device, who = next(model.parameters()).device, ranks()
    optimizers = make_optimizers(model, plan)
    batch_size = who.divisible(plan.batch_size, "batch_size")
    steps_per_epoch = max(1, data.rows_of_an_epoch // batch_size)
    total = steps_per_epoch * plan.max_epochs
    every = -(-plan.max_epochs // VALIDATIONS)
    state = TrainingState(model, optimizers)
    checkpointer.restore(state)
    if state.step > total:
        raise BadFile(f"a checkpoint must be of one of {total} steps, but it is of step {state.step}; start afresh.")
    losses = _together(_Losses(model, loss_terms))
    for epoch in range(state.step // steps_per_epoch, plan.max_epochs):
        # Asked here rather than after an epoch: a checkpoint may be of a training that was to end.
        if plan.recipe.patience is not None and state.validations_since_best >= plan.recipe.patience:
            break
        model.train()
        state.resume_clock()
        order = epoch_batches(data, batch_size, seed=seed, epoch=epoch)[state.step % steps_per_epoch :]
        for rows, x in batches(data.samples, [who.share(rows) for rows in order]):
            optimizers.scale(plan.recipe.schedule.factor(state.step, total))
            batch = make_batch(
                rows, x, data, mixup=plan.recipe.mixup, augment=augment, seed=seed, step=state.step, ranks=who
            ).to(device)
            _seed(device, seed_of_dropout(seed, state.step, who))
            optimizers.zero_grad()
            try:
                values = _step(losses, batch, state.step / total, plan.recipe.clip_norm)
            except UserError as error:
                raise UserError(f"at step {state.step}: {error}{checkpointer.before_giving_up()}") from None
            optimizers.step()
            state.count_step(values)
            on_step(Step(epoch, state.step, total, values, state.latest))
            if state.step % steps_per_epoch:
                checkpointer.after_step(state)
        seconds = state.seconds()  # of the steps: what validation costs is not the training's
        last = epoch == plan.max_epochs - 1
        look = evaluate is not None and (last or epoch % every == every - 1)
        if look or last:
            refresh_batch_norm(model, data, batch_size)
        metrics = evaluate() if evaluate is not None and look else None
        state.end_epoch(EpochRecord(epoch, seconds, _means(state.sums, steps_per_epoch), metrics))
        checkpointer.after_epoch(state)
        if metrics is not None:
            watch_queries(metrics.dead_queries)
    return state.finish()


def _seed(device: torch.device, number: int) -> None:
    """Seed what dropout draws from; torch.manual_seed turns to every kind of device, at a tenth of a small step."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(number)
    else:
        torch.manual_seed(number)


class _Losses(nn.Module):
    """The loss terms as a module, so that DistributedDataParallel can stand around the whole step."""

    def __init__(self, model: ProtoAttend, terms: LossTerms) -> None:
        super().__init__()
        self.model = model
        self.terms = terms

    def forward(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        return self.terms(self.model, batch, progress)


def _together(losses: _Losses) -> nn.Module:
    """Average the gradients of all processes, where there are several."""
    # Which parameters take part never changes in a training; the plain encoder leaves the attention heads out.
    return losses if ranks().size == 1 else DistributedDataParallel(losses, static_graph=True)


def _step(losses: nn.Module, batch: Batch, progress: float, clip_norm: float) -> dict[str, float]:
    """Compute the gradient and return the loss terms; what is not finite stops here, before it spoils the weights."""
    terms: dict[str, Tensor] = losses(batch, progress)
    torch.stack(list(terms.values())).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(losses.parameters(), clip_norm)
    *values, total = torch.stack([*(term.detach() for term in terms.values()), norm]).tolist()  # one wait for a GPU
    if math.isfinite(total):
        return dict(zip(terms, values, strict=True))
    broken = [name for name, value in zip(terms, values, strict=True) if not math.isfinite(value)] or ["gradient"]
    raise UserError(
        f"the loss must stay finite, but its {' and '.join(broken)} became NaN or infinite; lower learning_rate, or "
        "look for extreme values in X."
    )


def watch_queries(dead: float) -> None:
    """Warn where too large a share of the queries is dead."""
    if dead > DEAD:
        warnings.warn(
            f"{dead:.0%} of the queries are all zero (dead ReLUs), so those inputs get every "
            "candidate with equal weight; lower learning_rate, or train with candidates='in-batch'.",
            stacklevel=2,
        )


def _means(sums: Mapping[str, float], count: int) -> dict[str, float]:
    """Return each term's mean over the steps of an epoch and over the processes."""
    means = torch.tensor([value / count for value in sums.values()], dtype=torch.float64)
    everyone = gather(means[None]).mean(0).tolist()
    return dict(zip(sums, everyone, strict=True))
