"""What training minimises: the objective's cross entropies and the two regularisers, or plain cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from protoattend.config import TrainingPlan
from protoattend.core.attention import agreement_loss, class_mass, confidence_loss, sparsity_loss
from protoattend.core.model import Output, ProtoAttend
from protoattend.core.objectives import SELF, TERM_NAMES, objective
from protoattend.training.batches import Batch
from protoattend.training.candidates import Candidates, Draw

# A loss function maps (model, batch, progress) to named terms, already weighted; their sum is minimised.
LossTerms = Callable[[ProtoAttend, Batch, float], dict[str, Tensor]]


def prototype_terms(
    plan: TrainingPlan,
    candidates: Candidates,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> LossTerms:
    """Return the paper's loss: the objective's cross entropies and the two regularisers.

    Towards "own" targets the self term alone learns from labels, and attention learns to decide as the input's own
    value does, so that it neither doubles nor disturbs what labels teach the encoder. Where inputs are blended, it also
    learns by `agreement_weight` when not to be confident: of a blend, as much prototype weight as there is of a label
    in it is to carry that label.
    `sample_weight` `(n,)` is how many times each training row counts, as input and as candidate; None is once each.
    """
    terms_of = objective(plan.objective)
    towards_own = plan.recipe.attention_target == "own" and SELF in terms_of
    relative = _mean_one(sample_weight)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        draw = candidates.draw(batch, progress)
        exclude = draw.exclude(batch.parents)
        if batch.mix is not None and bool(exclude.all(1).any()):
            # Among two or three rows a blend has a part in common with every candidate; a pure sample has not.
            batch = replace(batch, mix=None)
            draw = candidates.draw(batch, progress)
            exclude = draw.exclude(batch.parents)
        of_candidates, of_inputs = (
            None if relative is None else relative[rows] for rows in (draw.parents[:, 0], batch.rows)
        )
        output: Output = model(batch.x, draw.source, exclude, batch.mix, of_candidates)
        candidates.remember(output.encoded, batch)
        targets = batch.targets(output.self_logits.shape[1], of_inputs, plan.recipe.label_smoothing)
        to_labels = partial(F.cross_entropy, target=targets, weight=class_weight)
        of_attention = to_labels
        if towards_own:
            of_attention = partial(F.cross_entropy, target=_own_decision(output.self_logits, targets, class_weight))
        losses = {
            TERM_NAMES[alpha]: weight(progress) * (to_labels if alpha == SELF else of_attention)(output.logits(alpha))
            for alpha, weight in terms_of.items()
        }
        if plan.agreement_weight and towards_own and len(terms_of) > 1:
            losses["agreement"] = plan.agreement_weight * _agreement(output, draw, batch, of_inputs)
        return losses | _regularisers(plan, output, draw, batch.y, of_inputs)

    return terms


def plain_terms(
    plan: TrainingPlan, class_weight: Tensor | None = None, sample_weight: Tensor | None = None
) -> LossTerms:
    """Return conventional supervised learning of the same encoder: cross entropy at alpha 0, no attention."""
    relative = _mean_one(sample_weight)

    def terms(model: ProtoAttend, batch: Batch, progress: float) -> dict[str, Tensor]:
        logits = model.self_logits(batch.x, batch.mix)
        of_inputs = None if relative is None else relative[batch.rows]
        targets = batch.targets(logits.shape[1], of_inputs, plan.recipe.label_smoothing)
        return {"self": F.cross_entropy(logits, targets, class_weight)}

    return terms


def _own_decision(logits: Tensor, targets: Tensor, class_weight: Tensor | None) -> Tensor:
    """Return the probabilities the inputs' own values give, as targets; each counts as much as its label does.

    The weights of classes are in these probabilities already: by class, they would count twice.
    """
    own = logits.detach().softmax(1)
    labels = targets if targets.is_floating_point() else F.one_hot(targets, own.shape[1]).to(own.dtype)
    return own * (labels if class_weight is None else labels * class_weight).sum(1, keepdim=True)


def _agreement(output: Output, draw: Draw, batch: Batch, sample_weight: Tensor | None) -> Tensor:
    n_classes = output.self_logits.shape[1]
    votes = draw.votes(n_classes)
    chosen = votes if output.chosen is None else votes[output.chosen]
    mass = class_mass(output.weights, chosen.to(output.weights.dtype))
    return agreement_loss(mass, batch.votes(n_classes).to(mass.dtype), sample_weight)


def _mean_one(sample_weight: Tensor | None) -> Tensor | None:
    """Return what training goes by: it draws batches of one size, however often all rows are repeated."""
    return None if sample_weight is None else sample_weight / sample_weight.mean()


def _regularisers(
    plan: TrainingPlan, output: Output, draw: Draw, y: Tensor, sample_weight: Tensor | None
) -> dict[str, Tensor]:
    losses = {}
    if plan.lambda_sparse:
        losses["sparse"] = plan.lambda_sparse * sparsity_loss(output.weights, sample_weight)
    if plan.lambda_conf:
        labels = draw.labels if output.chosen is None else draw.labels[output.chosen]
        losses["conf"] = plan.lambda_conf * confidence_loss(output.weights, labels, y, sample_weight)
    return losses
