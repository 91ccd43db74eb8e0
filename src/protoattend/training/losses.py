"""What training minimises: the objective's cross entropies and the two regularisers, or plain cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from protoattend.config import TrainingPlan
from protoattend.core.attention import agreement_loss, confidence_loss, sparsity_loss
from protoattend.core.model import Output, ProtoAttend
from protoattend.core.objectives import SELF, TERM_NAMES, objective
from protoattend.training.batches import Batch
from protoattend.training.candidates import Draw, Strategy

# A loss function maps (model, batch, progress) to named terms, already weighted; their sum is minimised.
LossTerms = Callable[[ProtoAttend, Batch, float], dict[str, Tensor]]


def prototype_terms(
    plan: TrainingPlan,
    strategy: Strategy,
    class_weight: Tensor | None = None,
    row_weights: Tensor | None = None,
) -> LossTerms:
    """Return the paper's loss: the objective's cross entropies and the two regularisers.

    Towards "own" targets the self term alone learns from labels, and attention learns to decide as the input's own
    value does, so that it neither doubles nor disturbs what labels teach the encoder. Where inputs are blended, it also
    learns doubt by `agreement_weight`: of a blend, as much prototype weight as there is of a label in it is to carry
    that label.
    `row_weights` `(n,)` is how many times each training row counts, as an input and as a candidate; None is once each.
    """
    weights = objective(plan.objective)
    towards_own = plan.recipe.attention_target == "own" and SELF in weights
    relative = _mean_one(row_weights)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        draw = strategy.draw(batch, progress)
        exclude = draw.exclude(batch.parents)
        if batch.mix is not None and bool(exclude.all(1).any()):
            # Among two or three rows a blend has a part in common with every candidate; a pure sample has not.
            batch = replace(batch, mix=None)
            draw = strategy.draw(batch, progress)
            exclude = draw.exclude(batch.parents)
        counts, input_weights = (
            None if relative is None else relative[rows] for rows in (draw.parents[:, 0], batch.rows)
        )
        output: Output = model(batch.x, draw.source, exclude, batch.mix, counts)
        strategy.remember(output.encoded, batch)
        targets = batch.targets(output.self_logits.shape[1], input_weights, plan.recipe.label_smoothing)
        to_labels = partial(F.cross_entropy, target=targets, weight=class_weight)
        of_attention = to_labels
        if towards_own:
            of_attention = partial(F.cross_entropy, target=_own_decision(output.self_logits, targets, class_weight))
        losses = {
            TERM_NAMES[alpha]: weight(progress) * (to_labels if alpha == SELF else of_attention)(output.logits(alpha))
            for alpha, weight in weights.items()
        }
        if plan.agreement_weight and towards_own and len(weights) > 1:
            losses["agreement"] = plan.agreement_weight * _agreement(output, draw, batch, input_weights)
        return losses | _regularisers(plan, output, draw, batch.y, input_weights)

    return terms


def plain_terms(plan: TrainingPlan, class_weight: Tensor | None = None, row_weights: Tensor | None = None) -> LossTerms:
    """Return conventional supervised learning of the same encoder: cross entropy at alpha 0, no attention."""
    relative = _mean_one(row_weights)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        logits = model.self_logits(batch.x, batch.mix)
        input_weights = None if relative is None else relative[batch.rows]
        targets = batch.targets(logits.shape[1], input_weights, plan.recipe.label_smoothing)
        return {"self": F.cross_entropy(logits, targets, class_weight)}

    return terms


def _own_decision(logits: Tensor, targets: Tensor, class_weight: Tensor | None) -> Tensor:
    """Return the probabilities the inputs' own values give, as targets; each counts as much as its label does.

    The weights of classes are in these probabilities already: by class, they would count twice.
    """
    own = logits.detach().softmax(1)
    labels = targets if targets.is_floating_point() else F.one_hot(targets, own.shape[1]).to(own.dtype)
    return own * (labels if class_weight is None else labels * class_weight).sum(1, keepdim=True)


def _agreement(output: Output, draw: Draw, batch: Batch, input_weights: Tensor | None) -> Tensor:
    n_classes = output.self_logits.shape[1]
    votes = draw.votes(n_classes)
    mass = output.weights @ (votes if output.chosen is None else votes[output.chosen]).to(output.weights.dtype)
    return agreement_loss(mass, batch.votes(n_classes).to(mass.dtype), input_weights)


def _mean_one(weights: Tensor | None) -> Tensor | None:
    """Return the weights by which training goes: it draws batches of one size, however often all rows are repeated."""
    return None if weights is None else weights / weights.mean()


def _regularisers(
    plan: TrainingPlan, output: Output, draw: Draw, y: Tensor, input_weights: Tensor | None
) -> dict[str, Tensor]:
    losses = {}
    if plan.lambda_sparse:
        losses["sparse"] = plan.lambda_sparse * sparsity_loss(output.weights, input_weights)
    if plan.lambda_conf:
        labels = draw.labels if output.chosen is None else draw.labels[output.chosen]
        losses["conf"] = plan.lambda_conf * confidence_loss(output.weights, labels, y, input_weights)
    return losses
