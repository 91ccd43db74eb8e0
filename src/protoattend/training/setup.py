"""From settings and data to all that a training needs; every value is decided here, once."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from protoattend.config import BATCH_SIZE, LEARNING_RATE, Recipe, Settings, TrainingPlan
from protoattend.core.model import ProtoAttend
from protoattend.core.objectives import SELF, objective
from protoattend.data.augment import Augmentation
from protoattend.data.inputs import Inputs, Reading, fit_inputs
from protoattend.data.samples import Samples, chunks, subset
from protoattend.data.weights import warn_of_unusual_weights
from protoattend.encoders.build import Encoder, adapt, build_encoder, count_features, rows_at_once, wrap_encoder
from protoattend.encoders.pretrained import Frozen, Pretrained, require_finite
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.errors import UserError
from protoattend.parallel import merge, ranks
from protoattend.training.batches import Augment
from protoattend.training.choices import (
    can_be_mirrored,
    decide,
    epochs_of_large,
    has_few_texts,
    is_large,
    teaches_attention,
)
from protoattend.training.prepared import Prepared, class_weights, prepare
from protoattend.training.progress import counting_bar
from protoattend.training.workers import common_number

STEPS = 1500  # "auto" trains about this long, within the limits below
EPOCHS_AT_LEAST, EPOCHS_AT_MOST = 12, 30
STEPS_AT_LEAST = 100  # however many epochs of a few rows that is
STEPS_OF_FEW_TEXTS = 500  # at least: with 100, attention lags: 8 points less, with 100 and 200 texts of four sets
NUMBERS_FOR_THREADS = 2**16  # in a batch of images, from which on several threads help
STEPS_OF_AN_EPOCH = 16  # at least: small data in large batches gets too few steps


@dataclass(frozen=True)
class Setup:
    """All that training needs; of a frozen encoder, `model` has only what is trained, and `prepared` its features."""

    whole: Prepared
    prepared: Prepared
    encoder: Encoder
    model: ProtoAttend
    plan: TrainingPlan
    augment: Augment | None
    class_weight: Tensor | None
    test_time_augmentation: TestTimeAugmentation
    n_threads: int

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def end_training(self) -> None:
        """From now on, read images by test-time augmentation.

        Validations read them as they are: to choose an epoch that does, and takes a sixth of the time.
        """
        self.encoder.test_time_augmentation = self.test_time_augmentation


def set_up(settings: Settings, X: Any, y: Any, sample_weight: Any, generator: torch.Generator) -> Setup:
    """Check the data, decide what the settings leave open, and build encoder and model."""
    whole = prepare(
        X,
        y,
        learn_inputs=_input_learner(settings),
        validation_fraction=settings.validation_fraction,
        generator=generator,
        sample_weight=sample_weight,
        undersample=settings.undersample,
    ).with_database_of(settings.training_recipe.database_size, generator)
    if settings.normalize == "sparsemax":
        warn_of_unusual_weights(whole.sample_weight)
    encoder, n_rows = make_encoder(settings, whole), whole.train.rows_of_an_epoch
    taught = teaches_attention(objective(settings.objective), n_rows, len(whole.classes))
    device = resolve_device(settings.device)
    recipe = decide(
        settings.training_recipe, whole.inputs.form(), encoder, n_rows, device=device, attention_taught=taught
    )
    augmentation = _check_augmentation(recipe.test_time_augmentation, encoder, whole.inputs)
    augment = make_augment(settings.augment, whole.inputs, encoder, recipe)
    plan = make_plan(settings, recipe, n_rows, kind=whole.inputs.kind, encoder=encoder)
    trained, prepared = _cache_features(encoder, whole, device=device, verbose=settings.verbose)
    model = ProtoAttend(
        trained,
        len(whole.classes),
        d_att=settings.d_att,
        d_out=settings.d_out,
        normalize=settings.normalize,
        # Without a self term, attention is the encoder's only teacher.
        attention_weight=plan.recipe.attention_weight if SELF in objective(plan.objective) else 1.0,
        precision=plan.recipe.precision,
    )
    if not plan.recipe.keys_of_one_length:
        model.free_keys()
    model.to(device)
    class_weight = class_weights(settings.class_weight, prepared.train, prepared.classes, device)
    threads = choose_threads(settings.n_threads, plan.batch_size, whole.inputs, settings.encoder)
    return Setup(whole, prepared, encoder, model, plan, augment, class_weight, augmentation, threads)


def draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the one number that all randomness of a training comes from: in all processes the same."""
    if random_state is None:
        return common_number(int(np.random.default_rng().integers(2**31)))
    try:
        return common_number(int(check_random_state(random_state).randint(2**31 - 1)))
    except ValueError:
        raise UserError(f"random_state must be a number, a RandomState or None, but got {random_state!r}.") from None


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Yield a generator; inside the block torch's global random state is seeded too, and restored after it.

    Gradients are recorded in it, whatever the caller has switched off.
    """
    with torch.random.fork_rng(), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


def resolve_device(device: str) -> torch.device:
    """Return the device asked for; "auto" takes CUDA, then MPS, then the CPU."""
    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def choose_threads(given: int | str, batch_size: int, inputs: Inputs, encoder: str | nn.Module | Pretrained) -> int:
    """Return how many threads a training is worth: for small steps, one is quicker than several that wait.

    It goes by sizes and not by time, so that the same seed gives the same model.
    """
    if not isinstance(given, str):
        return given
    most = torch.get_num_threads()
    if not isinstance(encoder, str):
        return most
    if inputs.kind != "images":
        return most if encoder in ("vdcnn", "char-cnn", "lstm") else 1
    return most if batch_size * math.prod(inputs.form().values()) >= NUMBERS_FOR_THREADS else 1


def make_encoder(settings: Settings, prepared: Prepared) -> Encoder:
    """Return the encoder by name, or the user's own module, having looked at the training samples."""
    inputs, samples, encoder = prepared.inputs, prepared.train.samples, settings.encoder
    if isinstance(encoder, Pretrained):
        made = encoder.encoder(
            inputs.kind, inputs.form(), encoder.count_features(inputs.kind, inputs.form(), samples[:64])
        )
    elif isinstance(encoder, nn.Module):
        width = count_features(encoder, inputs.kind, inputs.form(), samples[:2])
        made = wrap_encoder(copy.deepcopy(encoder), inputs.kind, inputs.form(), width)
    else:
        made = build_encoder(encoder, inputs.kind, inputs.form(), n_rows=prepared.train.rows_of_an_epoch)
    recipe = settings.training_recipe
    adapt(made, layer_norm=recipe.layer_norm, each_image=recipe.standardize == "image")
    made.learn_from(samples)
    return made


def make_augment(augment: Any, inputs: Inputs, encoder: Encoder, recipe: Recipe) -> Augment | None:
    """Return what is done to a training batch: "auto" shifts images a little and blots out a square, None does nothing.

    The square has the recipe's `cutout` of the image's side. Pure samples are mirrored instead, if they may be.
    What is partly hidden could be of several classes: it teaches attention to be less confident. A frozen encoder sees
    every sample once, before training, as it is.
    """
    if augment is None:
        return None
    if callable(augment):
        if isinstance(encoder.front, Frozen):
            raise UserError(
                "augment changes samples in each epoch, but a frozen encoder reads them only once; pass "
                "augment='auto' (none, here), or use fine_tuned(module)."
            )
        changed: Augment = augment
        return changed
    if inputs.kind != "images" or isinstance(encoder.front, Frozen):
        return None
    form = inputs.form()
    size = min(form["height"], form["width"])
    if recipe.optimizer == "sgd":  # few epochs on much data: what is hidden is missed
        return Augmentation(padding=max(1, round(size / 20)), horizontal=can_be_mirrored(form))
    return Augmentation(padding=max(1, round(size / 14)), cutout=round(recipe.cutout * size))


def make_plan(settings: Settings, recipe: Recipe, n_rows: int, *, kind: str, encoder: Encoder) -> TrainingPlan:
    """Return what training is to do on `n_rows` rows an epoch of a kind of input, by a recipe that is decided."""
    if n_rows < 2:
        raise UserError(
            f"training needs at least 2 samples so that one can be the other's candidate, but n_samples={n_rows}."
        )
    blends_images = bool(recipe.mixup) and kind == "images" and not isinstance(encoder.front, Frozen)
    batch_size = rows_of_a_step(settings.batch_size, n_rows)
    return TrainingPlan(
        objective=settings.objective,
        recipe=recipe,
        batch_size=batch_size,
        max_epochs=_epochs(settings.max_epochs, n_rows, batch_size, encoder),
        learning_rate=LEARNING_RATE if isinstance(settings.learning_rate, str) else settings.learning_rate,
        lambda_sparse=settings.lambda_sparse,
        lambda_conf=settings.lambda_conf,
        # In tables, labels of alike rows differ by chance, and to learn their shares is to learn that: C ranked worse
        # on held-out rows of Adult (AURC .052 -> .071, five seeds), and better on digits (.012 -> .009, seven splits).
        agreement_weight=1.0 if blends_images else 0.0,
    )


def _input_learner(settings: Settings) -> Callable[[Any], Inputs]:
    """Return what learns the form of X, given which columns are codes, and an encoder that may have a tokenizer."""
    encoder, recipe = settings.encoder, settings.training_recipe
    length = recipe.text_length if isinstance(recipe.text_length, int) else None
    reading = Reading(
        categorical=settings.categorical_features,
        fixed=recipe.fixed_columns,
        texts="n-grams" if encoder == "n-grams" or (encoder == "auto" and length is None) else "characters",
        text_length=length,
        tokenizer=encoder.tokenizer if isinstance(encoder, Pretrained) else None,
    )
    return partial(fit_inputs, reading=reading)


def _check_augmentation(given: TestTimeAugmentation | None, encoder: Encoder, inputs: Inputs) -> TestTimeAugmentation:
    if given is None:
        return TestTimeAugmentation()
    if inputs.kind != "images":
        raise UserError(f"test_time_augmentation is for images, but X is {inputs.kind}; pass None.")
    if isinstance(encoder.front, Frozen):
        raise UserError(
            "test_time_augmentation is for an encoder that is trained, but a frozen one reads each image once; pass "
            "None."
        )
    return given


def rows_of_a_step(given: int | str, n_rows: int) -> int:
    """Return the rows of a step: as given, or so few that an epoch has some steps, and never more than there are."""
    largest = min(BATCH_SIZE, max(n_rows // STEPS_OF_AN_EPOCH, 32)) if isinstance(given, str) else given
    return min(largest, n_rows)


def _epochs(given: int | str, n_rows: int, batch_size: int, encoder: Encoder) -> int:
    """Return the number of epochs; "auto" takes enough for small data and few for large."""
    if not isinstance(given, str):
        return given
    if is_large(encoder, n_rows):
        return epochs_of_large(encoder)
    steps = max(1, n_rows // batch_size)
    at_least = STEPS_OF_FEW_TEXTS if has_few_texts(encoder, n_rows) else STEPS_AT_LEAST
    return int(np.clip(STEPS // steps, EPOCHS_AT_LEAST, max(EPOCHS_AT_MOST, -(-at_least // steps))))


def _cache_features(
    encoder: Encoder, prepared: Prepared, *, device: torch.device, verbose: int
) -> tuple[Encoder, Prepared]:
    """Return the part of an encoder that is trained, and the data it is trained on.

    A frozen encoder reads every row once, each process its share; in training its features stand for the samples, and
    the mapping behind it is what is trained. Of any other encoder it is what was passed.
    """
    if not (isinstance(encoder.front, Frozen) and isinstance(encoder.body, Encoder)):
        return encoder, prepared
    features = _features(encoder, prepared.everything.samples, device, verbose)
    cached = replace(prepared, everything=replace(prepared.everything, samples=features))
    encoder.body.learn_from(cached.train.samples)
    return encoder.body, cached


def _features(encoder: Encoder, samples: Samples, device: torch.device, verbose: int) -> Tensor:
    front, own = encoder.front.to(device), ranks().rows(len(samples))
    parts: list[Tensor] = []
    done = own.start
    with torch.no_grad(), counting_bar(verbose, own.stop, "frozen encoder") as on_rows:
        for x in chunks(subset(samples, own), rows_at_once(encoder, device)):
            features = front(x.to(device)).cpu()
            require_finite(features, "the frozen encoder", start=done)
            parts.append(features)
            done += len(x)
            on_rows(done)
    return merge(torch.cat(parts), len(samples))
