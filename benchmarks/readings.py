"""Which training serves a sharp decision and a flat confidence best: sparsemax, softmax, or both at once?

    PROTOATTEND_DATA=../shared/data python benchmarks/readings.py [--work FOLDER]

Constructor defaults but for n() of eq. 1 in training; whatever it was trained with, a classifier then decides sharply,
by sparsemax with few prototypes, and its confidence is read flatly, by softmax over all candidates. "both" trains with
the mean of the two weights. Three seeds; writes benchmarks/results/readings.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import one_story
import record
from torch import Tensor

from protoattend.core import attention
from protoattend.core.normalize import softmax
from protoattend.core.sparsemax import sparsemax

SETS = ("digits", "phoneme", "abalone", "adult", "trec", "subjectivity")
SEEDS = (0, 1, 2)


def both(scores: Tensor, **masks: Tensor | None) -> Tensor:
    """Return the mean of the weights by sparsemax and by softmax."""
    return (sparsemax(scores, **masks) + softmax(scores, **masks)) / 2


TRAININGS: dict[str, Callable[..., Tensor]] = {"sparsemax": sparsemax, "softmax": softmax, "both": both}


@contextmanager
def trained_with(normalize: Callable[..., Tensor]) -> Iterator[None]:
    """Let attention in training use this n(); searches of a database do not go that way."""
    with mock.patch.object(attention, "normalizer", return_value=normalize):
        yield


def run(training: str, name: str, seed: int) -> dict[str, Any]:
    """Train by the defaults but for n(), and measure on the test rows."""
    with trained_with(TRAININGS[training]):
        return one_story.ours(one_story.load(name, seed), seed)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder in which each run is kept")
    work = parser.parse_args().work
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {training: {} for training in TRAININGS}
    for name in SETS:
        for training in TRAININGS:
            for seed in SEEDS:
                path = None if work is None else work / f"{training} {name} {seed}.json"
                found = record.once(path, lambda t=training, n=name, s=seed: run(t, n, s))
                runs[training].setdefault(name, []).append(found)
            means = one_story.averaged(runs[training][name])
            shown = ("accuracy", "aurc", "aurc_own", "ece", "ece_confidence", "contradiction", "likeness")
            print(f"{name}, {training}: " + " ".join(f"{key}={means[key]:.4f}" for key in shown), flush=True)
    record.write("readings", {"seeds": list(SEEDS), "runs": runs})


if __name__ == "__main__":
    main()
