"""From X and y to a model ready to train: what the estimator and the plain baseline share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from protoattend.core.model import ProtoAttend
from protoattend.data.augment import Augmentation
from protoattend.data.images import ImageFiles
from protoattend.data.inputs import Inputs, Source, count_rows, fit_inputs, require_rows, take_rows, unpack_dataset
from protoattend.data.labels import Classes
from protoattend.data.weights import check_weights, choose_rows, class_shares
from protoattend.datasets.adult import fixed_numbers
from protoattend.encoders.build import Encoder, build_encoder, count_features, wrap_encoder
from protoattend.encoders.pretrained import Frozen, Pretrained
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import UserError, choose
from protoattend.training.batches import Augment, Labelled
from protoattend.training.config import ATTENTION_TARGETS, TrainingConfig
from protoattend.training.evaluation import VALIDATION_CANDIDATES
from protoattend.training.schedule import OneCycle
from protoattend.training.workers import common_number

STEPS = 1500  # "auto" trains about this long, within the limits below
EPOCHS_AT_LEAST, EPOCHS_AT_MOST = 12, 30
STEPS_OF_AN_EPOCH = 16  # at least: small data in large batches gets too few steps


@dataclass(frozen=True)
class Prepared:
    """Everything learned from X and y before the first step; `train` and `validation` are parts of the same rows.

    `used` are the rows of X that `source` and `everything` hold: those whose sample weight is above 0. `weights` is how
    many times each row of X counts as a candidate of the database; one of weight 0 is left out.
    """

    inputs: Inputs
    classes: Classes
    weights: np.ndarray
    used: np.ndarray
    source: Source
    everything: Labelled
    held_out: Tensor

    @cached_property
    def train(self) -> Labelled:
        return self.everything.at(~self.held_out) if self.held_out.any() else self.everything

    @cached_property
    def validation(self) -> Labelled | None:
        return self.everything.at(self.held_out) if self.held_out.any() else None

    def candidates(self) -> Labelled:
        """Return the rows of the database."""
        positions = self._in_database()
        whole = len(positions) == len(self.used)
        return self.everything if whole else self.everything.at(torch.from_numpy(positions))

    def candidate_source(self) -> Source:
        """Return the same rows as they are kept there."""
        return take_rows(self.source, self._in_database())

    def _in_database(self) -> np.ndarray:
        return np.searchsorted(self.used, np.flatnonzero(self.weights))

    def validation_candidates(self, generator: torch.Generator) -> Labelled:
        """Return the training rows that validation attends to: the same ones each time."""
        return self.train.at(self.train.shuffled(generator)[:VALIDATION_CANDIDATES])

    def measured(self, class_weight: Tensor | None) -> Labelled | None:
        """Return the validation rows, each weighing as much as its like do in training.

        All are there, as frequent as they are; but by plain accuracy the epoch kept would be one that says the frequent
        class of everything (breast cancer made 1 : 20, class_weight="balanced": recall 0 in one of four trainings).
        """
        if self.validation is None:
            return None
        of_class = None if class_weight is None else class_weight.cpu()[self.validation.labels]
        return replace(
            self.validation, sample_weight=_product(self.validation.sample_weight, self.validation.shares, of_class)
        )

    def row_weights(self, device: torch.device) -> Tensor | None:
        """Return how many times each training row counts `(n,)`; None is once each."""
        return None if self.train.sample_weight is None else self.train.sample_weight.to(device)


def draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the one number that all randomness of a training comes from: in all processes the same."""
    if random_state is None:
        return common_number(int(np.random.default_rng().integers(2**31)))
    return common_number(int(check_random_state(random_state).randint(2**31 - 1)))


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Yield a generator; inside the block torch's global random state is seeded too, and restored after it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def prepare(
    X: Any,
    y: Any,
    *,
    learn_inputs: Callable[[Any], Inputs],
    validation_fraction: float,
    generator: torch.Generator,
    sample_weight: Any = None,
    undersample: Mapping[Any, float] | None = None,
) -> Prepared:
    """Validate X and y and split off the validation rows, the same share of every class.

    Rows of weight 0 take no part in anything. Undersampling leaves the validation rows as frequent as they are.
    """
    if isinstance(X, torch.utils.data.Dataset):
        X, y = unpack_dataset(X)
    if y is None and isinstance(X, ImageFiles):
        y = X.y
    if y is None:
        raise UserError("fit requires y to be passed, but the target y is None; pass one label for each row of X.")
    if not 0 <= validation_fraction < 1:
        raise UserError(f"validation_fraction must be in [0, 1), but got {validation_fraction}.")
    require_rows(X)
    if count_rows(X) != count_rows(y):
        raise UserError(
            f"X and y must be of one length, but X has {count_rows(X)} rows and y has {count_rows(y)}; "
            "pass one label for each row."
        )
    weights = check_weights(sample_weight, count_rows(X))
    rows = np.flatnonzero(weights)
    used_X, used_y = take_rows(X, rows), take_rows(y, rows)
    inputs = learn_inputs(used_X)
    source = inputs.source(used_X)
    classes = Classes.fit(used_y)
    labels = classes.encode(used_y)
    counts = None if (weights[rows] == 1).all() else torch.from_numpy(weights[rows])
    shares = class_shares(undersample, labels, classes)
    everything = Labelled(inputs.tensor(source), labels, counts, shares)
    held_out = _validation_rows(labels, validation_fraction, generator)
    if shares is not None:
        candidates = rows[choose_rows(labels, shares, generator).numpy()]
        weights[np.setdiff1d(rows, candidates)] = 0
    return Prepared(inputs, classes, weights, rows, source, everything, held_out)


def input_learner(categorical: Any, encoder: str | nn.Module | Pretrained) -> Callable[[Any], Inputs]:
    """Return what learns the form of X, given which columns are codes, and an encoder that may have a tokenizer.

    What is done to a table's numbers is learned from them, except where the paper fixes it for its encoder.
    """
    tokenizer = encoder.tokenizer if isinstance(encoder, Pretrained) else None

    def learn(X: Any) -> Inputs:
        fixed = fixed_numbers(X) if encoder == "lstm" else None
        return fit_inputs(X, categorical=categorical, fixed=fixed, tokenizer=tokenizer)

    return learn


def make_encoder(
    encoder: str | nn.Module | Pretrained, views: TestTimeAugmentation | None, prepared: Prepared
) -> Encoder:
    """Return the encoder by name, or the user's own module, having looked at the training samples."""
    inputs, samples = prepared.inputs, prepared.train.samples
    if isinstance(encoder, Pretrained):
        made = encoder.encoder(
            inputs.kind, inputs.form(), encoder.count_features(inputs.kind, inputs.form(), samples[:64])
        )
    elif isinstance(encoder, nn.Module):
        width = count_features(encoder, inputs.kind, inputs.form(), samples[:2])
        made = wrap_encoder(copy.deepcopy(encoder), inputs.kind, inputs.form(), width)
    else:
        made = build_encoder(encoder, inputs.kind, inputs.form())
    made.views = _check_views(views, made, inputs)
    made.learn_from(samples)
    return made


def _check_views(views: Any, encoder: Encoder, inputs: Inputs) -> TestTimeAugmentation:
    if views is None:
        return TestTimeAugmentation()
    if not isinstance(views, TestTimeAugmentation):
        raise UserError(f"views must be None or TestTimeAugmentation(mirror=..., shift=...), but got {views!r}.")
    if inputs.kind != "images":
        raise UserError(f"views are of images, but X is {inputs.kind}; pass views=None.")
    if isinstance(encoder.front, Frozen):
        raise UserError("views are for an encoder that is trained, but a frozen one reads each image once; pass None.")
    return views


def make_augment(augment: Any, inputs: Inputs, encoder: Encoder) -> Augment | None:
    """Return what is done to a training batch: "auto" shifts images a little and blots out a square, None does nothing.

    What is partly hidden could be of several classes: it teaches attention to doubt. A frozen encoder sees every sample
    once, before training, as it is.
    """
    if augment is None:
        return None
    if callable(augment):
        if isinstance(encoder.front, Frozen):
            raise UserError(
                "augment changes samples anew in each epoch, but a frozen encoder reads them only once; pass "
                "augment='auto' (none, here), or use fine_tuned(module)."
            )
        return augment
    if augment != "auto":
        raise UserError(
            f"augment must be 'auto', None or a callable (images, generator) -> images, but got {augment!r}."
        )
    if inputs.kind != "images" or isinstance(encoder.front, Frozen):
        return None
    size = min(inputs.form()["height"], inputs.form()["width"])
    return Augmentation(padding=max(1, round(size / 14)), cutout=round(0.35 * size))


def epochs(max_epochs: int | str, n_rows: int, batch_size: int) -> int:
    """Return the number of epochs; "auto" takes enough for small data and few for large."""
    if max_epochs == "auto":
        return int(np.clip(STEPS // max(1, n_rows // batch_size), EPOCHS_AT_LEAST, EPOCHS_AT_MOST))
    return int(max_epochs)


def make_config(params: Mapping[str, Any], n_rows: int, *, kind: str, encoder: Encoder) -> TrainingConfig:
    """Return the training configuration in an estimator's parameters, checked; `kind` is that of the inputs."""
    for name, allowed, rule in _RULES:
        if not allowed(params[name]):
            raise UserError(f"{name} must be {rule}, but got {name}={params[name]!r}.")
    if n_rows < 2:
        raise UserError(
            f"training needs at least 2 samples so that one can be the other's candidate, but n_samples={n_rows}."
        )
    if params["patience"] is not None and params["validation_fraction"] == 0:
        raise UserError(
            f"patience={params['patience']} waits for better validations, but validation_fraction=0 holds no row out; "
            "pass a fraction such as 0.1, or patience=None."
        )
    mixup = params["mixup"] if encoder.can_mix else 0.0
    blends_images = bool(mixup) and kind == "images" and not isinstance(encoder.front, Frozen)
    batch_size = min(params["batch_size"], max(n_rows // STEPS_OF_AN_EPOCH, 32), n_rows)
    return TrainingConfig(
        objective=params["objective"],
        attention_target=choose(params["attention_target"], ATTENTION_TARGETS, "attention_target"),
        lambda_sparse=params["lambda_sparse"],
        lambda_conf=params["lambda_conf"],
        # In tables, labels of alike rows differ by chance, and to learn their shares is to learn that: C ranked worse
        # on held-out rows of Adult (AURC .052 -> .071, five seeds), and better on digits (.012 -> .009, seven splits).
        agreement_weight=1.0 if blends_images else 0.0,
        batch_size=batch_size,
        max_epochs=epochs(params["max_epochs"], n_rows, batch_size),
        learning_rate=params["learning_rate"],
        weight_decay=params["weight_decay"],
        optimizer=params["optimizer"],
        mixup=mixup,
        label_smoothing=params["label_smoothing"],
        schedule=params["schedule"] or OneCycle(),
        patience=params["patience"],
    )


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "batch_size",
        lambda value: _is_count(value, 2),
        "an integer of at least 2, as every input needs a candidate",
    ),
    (
        "max_epochs",
        lambda value: value == "auto" or _is_count(value, 1),
        "'auto' or an integer of at least 1",
    ),
    ("learning_rate", lambda value: _is_number(value) and 0 < value < 10, "a number above 0"),
    ("weight_decay", lambda value: _is_number(value) and value >= 0, "a number of at least 0"),
    ("mixup", lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    ("label_smoothing", lambda value: _is_number(value) and 0 <= value < 1, "a number from 0 to below 1"),
    ("attention_weight", lambda value: _is_number(value) and value > 0, "a number above 0"),
    ("n_prototypes", lambda value: value is None or _is_count(value, 1), "None or an integer of at least 1"),
    ("patience", lambda value: value is None or _is_count(value, 1), "None or an integer of at least 1"),
    ("lambda_sparse", lambda value: _is_number(value) and value >= 0, "a number of at least 0"),
    ("lambda_conf", lambda value: _is_number(value) and value >= 0, "a number of at least 0"),
    ("d_att", lambda value: _is_count(value, 1), "an integer of at least 1"),
    ("d_out", lambda value: _is_count(value, 1), "an integer of at least 1"),
)


def class_weights(
    class_weight: Mapping[Any, float] | str | None,
    train: Labelled,
    classes: Classes,
    device: torch.device,
) -> Tensor | None:
    """Return the weight of each class in the loss: "balanced" makes all classes, as they are drawn, count the same."""
    if class_weight is None:
        return None
    if class_weight == "balanced":
        counts = torch.bincount(
            train.labels, _product(train.sample_weight, train.shares), minlength=len(classes)
        ).float()
        return (float(counts.sum()) / (len(classes) * counts)).to(device)
    if not isinstance(class_weight, Mapping):
        raise UserError(f"class_weight must be None, 'balanced' or {{label: weight}}, but got {class_weight!r}.")
    weights = torch.ones(len(classes))
    for label, weight in class_weight.items():
        weights[classes.number(label)] = weight
    return weights.to(device)


def _product(*factors: Tensor | None) -> Tensor | None:
    """Return the product of what is there; None where nothing is."""
    given = [factor.float() for factor in factors if factor is not None]
    return torch.stack(given).prod(0) if given else None


def resolve_device(device: str) -> torch.device:
    """Return the device asked for; "auto" takes CUDA, then MPS, then the CPU."""
    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def make_model(
    encoder: Encoder,
    n_classes: int,
    *,
    d_att: int,
    d_out: int,
    normalize: str,
    device: str,
    attention_weight: float = 1.0,
) -> ProtoAttend:
    model = ProtoAttend(
        encoder, n_classes, d_att=d_att, d_out=d_out, normalize=normalize, attention_weight=attention_weight
    )
    return model.to(resolve_device(device))


def _validation_rows(labels: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """Return a mask of the held-out rows; a class always keeps at least one row for training."""
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for c in labels.unique():
        rows = (labels == c).nonzero().squeeze(1)
        count = min(round(fraction * len(rows)), len(rows) - 1)
        held_out[rows[torch.randperm(len(rows), generator=generator)[:count]]] = True
    return held_out
