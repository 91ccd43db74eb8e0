"""The settings of a classifier: each one is declared, defaulted and checked in this file, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, get_type_hints

import numpy as np
import torch
from torch import nn

from protoattend.core.normalize import NORMALIZERS
from protoattend.core.objectives import OBJECTIVES
from protoattend.core.schedule import ExponentialDecay, OneCycle, Schedule
from protoattend.data.tables import Column
from protoattend.encoders.pretrained import Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import UserError, choose

CANDIDATES = ("in-batch", "sampled", "bank")
OPTIMIZERS = ("adam", "sgd")
ATTENTION_TARGETS = ("own", "label")
DECAYED = ("all", "filters")
STANDARDIZED = ("channel", "image")
BATCH_SIZE = 256  # rows of a step where "auto" may choose, at the most
LEARNING_RATE = 2.5e-3  # what "auto" stands for

# A check takes a value and the name of its setting; it returns the value as training uses it, or says what is wrong.
Check = Callable[[Any, str], Any]


def _check(settings: Any) -> None:
    """Put every field through the check in its annotation."""
    for name, annotation in get_type_hints(type(settings), include_extras=True).items():
        (check,) = annotation.__metadata__
        object.__setattr__(settings, name, check(getattr(settings, name), name))


def _refuse(value: Any, name: str, rule: str) -> UserError:
    return UserError(f"{name} must be {rule}, but got {name}={value!r}.")


def _anything(value: Any, name: str) -> Any:
    """Accept what only the data can tell right from wrong."""
    return value


def _count(least: int, rule: str = "") -> Check:
    """Whole numbers, numpy's too, of at least so much."""
    rule = rule or f"an integer of at least {least}"

    def check(value: Any, name: str) -> int:
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise _refuse(value, name, rule)
        return int(value)

    return check


def _number(allowed: Callable[[float], bool], rule: str) -> Check:
    """Real numbers, numpy's too, that are allowed."""

    def check(value: Any, name: str) -> float:
        if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)) or not allowed(float(value)):
            raise _refuse(value, name, rule)
        return float(value)

    return check


def _one_of(names: Iterable[str]) -> Check:
    return lambda value, name: choose(value, names, name)


def _or(word: str | None, check: Check, rule: str = "") -> Check:
    """One value beside those of another check: None, or a word such as "auto"."""

    def either(value: Any, name: str) -> Any:
        if value is None if word is None else isinstance(value, str) and value == word:
            return value
        try:
            return check(value, name)
        except UserError as error:
            raise UserError(str(error).replace(" must be ", f" must be {word!r} or ", 1)) from None

    return either


def _instance(of: type, rule: str) -> Check:
    def check(value: Any, name: str) -> Any:
        if not isinstance(value, of):
            raise _refuse(value, name, rule)
        return value

    return check


def _a_schedule(value: Any, name: str) -> Schedule:
    if not callable(getattr(value, "factor", None)):
        raise _refuse(value, name, "OneCycle(...), ExponentialDecay(...) or an object with factor(step, total)")
    schedule: Schedule = value
    return schedule


def _augmentation(value: Any, name: str) -> Any:
    if not callable(value):
        raise _refuse(value, name, "'auto', None or a callable (images, generator) -> images")
    return value


def _a_device(value: Any, name: str) -> str:
    try:
        return str(torch.device(value))
    except (RuntimeError, TypeError):
        raise _refuse(value, name, "'auto', 'cpu', 'cuda', 'cuda:0', 'mps' or another device of torch") from None


def _columns(value: Any, name: str) -> dict[str, Column]:
    if not isinstance(value, Mapping) or not all(isinstance(column, Column) for column in value.values()):
        raise _refuse(value, name, "{name: Column(...)}")
    return dict(value)


def _an_encoder(value: Any, name: str) -> Any:
    if not isinstance(value, (str, nn.Module, Pretrained)):
        raise _refuse(value, name, "the name of an encoder, an nn.Module, frozen(module) or fine_tuned(module)")
    return value


_SHARE = _number(lambda value: 0 <= value <= 1, "a number from 0 to 1")
_PART = _number(lambda value: 0 <= value < 1, "a number from 0 to below 1")
_AT_LEAST_0 = _number(lambda value: 0 <= value < math.inf, "a number of at least 0")
_ABOVE_0 = _number(lambda value: 0 < value < math.inf, "a number above 0")
_RATE = _number(lambda value: 0 < value < 10, "a number above 0 and below 10")
_BATCH = _count(2, "an integer of at least 2, as every input needs a candidate")
_CHANGES = _instance(TestTimeAugmentation, "TestTimeAugmentation(mirror=..., shift=...)")
_FLAG = _instance(bool, "True or False")
_ONE_CYCLE = OneCycle()


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained, beyond what its data and its model are.

    Parameters
    ----------
    optimizer : {"adam", "sgd"}, default="adam"
        "sgd" trains the encoder's own weights by SGD with momentum at 150 times the learning rate; the heads stay with
        Adam, queries and keys at 10 times. Worth trying with convolutional encoders on large data.
    schedule : OneCycle or ExponentialDecay, default=OneCycle()
        The factor on the learning rate at each step.
    weight_decay : float, default=0.0
        Of all weights by Adam; by SGD on top of its own.
    weight_decay_on : {"all", "filters"}, default="all"
        "filters" leaves all but the weights of convolutions as they are (the paper), by Adam alone.
    mixup : float, default=1.0
        How strongly training inputs are blended in pairs, from 0 to 1. It keeps prototypes diverse and confidence
        honest. Inputs that cannot be blended (tokens) are not.
    label_smoothing : float, default=0.0
        Share of each target that is spread over all classes, from 0 to below 1; 0.2 is worth trying on large data.
    attention_weight : float, default=0.1
        How much of the gradient through queries, keys and candidates' values reaches the encoder; 1 is the paper's.
        The less it is, the more the encoder learns as a plain one would.
    attention_target : {"own", "label"}, default="own"
        What the objective's prototype and joint terms are to reach: the decision by the input's own value
        (self-distillation), or the label (the paper).
    patience : int or None, default=None
        Stop after this many validations in a row without a good epoch; None trains for all epochs.
    likeness : float, default=0.1
        How much the likeness of inputs adds to what attention has learned, after training: among candidates that it
        holds equal, those become prototypes that look alike. 0 is the paper's.
    test_time_augmentation : TestTimeAugmentation or None, default=None
        Inputs and candidates are read as the mean over mirrored and shifted images, which is more accurate where
        `augment` taught the encoder to ignore such changes, and takes longer.
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
    compile : bool, default=False
        Whether torch.compile makes the encoder's steps faster; it takes up to a minute, and a C++ compiler.

    Examples
    --------
    >>> Recipe(mixup=0.5).mixup
    0.5
    >>> Recipe(mixup=2)
    Traceback (most recent call last):
    protoattend.errors.UserError: mixup must be a number from 0 to 1, but got mixup=2.
    """

    optimizer: Annotated[str, _one_of(OPTIMIZERS)] = "adam"
    schedule: Annotated[Schedule, _a_schedule] = _ONE_CYCLE
    weight_decay: Annotated[float, _AT_LEAST_0] = 0.0
    weight_decay_on: Annotated[str, _one_of(DECAYED)] = "all"
    mixup: Annotated[float, _SHARE] = 1.0
    label_smoothing: Annotated[float, _PART] = 0.0
    attention_weight: Annotated[float, _ABOVE_0] = 0.1
    attention_target: Annotated[str, _one_of(ATTENTION_TARGETS)] = "own"
    patience: Annotated[int | None, _or(None, _count(1))] = None
    likeness: Annotated[float, _AT_LEAST_0] = 0.1
    test_time_augmentation: Annotated[TestTimeAugmentation | None, _or(None, _CHANGES)] = None
    fixed_columns: Annotated[Mapping[str, Column] | None, _or(None, _columns)] = None
    clip_norm: Annotated[float, _ABOVE_0] = 20.0
    keys_of_one_length: Annotated[bool, _FLAG] = True
    layer_norm: Annotated[bool, _FLAG] = True
    standardize: Annotated[str, _one_of(STANDARDIZED)] = "channel"
    cutout: Annotated[float, _SHARE] = 0.35
    text_length: Annotated[int | str, _or("auto", _count(16))] = "auto"
    database_size: Annotated[int | None, _or(None, _count(2))] = None
    reencode: Annotated[bool, _FLAG] = True
    compile: Annotated[bool, _FLAG] = False

    def __post_init__(self) -> None:
        _check(self)
        if self.weight_decay_on == "filters" and self.optimizer == "sgd":
            raise UserError(
                "weight_decay_on='filters' is for optimizer='adam', but optimizer='sgd', which decays the encoder's "
                "matrices too; pass weight_decay_on='all', or optimizer='adam'."
            )


# Appendix A, as far as it is common to all sets; `datasets/paper.toml` has what each set has of its own.
PAPER = Recipe(
    schedule=ExponentialDecay(rate=0.9, every=8000),  # with the rate below, Fashion-MNIST's by sparsemax
    weight_decay_on="filters",
    mixup=0.0,
    attention_weight=1.0,
    attention_target="label",
    likeness=0.0,
    keys_of_one_length=False,
    layer_norm=False,
    standardize="image",
    cutout=0.0,
    text_length=448,
    reencode=False,
)
# What recipe="paper" takes where these are left at their defaults.
PAPER_SETTINGS: Mapping[str, Any] = {
    "candidates": "sampled", "n_prototypes": None, "batch_size": 128, "learning_rate": 1e-3,
}  # fmt: skip
RECIPES: Mapping[str, Recipe] = {"auto": Recipe(), "paper": PAPER}


def _a_recipe(value: Any, name: str) -> Any:
    if not isinstance(value, (str, Recipe)):
        raise _refuse(value, name, f"{', '.join(map(repr, RECIPES))} or Recipe(...)")
    return value if isinstance(value, Recipe) else choose(value, RECIPES, name)


@dataclass(frozen=True)
class Settings:
    """Every parameter of a classifier, checked; `ProtoAttendClassifier` says what each one means."""

    encoder: Annotated[str | nn.Module | Pretrained, _an_encoder] = "auto"
    normalize: Annotated[str, _one_of(NORMALIZERS)] = "sparsemax"
    objective: Annotated[str, _one_of(OBJECTIVES)] = "self+prototype+joint"
    recipe: Annotated[str | Recipe, _a_recipe] = "auto"
    lambda_sparse: Annotated[float, _AT_LEAST_0] = 0.0
    lambda_conf: Annotated[float, _AT_LEAST_0] = 0.0
    candidates: Annotated[str, _one_of(CANDIDATES)] = "in-batch"
    n_candidates: Annotated[int | None, _or(None, _count(2))] = None
    n_prototypes: Annotated[int | None, _or(None, _count(1))] = 8
    batch_size: Annotated[int | str, _or("auto", _BATCH)] = "auto"
    max_epochs: Annotated[int | str, _or("auto", _count(1))] = "auto"
    learning_rate: Annotated[float | str, _or("auto", _RATE)] = "auto"
    d_att: Annotated[int, _count(1)] = 16
    d_out: Annotated[int, _count(1)] = 64
    class_weight: Annotated[Mapping[Any, float] | str | None, _anything] = None
    undersample: Annotated[Mapping[Any, float] | None, _anything] = None
    augment: Annotated[Any, _or(None, _or("auto", _augmentation))] = "auto"
    categorical_features: Annotated[Any, _anything] = None
    validation_fraction: Annotated[float, _PART] = 0.1
    device: Annotated[str, _or("auto", _a_device)] = "auto"
    n_processes: Annotated[int, _count(1)] = 1
    random_state: Annotated[int | np.random.RandomState | None, _anything] = None
    verbose: Annotated[int, _count(0)] = 1

    def __post_init__(self) -> None:
        _check(self)
        patience = self.training_recipe.patience
        if patience is not None and self.validation_fraction == 0:
            raise UserError(
                f"patience={patience} waits for better validations, but validation_fraction=0 holds no row out; "
                "pass a fraction such as 0.1, or patience=None."
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
