"""The settings of a classifier: each one is declared, defaulted and checked in this file, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from torch import nn

from protoattend.core.normalize import NORMALIZERS
from protoattend.core.objectives import OBJECTIVES
from protoattend.core.schedule import ExponentialDecay, OneCycle, Schedule
from protoattend.data.tables import Column
from protoattend.encoders.pretrained import Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import UserError, choose
from protoattend.setting_checks import (
    anything,
    augmentation,
    beside,
    check_fields,
    class_weight,
    column_encoding,
    count,
    device,
    instance,
    number,
    one_of,
    refuse,
    schedule,
)

CANDIDATES = ("in-batch", "sampled", "bank")
OPTIMIZERS = ("adam", "sgd")
ATTENTION_TARGETS = ("own", "label")
DECAYED = ("all", "filters")
STANDARDIZED = ("channel", "image")
PRECISIONS = ("float32", "bfloat16")
BATCH_SIZE = 256  # rows of a step where "auto" may choose, at the most
LEARNING_RATE = 2.5e-3  # what "auto" stands for


def _columns(value: Any, name: str) -> dict[str, Column]:
    if not isinstance(value, Mapping) or not all(isinstance(column, Column) for column in value.values()):
        raise refuse(value, name, "{name: Column(...)}")
    return {key: column_encoding(column, f"{name}[{key!r}]") for key, column in value.items()}


def _an_encoder(value: Any, name: str) -> Any:
    if not isinstance(value, (str, nn.Module, Pretrained)):
        raise refuse(value, name, "the name of an encoder, an nn.Module, frozen(module) or fine_tuned(module)")
    return value


_SHARE = number(lambda value: 0 <= value <= 1, "a number from 0 to 1")
_PART = number(lambda value: 0 <= value < 1, "a number from 0 to below 1")
_AT_LEAST_0 = number(lambda value: 0 <= value < math.inf, "a number of at least 0")
_ABOVE_0 = number(lambda value: 0 < value < math.inf, "a number above 0")
_RATE = number(lambda value: 0 < value < 10, "a number above 0 and below 10")
_BATCH = count(2, "an integer of at least 2, as every input needs a candidate")
_CHANGES = instance(TestTimeAugmentation, "TestTimeAugmentation(mirror=..., shift=...)")
_WIDTH = count(1, most=2**16)  # wider heads fit in no memory, and tell no more
_THREADS = count(1, most=1024)  # of many more, the system gives none, and OpenMP ends the process
_FLAG = instance(bool, "True or False")
_ONE_CYCLE = OneCycle()


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained, beyond what its data and its model are.

    Parameters
    ----------
    optimizer : {"auto", "adam", "sgd"}, default="auto"
        "sgd" trains the encoder's own weights by SGD with momentum at 150 times the learning rate; the heads stay with
        Adam, queries and keys at 10 times. "auto" takes it for "fast-cnn" on 20,000 images or more.
    schedule : OneCycle or ExponentialDecay, default=OneCycle()
        The factor on the learning rate at each step.
    weight_decay : float or "auto", default="auto"
        Of all weights by Adam; by SGD on top of its own. "auto" is 0, but 0.1 by Adam for fewer than 5,000 texts that
        are read as n-grams.
    weight_decay_on : {"all", "filters"}, default="all"
        "filters" leaves all but the weights of convolutions as they are (the paper), by Adam alone.
    mixup : float or "auto", default="auto"
        Share of the training inputs that are blended, each with another one, from 0 to 1. It keeps prototypes diverse
        and confidence honest. "auto" is 1, but 0 for "fast-cnn" on 20,000 images or more; tables are trained with 1 in
        half the epochs and with 0.5, and the way is kept that says the labels of the held-out rows better, where there
        are 100 of them. Inputs that cannot be blended (tokens) are not.
    label_smoothing : float or "auto", default="auto"
        Share of each target that is spread over all classes, from 0 to below 1. "auto" is 0, or 0.2 where it does not
        blend.
    attention_weight : float, default=0.1
        How much of the gradient through queries, keys and candidates' values reaches the encoder; 1 is the paper's.
        The less it is, the more the encoder learns as a plain one would.
    attention_target : {"own", "label"}, default="own"
        What the objective's prototype and joint terms are to reach: the decision by the input's own value
        (self-distillation), or the label (the paper).
    refit : bool or "auto", default="auto"
        Whether rows that were held out are learned too: once they have said what is chosen on them, the model is
        trained again on all rows, and how scores are read is carried over. Where an earlier epoch than the last was
        best, it is kept instead, as nothing would say when to stop. "auto" does so for tables by "mlp" and texts by
        "n-grams" with 900 rows or more beside those held out, where it takes seconds and `patience` is None.
    settle : bool or "auto", default="auto"
        Whether queries and keys learn on when the encoder is trained, for 300 steps at the most, on features that no
        longer change: prototypes then decide as the inputs' own values do where training was too short, or labels too
        hard, for attention to keep up. It is left at that only where held-out rows are told better by it. "auto" does
        so towards "own" targets, but not with "fast-cnn" on 20,000 images or more, where attention has kept up.
    patience : int or None, default=None
        Stop after this many validations in a row without a good epoch; None trains for all epochs.
    max_minutes : float or None, default=None
        Train for as many epochs as fit into so many minutes, measured on the first steps. What follows on their heels
        is not counted: attention settles, and readings are chosen, in some seconds for thousands of rows.
    likeness : float or "auto", default="auto"
        How much the likeness of inputs adds to what attention has learned, after training: among candidates that it
        holds equal, those become prototypes that look alike. "auto" is 0.1, and 1 for texts that are read as n-grams,
        whose sketches say less, and 10 where attention is taught nothing (objective="self", or a row of each class); 0
        is the paper's.
    test_time_augmentation : TestTimeAugmentation, None or "auto", default="auto"
        Inputs and candidates are read as the mean over mirrored and shifted images, which is more accurate where
        `augment` taught the encoder to ignore such changes, and takes longer. "auto" does it for large data. Held-out
        rows are read as they are while it trains.
    fixed_columns : dict {name: Column} or None, default=None
        Columns of a table whose encoding is given rather than learned (`protoattend.data.tables.Column`), such as the
        paper's of Adult, `protoattend.datasets.adult.NUMBERS`.
    clip_norm : float, default=20.0
        Gradients are clipped to this norm (the paper's 20).
    keys_of_one_length : bool, default=True
        Whether keys are brought to one length, against hubness; False is the paper's.
    layer_norm : bool, default=True
        Whether the LSTM and modules of yours end in layer normalisation, as all other encoders do; False is the
        paper's.
    standardize : {"channel", "image"}, default="channel"
        How images become numbers around 0: by mean and deviation of each channel over the training set, or each image
        by its own, after augmentation (the paper). A module of yours gets numbers from 0 to 1, or "image".
    cutout : float, default=0.35
        Side of the square that `augment="auto"` blots out, as a share of the image's; 0 is the paper's.
    text_length : int or "auto", default="auto"
        Characters that are read of a text; the paper's is 448. "auto" goes by the length of most training texts.
    database_size : int or None, default=None
        D at inference: so many training rows, at random, are the database at the most. None takes all.
    reencode : bool, default=True
        Whether sampled candidates that are 32 times the batch or more are encoded without gradient, and with it those
        alone that sparsemax gives weight: a third of the cost, but without dropout and batch statistics. False encodes
        all as inputs are, for any D (the paper).
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        What the encoder computes in while it trains; attention and decision are always float32, and so is all that
        comes after training. "auto" is bfloat16 on a GPU, and for "fast-cnn" on 20,000 images or more on a CPU that
        multiplies it by itself, which then takes little more than half the time.
    compile : bool, default=False
        Whether torch.compile makes the encoder's steps faster; it takes up to a minute, and a C++ compiler.

    Examples
    --------
    >>> Recipe(mixup=0.5).mixup
    0.5
    >>> Recipe(mixup=2)
    Traceback (most recent call last):
    protoattend.errors.UserError: mixup must be 'auto' or a number from 0 to 1, but got mixup=2.
    """

    optimizer: Annotated[str, one_of(("auto", *OPTIMIZERS))] = "auto"
    schedule: Annotated[Schedule, schedule] = _ONE_CYCLE
    weight_decay: Annotated[Any, beside("auto", _AT_LEAST_0)] = "auto"
    weight_decay_on: Annotated[str, one_of(DECAYED)] = "all"
    mixup: Annotated[Any, beside("auto", _SHARE)] = "auto"
    label_smoothing: Annotated[Any, beside("auto", _PART)] = "auto"
    attention_weight: Annotated[float, _ABOVE_0] = 0.1
    attention_target: Annotated[str, one_of(ATTENTION_TARGETS)] = "own"
    refit: Annotated[Any, beside("auto", _FLAG)] = "auto"
    settle: Annotated[Any, beside("auto", _FLAG)] = "auto"
    patience: Annotated[int | None, beside(None, count(1))] = None
    max_minutes: Annotated[float | None, beside(None, _ABOVE_0)] = None
    likeness: Annotated[Any, beside("auto", _AT_LEAST_0)] = "auto"
    test_time_augmentation: Annotated[Any, beside("auto", beside(None, _CHANGES))] = "auto"
    fixed_columns: Annotated[Mapping[str, Column] | None, beside(None, _columns)] = None
    clip_norm: Annotated[float, _ABOVE_0] = 20.0
    keys_of_one_length: Annotated[bool, _FLAG] = True
    layer_norm: Annotated[bool, _FLAG] = True
    standardize: Annotated[str, one_of(STANDARDIZED)] = "channel"
    cutout: Annotated[float, _SHARE] = 0.35
    text_length: Annotated[int | str, beside("auto", count(16))] = "auto"
    database_size: Annotated[int | None, beside(None, count(2))] = None
    reencode: Annotated[bool, _FLAG] = True
    precision: Annotated[str, one_of(("auto", *PRECISIONS))] = "auto"
    compile: Annotated[bool, _FLAG] = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.weight_decay_on == "filters" and self.optimizer == "sgd":
            raise UserError(
                "weight_decay_on='filters' is for optimizer='adam', but optimizer='sgd', which decays the encoder's "
                "matrices too; pass weight_decay_on='all', or optimizer='adam'."
            )


# Appendix A, as far as it is common to all sets; `datasets/paper.toml` has what each set has of its own.
PAPER = Recipe(
    optimizer="adam",
    schedule=ExponentialDecay(rate=0.9, every=8000),  # with the rate below, Fashion-MNIST's by sparsemax
    weight_decay=0.0,
    weight_decay_on="filters",
    mixup=0.0,
    label_smoothing=0.0,
    test_time_augmentation=None,
    attention_weight=1.0,
    attention_target="label",
    refit=False,
    settle=False,
    likeness=0.0,
    keys_of_one_length=False,
    layer_norm=False,
    standardize="image",
    cutout=0.0,
    text_length=448,
    reencode=False,
    precision="float32",
)
# What recipe="paper" takes where these are left at their defaults.
PAPER_SETTINGS: Mapping[str, Any] = {
    "candidates": "sampled", "n_prototypes": None, "batch_size": 128, "learning_rate": 1e-3,
}  # fmt: skip
RECIPES: Mapping[str, Recipe] = {"auto": Recipe(), "paper": PAPER}


def _a_recipe(value: Any, name: str) -> Any:
    if not isinstance(value, (str, Recipe)):
        raise refuse(value, name, f"{', '.join(map(repr, RECIPES))} or Recipe(...)")
    return value if isinstance(value, Recipe) else choose(value, RECIPES, name)


@dataclass(frozen=True)
class Settings:
    """Every parameter of a classifier, checked; `ProtoAttendClassifier` says what each one means."""

    encoder: Annotated[str | nn.Module | Pretrained, _an_encoder] = "auto"
    normalize: Annotated[str, one_of(NORMALIZERS)] = "sparsemax"
    objective: Annotated[str, one_of(OBJECTIVES)] = "self+prototype+joint"
    recipe: Annotated[str | Recipe, _a_recipe] = "auto"
    lambda_sparse: Annotated[float, _AT_LEAST_0] = 0.0
    lambda_conf: Annotated[float, _AT_LEAST_0] = 0.0
    candidates: Annotated[str, one_of(CANDIDATES)] = "in-batch"
    n_candidates: Annotated[int | None, beside(None, count(2))] = None
    n_prototypes: Annotated[int | None, beside(None, count(1))] = 8
    batch_size: Annotated[int | str, beside("auto", _BATCH)] = "auto"
    max_epochs: Annotated[int | str, beside("auto", count(1))] = "auto"
    learning_rate: Annotated[float | str, beside("auto", _RATE)] = "auto"
    d_att: Annotated[int, _WIDTH] = 16
    d_out: Annotated[int, _WIDTH] = 64
    class_weight: Annotated[Mapping[Any, float] | str | None, beside(None, beside("balanced", class_weight))] = None
    undersample: Annotated[Mapping[Any, float] | None, anything] = None
    augment: Annotated[Any, beside(None, beside("auto", augmentation))] = "auto"
    categorical_features: Annotated[Any, anything] = None
    validation_fraction: Annotated[float, _PART] = 0.1
    device: Annotated[str, beside("auto", device)] = "auto"
    n_processes: Annotated[int, count(1)] = 1
    n_threads: Annotated[int | str, beside("auto", _THREADS)] = "auto"
    random_state: Annotated[int | np.random.RandomState | None, anything] = None
    verbose: Annotated[int, count(0)] = 1

    def __post_init__(self) -> None:
        check_fields(self)
        patience = self.training_recipe.patience
        if patience is not None and self.validation_fraction == 0:
            raise UserError(
                f"patience={patience} waits for better validations, but validation_fraction=0 holds no row out; "
                "pass a fraction such as 0.1, or patience=None."
            )
        if self.training_recipe.settle is True and self.validation_fraction == 0:
            raise UserError(
                "settle=True is left at what held-out rows find better, but validation_fraction=0 holds no row out; "
                "pass a fraction such as 0.1, or settle='auto'."
            )
        if patience is not None and self.training_recipe.refit is True:
            raise UserError(
                f"refit=True learns all rows for as many epochs as there are, but patience={patience} stops by rows "
                "held out; pass one of the two."
            )
        if self.recipe == "paper":
            self._follow_the_paper()

    def _follow_the_paper(self) -> None:
        """Take the paper's values where ours are the defaults, and refuse what it does not do."""
        for name, value in PAPER_SETTINGS.items():
            if getattr(self, name) == getattr(Settings, name):
                object.__setattr__(self, name, value)
        if self.candidates != "sampled":
            raise UserError(
                f"recipe='paper' attends to candidates='sampled', but got candidates={self.candidates!r}; leave it "
                "out, or pass recipe=Recipe(...)."
            )
        if self.n_prototypes is not None:
            raise UserError(
                f"recipe='paper' leaves attention as it was learned, but got n_prototypes={self.n_prototypes}; leave "
                f"it out, and call database_.set_n_prototypes({self.n_prototypes}) after fit, or pass "
                "recipe=Recipe(...)."
            )

    @property
    def training_recipe(self) -> Recipe:
        """The recipe itself, also where it is given by name."""
        return RECIPES[self.recipe] if isinstance(self.recipe, str) else self.recipe


@dataclass(frozen=True)
class TrainingPlan:
    """What one training is to do, all decided: `recipe` is as these data allow it, and no number is "auto".

    `agreement_weight` is that of `core.attention.agreement_loss`.
    """

    objective: str
    recipe: Recipe
    batch_size: int
    max_epochs: int
    learning_rate: float
    lambda_sparse: float = 0.0
    lambda_conf: float = 0.0
    agreement_weight: float = 0.0
