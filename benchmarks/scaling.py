"""How the time of a training step grows with the batch, the candidates and the processes.

    PROTOATTEND_DATA=../shared/data python benchmarks/scaling.py [--quick]

Each curve is measured point after point, several times over, and each point is the median; PNG and JSON into
benchmarks/results. Every time is also given as a ratio to the plain encoder on the same rows in the same round.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import record

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.baselines.plain import PlainClassifier
from protoattend.datasets import catalogue as datasets
from protoattend.encoders.image import FastCNN

ROWS, WIDTHS = 4096, (16, 64, 128)
FEW_INPUTS = 64  # so few that 2,048 candidates are enough for encoding most of them without gradient
TICKS = (0.3, 0.5, 1, 2, 5, 10, 20)  # milliseconds
COMMON = {
    "max_epochs": 1,
    "recipe": Recipe(mixup=0.0),
    "validation_fraction": 0.0,
    "random_state": 0,
    "verbose": 0,
    "augment": None,
}
Ways = Mapping[str, tuple[type[Any], dict[str, Any]]]
Curve = dict[int, dict[str, float]]  # at each size, milliseconds a row of each method


def milliseconds_a_row(kind: type[Any], X: np.ndarray, y: np.ndarray, **params: Any) -> float:
    """Return what a row of training costs, from one epoch's steps."""
    clf = kind(encoder=FastCNN(1, WIDTHS), **COMMON, **params).fit(X, y)
    return 1000 * clf.history_[0].seconds / len(y)


def by_batch_size(X: np.ndarray, y: np.ndarray, sizes: Sequence[int], rounds: int) -> Curve:
    ways: Ways = {
        "plain encoder": (PlainClassifier, {}),
        "in-batch": (ProtoAttendClassifier, {}),
    }
    return {size: _medians(ways, X, y, rounds, {"batch_size": size}) for size in sizes if size * 16 <= len(y)}


def by_candidates(X: np.ndarray, y: np.ndarray, sizes: Sequence[int], rounds: int) -> Curve:
    found = {}
    for size in sizes:
        ways: Ways = {
            "plain encoder": (PlainClassifier, {}),
            "bank": (ProtoAttendClassifier, {"candidates": "bank", "n_candidates": size}),
            "sampled": (ProtoAttendClassifier, {"candidates": "sampled", "n_candidates": size}),
        }
        found[size] = _medians(ways, X, y, rounds, {"batch_size": FEW_INPUTS})
    return found


def by_processes(X: np.ndarray, y: np.ndarray, counts: Sequence[int], rounds: int) -> Curve:
    """The plain encoder is always trained by one process, with all threads."""
    found = {}
    for count in counts:
        ways: Ways = {
            "plain encoder": (PlainClassifier, {}),
            "in-batch": (ProtoAttendClassifier, {"n_processes": count}),
        }
        found[count] = _medians(ways, X, y, rounds, {})
    return found


def _medians(
    ways: Mapping[str, tuple[type[Any], dict[str, Any]]],
    X: np.ndarray,
    y: np.ndarray,
    rounds: int,
    shared: dict[str, Any],
) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (kind, params) in ways.items():
            times[name].append(milliseconds_a_row(kind, X, y, **shared, **params))
    return {name: median(values) for name, values in times.items()}


def draw(curves: Mapping[str, Curve], path: str) -> None:
    """Draw each curve in a panel of its own."""
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.6), layout="constrained", sharey=True)
    for ax, (title, curve) in zip(axes, curves.items(), strict=True):
        for name in next(iter(curve.values())):
            ax.plot(list(curve), [found[name] for found in curve.values()], "o-", label=name)
        ax.set(xlabel=title, xscale="log", yscale="log")
        ax.set_xticks(list(curve), [f"{size:,}" for size in curve], minor=False)
        ax.set_yticks(TICKS, [f"{time:g}" for time in TICKS])
        ax.minorticks_off()
        ax.legend(frameon=False)
    axes[0].set_ylabel("milliseconds a training row")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer points, once each")
    quick = parser.parse_args().quick
    data = datasets.load("fashion-mnist")
    X, y = np.asarray(data.X)[:ROWS], np.asarray(data.y)[:ROWS]
    rounds = 1 if quick else 3
    curves = {
        "batch size": by_batch_size(X, y, (64, 256) if quick else (16, 32, 64, 128, 256), rounds),
        f"candidates (batch {FEW_INPUTS})": by_candidates(
            X, y, (256, 1024) if quick else (256, 512, 1024, 2048), rounds
        ),
        "processes": by_processes(X, y, (1, 2), rounds),
    }
    for title, curve in curves.items():
        for size, found in curve.items():
            ratios = ", ".join(
                f"{n} {t / found['plain encoder']:.2f}" for n, t in found.items() if n != "plain encoder"
            )
            print(f"{title} {size}: {found['plain encoder']:.2f} ms a row; beside the plain encoder {ratios}")
    if not quick:
        draw(curves, str(record.RESULTS / "scaling.png"))
        record.write("scaling", {"rows": ROWS, "widths": WIDTHS, "milliseconds_a_row": curves, "seed": 0})


if __name__ == "__main__":
    main()
