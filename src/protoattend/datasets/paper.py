"""The paper's settings of its eight data sets, from Appendix A as data (`paper.toml` beside this file)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from protoattend.config import PAPER, PAPER_SETTINGS, Settings
from protoattend.core.schedule import ExponentialDecay
from protoattend.data.augment import Augmentation
from protoattend.datasets.adult import NUMBERS
from protoattend.errors import UserError, choose


def paper_settings(name: str, training: str = "sparsemax", *, y: Iterable[Any] | None = None) -> dict[str, Any]:
    """Return the parameters of a classifier that is trained as the paper trained it on one of its data sets.

    Parameters
    ----------
    name : {"mnist", "fashion-mnist", "cifar-10", "fruits", "isic", "awa-features", "dbpedia", "adult"}
        The data set, as in `protoattend.datasets.catalogue.load`.
    training : str, default="sparsemax"
        Which of the paper's trainings of it: "softmax", "sparsemax", and where the paper has them "sparsemax+sparsity",
        "softmax+confidence", "baseline" (for `PlainClassifier`) or "sparsemax, noise 0.8".
    y : array-like of shape (n,), default=None
        Labels of the training rows. Iterations become epochs by their number, and the share of a class that is kept
        follows from theirs; None takes the numbers that the paper's set has.

    Returns
    -------
    settings : dict {str: value}
        For `ProtoAttendClassifier(**settings)`; `settings | {"max_epochs": 3}` changes one.

    Raises
    ------
    UserError
        If there is no such set or training, or if `y` is needed, as for "awa-features".

    Notes
    -----
    What the paper does not say is left as recipe="paper" has it: rates of "fruits", D of "awa-features", epochs of
    "fruits" ("auto"). It names no lambda_sparse for "sparsemax+sparsity" of "adult": there it is None, to be replaced.
    Labels of "isic" are those of `protoattend.datasets.catalogue.melanoma_or_benign`.

    Examples
    --------
    >>> from protoattend import ProtoAttendClassifier
    >>> settings = paper_settings("cifar-10")
    >>> settings["encoder"], settings["d_out"], settings["learning_rate"], settings["max_epochs"]
    ('resnet50', 128, 0.0015, 2578)
    >>> settings["n_candidates"], settings["recipe"].database_size
    (1024, 32768)
    >>> ProtoAttendClassifier(**settings).normalize
    'sparsemax'
    """
    of_set = appendix()[choose(name, appendix(), "the data set")]
    of_training = of_set["trainings"][choose(training, of_set["trainings"], f"the training of {name!r}")]
    counts = _counts(name, of_set, of_training, y)
    shares = {label: _share_to_keep(part, counts, label, name) for label, part in of_set.get("undersample", {}).items()}
    database = of_set.get("database", {})
    recipe = replace(
        PAPER,
        weight_decay=of_set.get("weight_decay", 0.0),
        database_size=database.get("inference"),
        fixed_columns=NUMBERS if name == "adult" else None,
    )
    if "decay" in of_training:
        recipe = replace(recipe, schedule=ExponentialDecay(of_training["decay"], of_training["every"]))
    settings = {
        **PAPER_SETTINGS,
        "encoder": of_set["encoder"],
        "normalize": "softmax" if training.startswith("softmax") else "sparsemax",
        "recipe": recipe,
        "n_candidates": database.get("training"),
        "d_att": 16,
        "d_out": of_set["d_out"],
        "undersample": shares or None,
        "augment": Augmentation(**of_set["augmentation"]) if "augmentation" in of_set else None,
    }
    of_loss = ("learning_rate", "lambda_sparse", "lambda_conf")
    settings |= {key: of_training[key] for key in of_loss if key in of_training}
    if training.endswith("sparsity"):
        settings.setdefault("lambda_sparse", None)
    if "iterations" in of_training:
        rows = sum(count * shares.get(label, 1.0) for label, count in counts.items())
        settings["max_epochs"] = _epochs(of_training["iterations"], rows)
    return settings


@cache
def appendix() -> Mapping[str, Any]:
    """Return what `paper.toml` says, by the name of the data set."""
    return tomllib.loads(files("protoattend.datasets").joinpath("paper.toml").read_text(encoding="utf-8"))


def _counts(name: str, of_set: Mapping[str, Any], of_training: Mapping[str, Any], y: Any) -> Mapping[Any, int]:
    """Return the training rows of each label, or of all under one name."""
    if y is not None:
        return Counter(y.tolist() if hasattr(y, "tolist") else y)
    if "rows" not in of_set and "iterations" in of_training:
        raise UserError(
            f"iterations become epochs by the number of training rows, which the paper does not say of {name!r}; pass "
            f"paper_settings({name!r}, y=y)."
        )
    counts: Mapping[Any, int] = of_set.get("rows", {})
    return counts


def _share_to_keep(part: float, counts: Mapping[Any, int], label: str, name: str) -> float:
    """Return the share of a class that is kept for it to be such a part of all rows; at the most all of it."""
    if label not in counts:
        raise UserError(
            f"y of {name!r} must have the label {label!r}, of which a part is kept, but it has "
            f"{sorted(map(str, counts))[:10]}; pass melanoma_or_benign(y)."
        )
    others = sum(counts.values()) - counts[label]
    return min(1.0, part / (1 - part) * others / counts[label])


def _epochs(iterations: int, rows: float) -> int:
    """Return the number of epochs that comes nearest to so many iterations on the rows that are not held out."""
    steps = max(1, round(rows * (1 - Settings.validation_fraction)) // PAPER_SETTINGS["batch_size"])
    return max(1, round(iterations / steps))
