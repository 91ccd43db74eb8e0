"""Measuring a model while it learns, with batch norm as it will be at inference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from protoattend.core.attention import prototype_counts
from protoattend.core.candidates import stored
from protoattend.core.model import Output, ProtoAttend
from protoattend.data.samples import Samples, chunks, subset
from protoattend.database.judges import Judges
from protoattend.database.readings import probability_temperature
from protoattend.encoders.build import rows_at_once
from protoattend.errors import UserError
from protoattend.training.batches import Labelled
from protoattend.training.history import Metrics

VALIDATION_CANDIDATES = 2048
BATCHES_FOR_NORM = 16


def refresh_batch_norm(model: ProtoAttend, data: Labelled, batch_size: int) -> None:
    """Estimate batch-norm statistics again on pure samples: those of training are of blended and occluded ones."""
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


def evaluate_with_prototypes(model: ProtoAttend, validation: Labelled, candidates: Labelled) -> Metrics:
    """Return both accuracies and the median number of prototypes for 95 % of the decision."""
    model.eval()
    with torch.inference_mode():
        outputs = _outputs(model, validation, candidates)
        n_prototypes = torch.cat([prototype_counts(o.weights, 0.95) for o in outputs])
        return Metrics(
            n_samples=round(judges_of(validation).count),
            self_accuracy=_accuracy(torch.cat([o.self_logits for o in outputs]), validation),
            prototype_accuracy=_accuracy(torch.cat([o.prototype_logits for o in outputs]), validation),
            median_prototypes=float(n_prototypes.median()),
            dead_queries=dead_share(torch.cat([o.encoded.queries for o in outputs])),
        )


def judges_of(validation: Labelled) -> Judges:
    """Return the validation rows as those who say what is better, however large the weights of rows and classes are."""
    weights = torch.ones(len(validation)) if validation.sample_weight is None else validation.sample_weight
    if not weights.sum() > 0:
        raise UserError(
            f"held-out rows say what is chosen, but class_weight or sample_weight gives all {len(validation)} of them "
            "weight 0; pass weights above 0, or validation_fraction=0."
        )
    judges = Judges(validation.labels, weights)
    return replace(judges, weights=weights * (judges.count / weights.sum()))


def held_out_logs(model: ProtoAttend, validation: Labelled, candidates: Labelled) -> Tensor:
    """Return what prototypes among the candidates say of the validation rows `(n, C)`, at the best temperature.

    What was trained on blends gives lower probabilities, which readings make up for.
    """
    model.eval()
    with torch.inference_mode():
        return _logs(torch.cat([o.prototype_logits for o in _outputs(model, validation, candidates)]), validation)


def held_out_logs_of_own(model: ProtoAttend, validation: Labelled) -> Tensor:
    """Return what their own values say of the validation rows `(n, C)`, at the best temperature."""
    model.eval()
    with torch.inference_mode():
        return _logs(_own_logits(model, validation), validation)


def _logs(logits: Tensor, validation: Labelled) -> Tensor:
    logits = logits.cpu().double()
    return (logits / probability_temperature(logits, judges_of(validation))).log_softmax(1)


def _own_logits(model: ProtoAttend, validation: Labelled) -> Tensor:
    return torch.cat([model.self_logits(x) for x in _chunks(model, validation.samples)])


def _outputs(model: ProtoAttend, validation: Labelled, candidates: Labelled) -> list[Output]:
    parts = [model.encode(x) for x in _chunks(model, candidates.samples)]
    keys, values = torch.cat([p.keys for p in parts]), torch.cat([p.values for p in parts])
    counts = None if candidates.sample_weight is None else candidates.sample_weight.to(keys.device)
    source = stored(keys, values)
    return [model(x, source, sample_weight=counts) for x in _chunks(model, validation.samples)]


def dead_share(queries: Tensor) -> float:
    """Return the share of queries that are all zero."""
    return float((queries == 0).all(1).float().mean())


def evaluate_plain(model: ProtoAttend, validation: Labelled) -> Metrics:
    """Return the accuracy of the plain encoder, as both accuracies."""
    model.eval()
    with torch.inference_mode():
        accuracy = _accuracy(_own_logits(model, validation), validation)
    return Metrics(round(judges_of(validation).count), accuracy, accuracy, float("nan"))


def _accuracy(logits: Tensor, data: Labelled) -> float:
    correct = (logits.argmax(1).cpu() == data.labels).float()
    if data.sample_weight is None:
        return float(correct.mean())
    return min(
        1.0, float(correct @ data.sample_weight / data.sample_weight.sum())
    )  # the two sums may round differently


def _chunks(model: ProtoAttend, samples: Samples, size: int | None = None) -> Iterator[Tensor]:
    device = next(model.parameters()).device
    for chunk in chunks(samples, size or rows_at_once(model.encoder, device)):
        yield chunk.to(device)
