"""What training by attention costs beside the plain encoder: time of an epoch, time to accuracy, accuracy reached.

    PROTOATTEND_DATA=../shared/data python benchmarks/training_cost.py [--quick | --timing] [--work FOLDER]

Same encoder ("fast-cnn"), data, optimiser and epochs for all. Accuracy is that of the finished classifier on 10,000
rows of the training split that were held out; the test split is not touched. Time to an accuracy is by validation after
each epoch, on a tenth of the other rows: the epochs it took, by the time of an epoch. `--quick` measures the latter
alone; `--timing` too, on both sets, and writes it beside the trainings of the last results, whose date stays. With
FOLDER, trainings that are done are kept there, and a run that was stopped goes on with the next.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import record
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.baselines.plain import PlainClassifier
from protoattend.core.candidates import fresh, reencoded
from protoattend.data.augment import Augmentation
from protoattend.datasets import catalogue as datasets
from protoattend.reproduce.networks import WIDTHS, half_width

HELD_OUT = 10_000
COMMON: dict[str, Any] = {
    "recipe": Recipe(mixup=0.0, label_smoothing=0.2, optimizer="sgd"),
    "validation_fraction": 0.0,
    "verbose": 0,
}
METHODS: Mapping[str, tuple[type[Any], dict[str, Any]]] = {
    "plain encoder": (PlainClassifier, {}),
    "in-batch softmax": (ProtoAttendClassifier, {"normalize": "softmax"}),
    "in-batch sparsemax": (ProtoAttendClassifier, {}),
    "bank sparsemax": (ProtoAttendClassifier, {"candidates": "bank"}),
}
SAMPLED = {"sampled sparsemax, D=1024": (ProtoAttendClassifier, {"candidates": "sampled", "n_candidates": 1024})}
RESULT, TIME_RATIO = record.RESULTS / "training_cost.json", "time_to_plain_minus_0.3_ratio"
PLAIN, OURS = "plain encoder", "in-batch sparsemax"
TOLERANCE = 0.003  # of accuracy
MANY, FEW_INPUTS = 16_384, 128
EXPLAINED = 500


@dataclass(frozen=True)
class Task:
    data: str
    channels: int
    augment: Augmentation
    epochs: int
    seeds: int


TASKS = (
    Task("fashion-mnist", 1, Augmentation(padding=1, horizontal=True), epochs=4, seeds=3),
    Task("cifar-10", 3, Augmentation(padding=2, horizontal=True), epochs=5, seeds=1),
)


@dataclass(frozen=True)
class Run:
    """One training: seconds of its epochs, accuracy at validation after each, accuracy and prototypes in the end."""

    seconds: list[float]
    validated: list[float]
    accuracy: float
    prototypes95: float

    def epochs_to(self, accuracy: float) -> float:
        """Return the epochs until `accuracy` was reached at validation; infinite if it never was."""
        return next((float(i) for i, found in enumerate(self.validated, start=1) if found >= accuracy), float("inf"))


def train(method: str, task: Task, rows: tuple[np.ndarray, np.ndarray], seed: int) -> Run:
    """Train one method on all rows but the held-out ones, and measure it on those."""
    kind, params = METHODS[method]
    (X_held, X), (y_held, y) = ((part[:HELD_OUT], part[HELD_OUT:]) for part in rows)
    clf = kind(
        encoder=half_width(task.channels, seed),
        augment=task.augment,
        max_epochs=task.epochs,
        random_state=seed,
        **{**COMMON, **params, "validation_fraction": 0.1},
    ).fit(X, y)
    metrics = [record.metrics for record in clf.history_]
    return Run(
        [record.seconds for record in clf.history_],
        [m.prototype_accuracy for m in metrics if m is not None],
        float(clf.score(X_held, y_held)),
        float("nan") if method == PLAIN else _prototypes95(clf, X_held[:EXPLAINED]),
    )


def epoch_times(task: Task, rows: tuple[np.ndarray, np.ndarray], rounds: int, steps: int) -> dict[str, list[float]]:
    """Time short epochs of every method in turn, so that a disturbance of the machine meets all of them."""
    X, y = (part[: steps * 256] for part in rows)
    times: dict[str, list[float]] = {name: [] for name in (*METHODS, *SAMPLED)}
    for turn in range(rounds + 1):
        for name, (kind, params) in (METHODS | SAMPLED).items():
            recipe = replace(COMMON["recipe"], test_time_augmentation=None)  # which is no part of training
            shared = {**COMMON, "recipe": recipe, "augment": task.augment}
            clf = kind(encoder=half_width(task.channels, 0), max_epochs=1, random_state=0, **shared, **params).fit(X, y)
            if turn:  # the first round warms up
                times[name].append(clf.history_[0].seconds)
    return times


def reencoding(task: Task, rows: tuple[np.ndarray, np.ndarray], rounds: int) -> dict[str, Any]:
    """Time a step with 16,384 candidates, with gradient through all and through those of any weight, in turn."""
    X, y = (part[: MANY + FEW_INPUTS] for part in rows)
    # Scores are flat before any training, and then every candidate has weight.
    clf = ProtoAttendClassifier(
        encoder=half_width(task.channels, 0),
        augment=task.augment,
        n_prototypes=None,
        max_epochs=2,
        random_state=0,
        **COMMON,
    ).fit(X, y)
    model, samples = clf.model_.train(), clf.inputs_.tensor(clf.inputs_.source(X))
    x, candidates = samples[:FEW_INPUTS], samples[FEW_INPUTS:]
    targets = clf.database_.rows.labels[:FEW_INPUTS]
    times: dict[str, list[float]] = {"all": [], "support": []}
    chosen = 0
    for turn in range(rounds + 1):
        for name, source in (("all", fresh(candidates)), ("support", reencoded(candidates))):
            started = time.perf_counter()
            output = model(x, source)
            functional.cross_entropy(output.prototype_logits, targets).backward()
            if turn:
                times[name].append(time.perf_counter() - started)
            chosen = len(output.chosen) if output.chosen is not None else chosen
            model.zero_grad()
    medians = {name: median(values) for name, values in times.items()}
    return {
        "candidates": MANY,
        "inputs": FEW_INPUTS,
        "reencoded": chosen,
        "seconds": medians,
        "speedup": medians["all"] / medians["support"],
    }


def compare(task: Task, work: Path | None, epoch_ratio: Mapping[str, float]) -> dict[str, Any]:
    """Train every method on a task, method by method for each seed, and say how each does beside the plain encoder.

    Time to an accuracy is epochs times `epoch_ratio`: these trainings take long, and a disturbance meets only some.
    """
    rows = _load(task)
    runs: dict[str, list[Run]] = {name: [] for name in METHODS}
    for seed in range(task.seeds):
        for name in METHODS:
            kept = work and work / f"{task.data} {seed} {name}.json"
            runs[name].append(
                Run(**record.once(kept, lambda name=name, seed=seed: asdict(train(name, task, rows, seed))))
            )
            last = runs[name][-1]
            print(f"{task.data} seed {seed} {name}: {last.accuracy:.4f} in {sum(last.seconds):.0f} s", flush=True)
    found = {}
    for name, ours in runs.items():
        pairs = list(zip(ours, runs[PLAIN], strict=True))
        targets = [plain.validated[-1] - TOLERANCE for plain in runs[PLAIN]]
        found[name] = {
            "accuracy": [run.accuracy for run in ours],
            "gap_points": 100 * mean(plain.accuracy - run.accuracy for run, plain in pairs),
            "prototypes95": median(run.prototypes95 for run in ours),
            "seconds": [sum(run.seconds) for run in ours],
            TIME_RATIO: epoch_ratio[name]
            * median(
                run.epochs_to(target) / plain.epochs_to(target)
                for (run, plain), target in zip(pairs, targets, strict=True)
            ),
            "curves": [{"seconds": run.seconds, "validated": run.validated} for run in ours],
        }
    return found


def timed_again(before: Mapping[str, Any], by_data: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the trainings of earlier results, with times to an accuracy by what an epoch takes now."""
    results: dict[str, Any] = before["results"]
    for data, methods in results.items():
        for name, found in methods.items():
            if found[TIME_RATIO] is not None:  # never reached
                found[TIME_RATIO] *= by_data[data][name] / before["epoch_ratio"][data][name]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="measure the time of an epoch alone, in under 3 minutes")
    parser.add_argument("--timing", action="store_true", help="measure times again, and keep the trainings there are")
    parser.add_argument("--work", type=Path, help="folder in which trainings that are done are kept")
    arguments = parser.parse_args()
    first = TASKS[0]
    if arguments.quick:
        ratios = _ratios(epoch_times(first, _load(first), rounds=3, steps=24))
        _show_ratios({first.data: ratios})
        print(f"training_cost epoch_ratio={ratios[OURS]:.3f} time_to_plain_minus_0.3_ratio=nan accuracy_gap=nan")
        return
    before = json.loads(RESULT.read_text(encoding="utf-8")) if arguments.timing else None
    by_data = {task.data: _ratios(epoch_times(task, _load(task), rounds=2, steps=80)) for task in TASKS}
    again = reencoding(first, _load(first), rounds=3)
    if before is None:
        results = {task.data: compare(task, arguments.work, by_data[task.data]) for task in TASKS}
    else:
        results = timed_again(before, by_data)
    for task in TASKS:
        _show(results[task.data], task.data)
    _show_ratios(by_data)
    epoch_ratio = max(ratios[OURS] for ratios in by_data.values())
    gap = max(found[name]["gap_points"] for found in results.values() for name in (OURS, "in-batch softmax"))
    time_ratio = max(found[OURS][TIME_RATIO] for found in results.values())
    record.write(
        "training_cost",
        {
            "epoch_ratio": by_data,
            "epoch_ratio_is": "the mean of 2 epochs of 80 steps each, which are enough rows to be trained as whole "
            "sets are; sampled is timed so, and not trained on",
            "reencoding": again,
            "results": results,
            "trained": datetime.now(UTC).date().isoformat()
            if before is None
            else before.get("trained", before["date"]),
            "held_out": HELD_OUT,
            "widths": WIDTHS,
            "seeds": {task.data: task.seeds for task in TASKS},
        },
    )
    print(f"re-encoding {again['reencoded']} of {MANY} candidates: {again['speedup']:.2f} times as fast")
    print(
        f"training_cost epoch_ratio={epoch_ratio:.3f} time_to_plain_minus_0.3_ratio={time_ratio:.2f} "
        f"accuracy_gap={gap:.2f}"
    )


def _prototypes95(clf: ProtoAttendClassifier, X: np.ndarray) -> float:
    return float(np.median([explanation.n_prototypes(0.95) for explanation in clf.explain(X)]))


def _load(task: Task) -> tuple[np.ndarray, np.ndarray]:
    data = datasets.load(task.data)
    order = np.random.default_rng(0).permutation(len(data.y))
    return np.asarray(data.X)[order], np.asarray(data.y)[order]


def _show(found: Mapping[str, Mapping[str, Any]], title: str) -> None:
    table = Table(title=title)
    shown = [name for name in next(iter(found.values())) if name != "curves"]
    for column in ("method", *shown):
        table.add_column(column)
    for name, values in found.items():
        table.add_row(name, *(_cell(values[column]) for column in shown))
    Console().print(table)


def _show_ratios(by_data: Mapping[str, Mapping[str, float]]) -> None:
    named = {name: {data: ratios[name] for data, ratios in by_data.items()} for name in next(iter(by_data.values()))}
    _show(named, "time of an epoch, beside the plain encoder's")


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return "" if value is None else f"{value:.3f}" if value < 10 else f"{value:.0f}"


def _ratios(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(a / b for a, b in zip(values, times[PLAIN], strict=True)) for name, values in times.items()}


if __name__ == "__main__":
    main()
