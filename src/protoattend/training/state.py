"""Where a training stands: all that is needed to go on from it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from protoattend.core.model import ProtoAttend
from protoattend.training.history import EpochRecord, History, Metrics
from protoattend.training.optimizers import Optimizers


@dataclass
class TrainingState:
    """The model, its optimizers, how many steps are done, and what the epochs have shown so far.

    `sums` are the loss terms of the epoch under way. The weights of the best epoch are in `best`.
    """

    model: ProtoAttend
    optimizers: Optimizers
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    records: list[EpochRecord] = field(default_factory=list)
    best_accuracy: float = 0.0
    best_epoch: int | None = None
    best: dict[str, Tensor] = field(default_factory=dict)
    validations_since_best: int = 0
    seconds_before: float = 0.0
    _started: float = 0.0

    def resume_clock(self) -> None:
        self._started = time.perf_counter()

    def seconds(self) -> float:
        """Return how long the epoch under way has taken, also before an interruption."""
        return self.seconds_before + time.perf_counter() - self._started

    @property
    def latest(self) -> Metrics | None:
        return next((record.metrics for record in reversed(self.records) if record.metrics is not None), None)

    def count_step(self, losses: Mapping[str, float]) -> None:
        self.step += 1
        self.sums = {name: self.sums.get(name, 0.0) + loss for name, loss in losses.items()}

    def end_epoch(self, record: EpochRecord) -> None:
        """Note what the epoch has shown, and keep its weights if they are good enough."""
        self.records.append(record)
        self.sums, self.seconds_before = {}, 0.0
        if record.metrics is None:
            return
        self.best_accuracy = max(self.best_accuracy, record.metrics.prototype_accuracy)
        if record.metrics.good_enough(self.best_accuracy):
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
            self.best_epoch, self.validations_since_best = record.epoch, 0
        else:
            self.validations_since_best += 1

    def finish(self) -> History:
        """Leave the model in its best state and return what happened."""
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.eval()
        return History(tuple(self.records), len(self.records) - 1 if self.best_epoch is None else self.best_epoch)

    def to_file(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all of it as named tensors and as what JSON can hold."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for part, optimizer in enumerate(self.optimizers.parts):
            for number, of_parameter in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{part}.{number}.{name}": value for name, value in of_parameter.items()}
        progress = {
            "step": self.step,
            "sums": self.sums,
            "records": [asdict(record) for record in self.records],
            "best_accuracy": self.best_accuracy,
            "best_epoch": self.best_epoch,
            "validations_since_best": self.validations_since_best,
            "seconds_before": self.seconds() if self.sums else 0.0,
        }
        return tensors, progress

    def from_file(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Become what `to_file` returned."""
        self.model.load_state_dict(_under("model", tensors))
        self.best = {name: value.clone() for name, value in _under("best", tensors).items()}
        for part, optimizer in enumerate(self.optimizers.parts):
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            by_parameter: dict[int, dict[str, Tensor]] = {}
            for path, value in _under(f"optimizer.{part}", tensors).items():
                number, name = path.split(".")
                by_parameter.setdefault(int(number), {})[name] = _laid_out_as(parameters[int(number)], value)
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": by_parameter, "param_groups": groups})
        self.step, self.sums = progress["step"], dict(progress["sums"])
        self.records = [EpochRecord.from_json(record) for record in progress["records"]]
        self.best_accuracy, self.best_epoch = progress["best_accuracy"], progress["best_epoch"]
        self.validations_since_best, self.seconds_before = (
            progress["validations_since_best"],
            progress["seconds_before"],
        )


def _laid_out_as(parameter: Tensor, value: Tensor) -> Tensor:
    """Return the optimizer's numbers in the memory order of their parameter: the fused step goes through both alike."""
    return torch.empty_like(parameter).copy_(value) if value.shape == parameter.shape else value


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
