"""What `fit` does: train as the settings say, in one process or many, and make the data the database."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from protoattend.arguments import require_float32
from protoattend.config import Settings
from protoattend.core.likeness import RANK, RANK_OF_TEXTS, Likeness
from protoattend.core.model import Encoded
from protoattend.core.objectives import SELF, objective
from protoattend.data.samples import chunks
from protoattend.database.encode import decision_weight, encode_together
from protoattend.database.rows import unedited_rows
from protoattend.database.store import CandidateDatabase
from protoattend.encoders.parts import show
from protoattend.encoders.sketch import make_sketch
from protoattend.errors import UserError
from protoattend.parallel import ranks, threads
from protoattend.training import checkpoint, workers
from protoattend.training.batches import Labelled
from protoattend.training.budget import announce, seconds_of_a_step, within_budget
from protoattend.training.candidates import Candidates, make_candidates
from protoattend.training.checkpoint import Checkpoints
from protoattend.training.compiling import compiled
from protoattend.training.evaluation import dead_share, evaluate_with_prototypes, held_out_logs, judges_of
from protoattend.training.history import History
from protoattend.training.loop import train, watch_queries
from protoattend.training.losses import LossTerms, prototype_terms
from protoattend.training.progress import progress_bar, say
from protoattend.training.settle import settle, settle_where_it_helps
from protoattend.training.setup import Setup, draw_seed, seeded, set_up
from protoattend.training.trials import Trial, Way, best_of, on_all_rows, refits, rounds_of, ways_to_try
from protoattend.training.workers import common_number

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class Data:
    """What is fitted on, and where checkpoints are: those written, and those to go on from."""

    X: Any
    y: Any
    sample_weight: Any = None
    checkpoint_to: Folder | Checkpoints | None = None
    resume_from: Folder | None = None

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Where checkpoints are written, if anywhere: unless another folder is given, where training goes on from."""
        to = self.checkpoint_to or self.resume_from
        return to if isinstance(to, Checkpoints) or to is None else Checkpoints(to)


def fit(settings: Settings, data: Data) -> tuple[CandidateDatabase, History]:
    """Train together with the processes that the settings ask for or torchrun has started."""
    with ExitStack() as stack:
        stack.enter_context(workers.joined())
        if settings.n_processes > 1 and ranks().size == 1:
            quiet = replace(settings, verbose=0)
            stack.enter_context(workers.spawned(settings.n_processes, fit_here, (quiet, data)))
        return fit_here(settings, data)


def fit_here(settings: Settings, data: Data) -> tuple[CandidateDatabase, History]:
    """Train in this process, which may be one of several, and make the data the database."""
    require_float32()
    _require_repeatable(settings, data)
    found = None if data.resume_from is None else checkpoint.read(data.resume_from)
    seed = draw_seed(settings.random_state) if found is None else found.seed
    with seeded(seed) as generator, ExitStack() as stack:
        setup = set_up(settings, data.X, data.y, data.sample_weight, generator)
        batch_size = ranks().divisible(setup.plan.batch_size, "batch_size") if found is None else found.batch_size()
        setup = replace(setup, plan=replace(setup.plan, batch_size=batch_size))
        stack.enter_context(threads(setup.n_threads))
        checkpoints, identity = data.checkpoints, {}
        if checkpoints is not None:
            identity = checkpoint.identity(settings, setup.whole.everything)
            checkpoint.require_usable(Path(checkpoints.folder), identity, found)
        ways, refit = ways_to_try(settings, setup), refits(setup)
        setup = _timed(settings, setup, seed, ways) if found is None else setup
        known = None if setup.prepared.validation is None else setup.prepared.validation_candidates(generator)
        tried: Trial | None = None
        if (ways or refit) and known is not None:
            tried = best_of(ways, setup, partial(_tried, settings, seed=seed, known=known))
            # Of processes, the first one's history counts. Where another epoch was best, nothing says when to stop.
            refit = refit and bool(common_number(int(tried.history.last_is_best)))
            identity |= {checkpoint.CHOSEN: f"mixup={tried.setup.plan.recipe.mixup:g}, refit={refit}"}
            if refit:
                setup, known = on_all_rows(setup, tried.setup.plan), None
            elif checkpoints is None:
                return _database(tried.setup, settings.n_prototypes), replace(tried.history, settled=tried.settled)
            else:
                setup = replace(setup, plan=tried.setup.plan)
        candidates = _candidates(settings, setup)
        checkpointing: AbstractContextManager[checkpoint.Checkpointer] = nullcontext(checkpoint.NoCheckpointer())
        if checkpoints is not None:
            checkpointing = checkpoint.FileCheckpointer(
                checkpoints, seed=seed, batch_size=batch_size, identity=identity, candidates=candidates, found=found
            )
        with checkpointing as checkpointer:
            history = _train(settings, setup, candidates, seed=seed, known=known, checkpointer=checkpointer)
        if tried is not None and refit:
            if tried.settled:
                settle(setup, seed)
            history = replace(tried.history, refitted=True, settled=tried.settled)
            return _database(setup, settings.n_prototypes, tried.setup), history
        settled = known is not None and settle_where_it_helps(setup, known, seed)
        return _database(setup, settings.n_prototypes), replace(history, settled=settled)


def _train(
    settings: Settings,
    setup: Setup,
    candidates: Candidates,
    *,
    seed: int,
    known: Labelled | None,
    checkpointer: checkpoint.Checkpointer,
) -> History:
    """Train the model of a setup; `known` are the candidates of validations."""
    encoding = compiled(setup.model.encoder) if setup.plan.recipe.compile else nullcontext()
    with encoding, progress_bar(settings.verbose, setup.plan.max_epochs, "ProtoAttend") as on_step:
        return train(
            setup.model,
            setup.prepared.train,
            setup.plan,
            loss_terms=_terms(setup, candidates),
            evaluate=_evaluation(setup, known),
            seed=seed,
            augment=setup.augment,
            on_step=on_step,
            checkpointer=checkpointer,
        )


def _tried(settings: Settings, setup: Setup, *, seed: int, known: Labelled) -> Trial:
    """Train the model of a setup, to be judged by what prototypes say of held-out labels."""
    candidates = _candidates(settings, setup)
    history = _train(settings, setup, candidates, seed=seed, known=known, checkpointer=checkpoint.NoCheckpointer())
    settled = settle_where_it_helps(setup, known, seed)
    validation = setup.prepared.validation_rows(setup.class_weight)
    assert validation is not None, "nothing is tried without held-out rows"
    return Trial(setup, history, judges_of(validation).loss(held_out_logs(setup.model, validation, known)), settled)


def _terms(setup: Setup, candidates: Candidates) -> LossTerms:
    sample_weight = setup.prepared.training_weight(setup.device)
    return prototype_terms(setup.plan, candidates, setup.class_weight, sample_weight)


def _require_repeatable(settings: Settings, data: Data) -> None:
    """Refuse to go by the clock where training must be able to go on exactly as it would have."""
    minutes = settings.training_recipe.max_minutes
    if minutes is not None and (data.checkpoint_to or data.resume_from):
        raise UserError(
            f"max_minutes={minutes:g} goes by the clock, which no checkpoint can repeat; pass max_epochs, or neither "
            "checkpoint_to nor resume_from."
        )


def _timed(settings: Settings, setup: Setup, seed: int, ways: tuple[Way, ...]) -> Setup:
    """Measure the first steps where somebody wants to know: who waits, or who has set a time."""
    minutes = setup.plan.recipe.max_minutes
    if minutes is None and (not settings.verbose or ranks().size > 1):  # of many processes only the first speaks
        return setup
    terms = _terms(setup, _candidates(settings, setup))
    seconds = common_number(round(1e6 * seconds_of_a_step(setup, terms, seed))) / 1e6
    n_rows = setup.prepared.train.rows_of_an_epoch
    steps = max(1, n_rows // setup.plan.batch_size)
    rounds = rounds_of(setup, ways)
    plan = within_budget(setup.plan, steps, seconds, rounds)
    if settings.verbose:
        what = f"{setup.whole.inputs.kind}, {n_rows:,} rows, encoder {type(setup.encoder.body).__name__}"
        again = refits(setup)
        say(announce(plan, what, steps, seconds, tries=bool(ways), refits=again, rounds=rounds))
    return replace(setup, plan=plan)


def _candidates(settings: Settings, setup: Setup) -> Candidates:
    data, augment, device = setup.prepared.train, setup.augment, setup.device

    def fetch(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = data.samples[rows]
        x = x if augment is None else augment(x, generator)
        return x.to(device), data.labels[rows].to(device)

    return make_candidates(
        settings.candidates,
        fetch=fetch,
        shuffled=data.shuffled,
        n_rows=data.rows_of_an_epoch,
        n_candidates=settings.n_candidates,
        batch_size=setup.plan.batch_size,
        reencode=settings.normalize == "sparsemax" and setup.plan.recipe.reencode,
    )


def _evaluation(setup: Setup, known: Labelled | None) -> Any:
    validation = setup.prepared.validation_rows(setup.class_weight)
    if validation is None or known is None:
        return None
    return partial(evaluate_with_prototypes, setup.model, validation, known)


def _database(setup: Setup, n_prototypes: int | None, earlier: Setup | None = None) -> CandidateDatabase:
    """Make the training rows the database, and choose the readings of its scores.

    Where all rows were learned, those are carried over that the held-out rows of an `earlier` training choose.
    """
    whole, model, candidates = setup.whole, setup.model, setup.prepared.candidates()
    setup.end_training()
    encoded = encode_together(model, candidates.samples)
    watch_queries(dead_share(encoded.queries))
    model.encoder = setup.encoder
    if setup.plan.recipe.likeness:
        encoded = _with_likeness(setup, encoded)
    decision = decision_weight(model)
    rows = unedited_rows(whole.sample_weight, candidates.labels, encoded, decision, source=whole.candidate_source())
    database = CandidateDatabase(model, whole.inputs, whole.classes, rows, next_id=len(whole.sample_weight))
    if n_prototypes is not None and model.normalize == "sparsemax":  # softmax gives weight to all in any case
        # Without a self term values are not taught what they argue for, and none is typical but by chance.
        typical_only = SELF in objective(setup.plan.objective)
        if earlier is None:
            database.choose_readings(n_prototypes, typical_only, held_out=whole.held_out_candidates())
        else:
            database.take_over_readings(n_prototypes, _database(earlier, n_prototypes))
    return database


def _with_likeness(setup: Setup, encoded: Encoded) -> Encoded:
    """Give the model its part for likeness, and what is encoded already its numbers."""
    sketch = make_sketch(setup.whole.inputs.kind, setup.whole.inputs.form())
    if sketch is None:
        return encoded
    samples = setup.whole.candidates().samples
    show(sketch, samples)
    width = int(sketch.width)  # type: ignore[arg-type]
    rank = RANK_OF_TEXTS if setup.whole.inputs.kind == "text" else RANK
    likeness = Likeness(sketch, min(rank, width))
    setup.model.likeness = likeness
    with torch.no_grad():
        sketches = torch.cat([setup.model.sketch(x) for x in chunks(samples)])
        likeness.learn_from(sketches, encoded.queries, encoded.keys, setup.plan.recipe.likeness)
        of_queries, of_keys = likeness(sketches)
    likeness.to(setup.device)
    queries, keys = torch.cat([encoded.queries, of_queries], dim=1), torch.cat([encoded.keys, of_keys], dim=1)
    return replace(encoded, queries=queries, keys=keys)
