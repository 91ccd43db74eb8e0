"""What a run works with: its rows, the settings that its recipe means, and classifiers that are trained once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from protoattend.baselines import PlainClassifier
from protoattend.classifier import ProtoAttendClassifier
from protoattend.config import PAPER, PAPER_SETTINGS, Recipe
from protoattend.datasets.paper import appendix, paper_settings
from protoattend.encoders.image import FastCNN
from protoattend.reproduce.data import Rows, rows_of_run
from protoattend.reproduce.experiments import Run
from protoattend.reproduce.networks import HALF_WIDTH, half_width, with_dropout
from protoattend.training.checkpoint import FILE
from protoattend.training.setup import rows_of_a_step, seeded

CONFIDENCE = 0.1  # lambda_conf of every "+confidence" training, as in the paper


@dataclass(frozen=True)
class Work:
    """A run with its settings, and the folder in which what is trained and measured is kept.

    Parameters
    ----------
    run : Run
    config : mapping
        As `config_of` has it.
    folder : Path
        Of this run alone.
    minutes : float or None, default=None
        What every training may take at the most; with it, trainings are not checkpointed.
    """

    run: Run
    config: Mapping[str, Any]
    folder: Path
    minutes: float | None = None

    @property
    def data(self) -> str:
        """The data set; `run.data` may be a variant of it."""
        return str(self.config.get("of", self.run.data))

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """Rows to learn from, and test rows."""
        return rows_of_run(self.data, self.config, self.run.seed)

    @property
    def train(self) -> Rows:
        return self.rows[0]

    @property
    def test(self) -> Rows:
        return self.rows[1]

    def settings(self, training: str, **changes: Any) -> dict[str, Any]:
        """Return the parameters of a training, "baseline", "softmax", "sparsemax+sparsity" or another of the appendix.

        By the recipe "ours" they are the library's defaults but for what the name says; by "paper" they are the
        appendix's, with what the experiment changes (`params`), mostly the encoder and the number of epochs.
        """
        found = self._ours(training) if self.run.recipe == "ours" else self._paper(training)
        if training.endswith("+confidence"):
            found["lambda_conf"] = CONFIDENCE
        found |= {**self.config.get("params", {}), **changes}
        if found.get("encoder") == HALF_WIDTH:
            found["encoder"] = half_width(self._channels, self.run.seed)
        if self.minutes is not None:
            found["recipe"] = replace(found.get("recipe", Recipe()), max_minutes=self.minutes)
        return found

    def dropping(self, settings: Mapping[str, Any], rate: float) -> dict[str, Any]:
        """Return settings with dropout behind the encoder, which is "fast-cnn" unless it is a module."""
        encoder = settings.get("encoder")
        with seeded(self.run.seed):
            network = encoder if isinstance(encoder, nn.Module) else FastCNN(self._channels)
        return {**settings, "encoder": with_dropout(network, rate)}

    def fitted(
        self,
        name: str,
        settings: Mapping[str, Any],
        rows: Rows | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> ProtoAttendClassifier:
        """Return the classifier of this name, trained first, or further where that was interrupted.

        It is trained on the rows of the run unless others are given.
        """
        folder, rows = self.folder / name, rows or self.train
        if not folder.exists():
            clf = ProtoAttendClassifier(**_own(settings), random_state=self.run.seed, verbose=0)
            clf.fit(rows.X, rows.y, sample_weight=sample_weight, **self._checkpoints(name)).save(folder)
        encoder = settings.get("encoder")
        own = copy.deepcopy(encoder) if isinstance(encoder, nn.Module) else None
        return ProtoAttendClassifier.load(folder, encoder=own)

    def plain(self, settings: Mapping[str, Any], rows: Rows | None = None, seed: int | None = None) -> PlainClassifier:
        """Return the plain encoder, trained on the rows and from the seed of the run unless others are given."""
        rows, seed = rows or self.train, self.run.seed if seed is None else seed
        return PlainClassifier(**_own(settings), random_state=seed, verbose=0).fit(rows.X, rows.y)

    def _ours(self, training: str) -> dict[str, Any]:
        found: dict[str, Any] = {"normalize": _normalize(training)}
        return found | ({"lambda_sparse": self.config["lambda_sparse"]} if training.endswith("+sparsity") else {})

    def _paper(self, training: str) -> dict[str, Any]:
        if self.data not in appendix():
            return {**PAPER_SETTINGS, "recipe": PAPER, "normalize": _normalize(training)}
        known = training in appendix()[self.data]["trainings"]
        found = paper_settings(self.data, training if known else training.partition("+")[0], y=self.train.y)
        if training.endswith("+sparsity") and found.get("lambda_sparse") is None:
            found["lambda_sparse"] = self.config["lambda_sparse"]
        return found

    def _checkpoints(self, name: str) -> dict[str, Path]:
        if self.minutes is not None:
            return {}
        folder = self.folder / f"{name}, checkpoints"
        return {"resume_from" if (folder / FILE).exists() else "checkpoint_to": folder}

    @property
    def _channels(self) -> int:
        return 3 if self.train.X.ndim == 4 else 1


def _own(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a copy of the module: a training must not see what another has learned."""
    return {name: copy.deepcopy(value) if name == "encoder" else value for name, value in settings.items()}


def _normalize(training: str) -> str:
    return "softmax" if training.startswith("softmax") else "sparsemax"


def training_facts(clf: ProtoAttendClassifier | PlainClassifier, n_rows: int) -> dict[str, Any]:
    """Return how long a classifier was trained, and how accurate it was on the way on rows held out of its own.

    The curve has for each validation the iterations until then, the accuracy by prototypes (of the plain encoder, by
    the own value) and the median number of prototypes for 95 % of a decision.
    """
    rows = round(n_rows * (1 - clf.validation_fraction))
    steps = max(1, rows // rows_of_a_step(clf.batch_size, rows))
    seen = [(record.epoch, record.metrics) for record in clf.history_ if record.metrics is not None]
    return {
        "minutes": round(clf.history_.seconds / 60, 2),
        "iterations": steps * len(clf.history_),
        "curve": [
            [steps * (epoch + 1), round(metrics.prototype_accuracy, 4), metrics.median_prototypes]
            for epoch, metrics in seen
        ],
    }
