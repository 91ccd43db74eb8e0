"""Everything that steers training."""

from __future__ import annotations

from dataclasses import dataclass, field

from protoattend.training.schedule import OneCycle, Schedule

ATTENTION_TARGETS = ("own", "label")


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that steers training."""

    objective: str = "self+prototype+joint"
    attention_target: str = "label"
    lambda_sparse: float = 0.0
    lambda_conf: float = 0.0
    agreement_weight: float = 0.0
    batch_size: int = 256
    max_epochs: int = 20
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.0
    optimizer: str = "adam"
    mixup: float = 0.0
    label_smoothing: float = 0.0
    schedule: Schedule = field(default_factory=OneCycle)
    clip_norm: float = 20.0
    patience: int | None = None
