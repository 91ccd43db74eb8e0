"""What "auto" in a recipe stands for, by the kind and the amount of data."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import torch

from protoattend.config import Recipe
from protoattend.core.objectives import JOINT, PROTOTYPE
from protoattend.encoders.build import MANY_IMAGES, MANY_TEXTS, Encoder
from protoattend.encoders.image import FastCNN
from protoattend.encoders.tabular import MLP
from protoattend.encoders.test_time_augmentation import TestTimeAugmentation
from protoattend.encoders.text import NgramBag

EPOCHS_OF_LARGE = 28  # of images of one channel; of colour images, which take twice as long, fewer
EPOCHS_OF_COLOUR = 24
# From which on held-out rows are learned too, where training takes seconds: on rows of the training splits, Adult,
# phoneme and trec gained .2 to .5 points by a tenth more rows. With fewer, the held-out ones have to say which epoch is
# kept: of small tables the last one was .8 points worse.
ROWS_TO_REFIT = 900
LIKENESS_ALONE = 10.0  # so much that what attention was not taught has no say
# Of few texts. Adam moves the embedding of a rare n-gram as far as that of a frequent one, so that few texts are told
# apart by what only they have. Decay draws back what no gradient keeps, as ridge does in logistic regression.
DECAY_OF_FEW_TEXTS = 0.1


def is_large(encoder: Encoder, n_rows: int) -> bool:
    """Return whether "fast-cnn" is trained on so many images that they need no blending."""
    return isinstance(encoder.body, FastCNN) and n_rows >= MANY_IMAGES


def has_few_texts(encoder: Encoder, n_rows: int) -> bool:
    """Return whether a bag of n-grams is trained on so few texts that it decays, and that none are left out."""
    return isinstance(encoder.body, NgramBag) and n_rows < MANY_TEXTS


def epochs_of_large(encoder: Encoder) -> int:
    """Return the epochs for as many images as `is_large` asks for."""
    return EPOCHS_OF_COLOUR if isinstance(encoder.body, FastCNN) and encoder.body.in_channels >= 3 else EPOCHS_OF_LARGE


def can_be_mirrored(form: Mapping[str, Any]) -> bool:
    """Return whether images are taken for photographs, which mean the same when mirrored; digits do not.

    >>> can_be_mirrored({"channels": 3, "height": 32, "width": 32}), can_be_mirrored({"channels": 1, "height": 28})
    (True, False)
    """
    return bool(form["channels"] >= 3)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether this is a CPU with instructions for bfloat16; others are slower with it than without."""
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch before 2.11 cannot tell
    return device.type == "cpu" and any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def teaches_attention(terms: Container[float], n_rows: int, n_classes: int) -> bool:
    """Return whether an objective of these terms teaches attention anything on so many rows.

    One without prototypes does not; nor do rows of which most have no other of their class to attend to.

    >>> from protoattend.core.objectives import objective
    >>> teaches_attention(objective("self"), 1000, 10), teaches_attention(objective("self+prototype"), 10, 10)
    (False, False)
    """
    return (PROTOTYPE in terms or JOINT in terms) and n_rows >= 2 * n_classes


def decide(
    recipe: Recipe,
    form: Mapping[str, Any],
    encoder: Encoder,
    n_rows: int,
    *,
    device: torch.device,
    attention_taught: bool = True,
) -> Recipe:
    """Return the recipe with no "auto" left, for `n_rows` rows of this form.

    Small data are blended, which keeps prototypes diverse; large data are learned as they are, with smoothed labels.
    Weights decay where texts are few. Where attention is taught nothing, candidates go by their likeness: the scores
    would be those of chance.
    """
    large = is_large(encoder, n_rows)
    changes = TestTimeAugmentation(mirror=can_be_mirrored(form), shift=1) if large else None
    decays = has_few_texts(encoder, n_rows) and recipe.optimizer != "sgd"
    chosen: dict[str, Any] = {
        "optimizer": "sgd" if large else "adam",
        "weight_decay": DECAY_OF_FEW_TEXTS if decays else 0.0,
        "mixup": 0.0 if large else 1.0,
        "label_smoothing": 0.2 if large else 0.0,
        "likeness": (1.0 if "n_grams" in form else 0.1) if attention_taught else LIKENESS_ALONE,
        "test_time_augmentation": changes,
        # Without held-out rows nothing would stop early.
        "refit": isinstance(encoder.body, (MLP, NgramBag)) and n_rows >= ROWS_TO_REFIT and recipe.patience is None,
        "settle": attention_taught and not large and recipe.attention_target == "own",
        "precision": "bfloat16" if device.type == "cuda" or (large and multiplies_bfloat16(device)) else "float32",
    }
    decided = replace(recipe, **{name: value for name, value in chosen.items() if getattr(recipe, name) == "auto"})
    return decided if encoder.can_mix else replace(decided, mixup=0.0)
