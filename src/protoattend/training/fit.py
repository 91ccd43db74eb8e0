"""What `fit` does: from parameters and data to a trained model, and on to its database, in one process or many."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from protoattend.core.model import ProtoAttend
from protoattend.core.objectives import SELF, objective
from protoattend.data.weights import warn_of_unusual_weights
from protoattend.database.encode import decision_weight, encode_together
from protoattend.database.n_prototypes import temperature_for
from protoattend.database.rows import unedited_rows
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.build import Encoder
from protoattend.errors import UserError
from protoattend.parallel import ranks
from protoattend.training import checkpoint
from protoattend.training import setup as prepare
from protoattend.training import workers as distributed
from protoattend.training.batches import Augment
from protoattend.training.candidates import Candidates, make_candidates
from protoattend.training.checkpoint import Checkpoints
from protoattend.training.compiling import compiled
from protoattend.training.config import TrainingConfig
from protoattend.training.evaluation import dead_share, evaluate_with_prototypes
from protoattend.training.frozen_features import cache_features
from protoattend.training.history import History
from protoattend.training.loop import train, watch_queries
from protoattend.training.losses import prototype_terms
from protoattend.training.progress import progress_bar

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class Data:
    """What is fitted on, and where checkpoints are: those written, and those to go on from."""

    X: Any
    y: Any
    sample_weight: Any
    checkpoint_to: Folder | Checkpoints | None = None
    resume_from: Folder | None = None


@dataclass(frozen=True)
class Setup:
    """All that training needs; of a frozen encoder, `model` has only what is trained, and `prepared` its features."""

    whole: prepare.Prepared
    prepared: prepare.Prepared
    encoder: Encoder
    model: ProtoAttend
    config: TrainingConfig
    augment: Augment | None
    class_weight: Tensor | None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


def set_up(params: Mapping[str, Any], data: Data, generator: torch.Generator) -> Setup:
    """Check the data and the parameters of an estimator, and build its encoder and model."""
    whole = prepare.prepare(
        data.X,
        data.y,
        learn_inputs=prepare.input_learner(params["categorical_features"], params["encoder"]),
        validation_fraction=params["validation_fraction"],
        generator=generator,
        sample_weight=data.sample_weight,
        undersample=params["undersample"],
    )
    if params["normalize"] == "sparsemax":
        warn_of_unusual_weights(whole.weights)
    encoder = prepare.make_encoder(params["encoder"], params["views"], whole)
    augment = prepare.make_augment(params["augment"], whole.inputs, encoder)
    config = prepare.make_config(params, whole.train.rows_of_an_epoch, kind=whole.inputs.kind, encoder=encoder)
    device = prepare.resolve_device(params["device"])
    trained, prepared = cache_features(encoder, whole, device=device, verbose=params["verbose"])
    model = prepare.make_model(
        trained,
        len(whole.classes),
        d_att=params["d_att"],
        d_out=params["d_out"],
        normalize=params["normalize"],
        device=params["device"],
        # Without a self term, attention is the encoder's only teacher.
        attention_weight=params["attention_weight"] if SELF in objective(config.objective) else 1.0,
    )
    class_weight = prepare.class_weights(params["class_weight"], prepared.train, prepared.classes, device)
    return Setup(whole, prepared, encoder, model, config, augment, class_weight)


def fit(params: Mapping[str, Any], data: Data) -> tuple[CandidateDatabase, History]:
    """Train as the parameters of an estimator say, together with the processes they ask for or torchrun has started."""
    count = params["n_processes"]
    if not (isinstance(count, int) and count >= 1):
        raise UserError(f"n_processes must be an integer of at least 1, but got {count!r}.")
    with ExitStack() as stack:
        stack.enter_context(distributed.joined())
        if count > 1 and ranks().size == 1:
            stack.enter_context(distributed.workers(count, fit_here, ({**params, "verbose": 0}, data)))
        return fit_here(params, data)


def fit_here(params: Mapping[str, Any], data: Data) -> tuple[CandidateDatabase, History]:
    """Train in this process, which may be one of several, and make the data the database."""
    found = None if data.resume_from is None else checkpoint.read(data.resume_from)
    seed = prepare.draw_seed(params["random_state"]) if found is None else found.seed
    with prepare.seeded(seed) as generator, ExitStack() as stack:
        setup = set_up(params, data, generator)
        batch_size = ranks().divisible(setup.config.batch_size, "batch_size") if found is None else found.batch_size()
        setup = replace(setup, config=replace(setup.config, batch_size=batch_size))
        candidates = _candidates(params, setup)
        if params["compile"]:
            stack.enter_context(compiled(setup.model.encoder))
        checkpointer: checkpoint.Checkpointer = checkpoint.NoCheckpointer()
        if (to := data.checkpoint_to or data.resume_from) is not None:
            checkpointer = stack.enter_context(
                checkpoint.FileCheckpointer(
                    to if isinstance(to, Checkpoints) else Checkpoints(to),
                    seed=seed,
                    batch_size=batch_size,
                    identity=checkpoint.identity(params, setup.whole.everything),
                    candidates=candidates,
                    found=found,
                )
            )
        on_step = stack.enter_context(progress_bar(params["verbose"], setup.config.max_epochs, "ProtoAttend"))
        row_weights = setup.prepared.row_weights(setup.device)
        history = train(
            setup.model,
            setup.prepared.train,
            setup.config,
            loss_terms=prototype_terms(setup.config, candidates, setup.class_weight, row_weights),
            measure=_measure(setup, generator),
            seed=seed,
            augment=setup.augment,
            on_step=on_step,
            checkpointer=checkpointer,
        )
    return _database(setup, params["n_prototypes"]), history


def _candidates(params: Mapping[str, Any], setup: Setup) -> Candidates:
    data, augment, device = setup.prepared.train, setup.augment, setup.device

    def fetch(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = data.samples[rows]
        x = x if augment is None else augment(x, generator)
        return x.to(device), data.labels[rows].to(device)

    return make_candidates(
        params["candidates"],
        fetch=fetch,
        shuffled=data.shuffled,
        n_rows=data.rows_of_an_epoch,
        n_candidates=params["n_candidates"],
        batch_size=setup.config.batch_size,
        normalize=params["normalize"],
    )


def _measure(setup: Setup, generator: torch.Generator) -> Any:
    validation = setup.prepared.measured(setup.class_weight)
    if validation is None:
        return None
    candidates = setup.prepared.validation_candidates(generator)
    return partial(evaluate_with_prototypes, setup.model, validation, candidates)


def _database(setup: Setup, n_prototypes: int | None) -> CandidateDatabase:
    whole, candidates = setup.whole, setup.prepared.candidates()
    encoded = encode_together(setup.model, candidates.samples)
    watch_queries(dead_share(encoded.queries))
    if n_prototypes is not None and setup.model.normalize == "sparsemax":  # softmax gives weight to all in any case
        counts = torch.from_numpy(whole.weights[whole.weights > 0])
        temperature = temperature_for(encoded.queries, encoded.keys, counts, n_prototypes, at_most=1.0)
        setup.model.temperature.fill_(temperature)
    setup.model.encoder = setup.encoder
    decision = decision_weight(setup.model)
    rows = unedited_rows(whole.weights, candidates.labels, encoded, decision, source=whole.candidate_source())
    return CandidateDatabase(setup.model, whole.inputs, whole.classes, rows, next_id=len(whole.weights))
