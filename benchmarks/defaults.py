"""What do the constructor's defaults reach, beside what people would use without us?

    PROTOATTEND_DATA=../shared/data python benchmarks/defaults.py --work FOLDER [--parts tables,texts,adult]

Tables (nine, and 10,000 rows of Adult) beside gradient boosting, texts beside TF-IDF and logistic regression: by
`one_story.run`, with its seeds, whose kept runs in FOLDER count. All of Adult with five seeds, Fashion-MNIST, MNIST and
CIFAR-10 in one run each, with the minutes of their training. Each run is kept in FOLDER. Writes
benchmarks/results/defaults.json of the parts that were asked for, and prints last `defaults tables_minus_hgb=…
tables_aurc_vs_hgb=… texts_minus_tfidf=… texts_aurc_vs_tfidf=… text_seconds=… fashion=… adult=…` (points, ratios of
AURC, seconds of the slowest text set, %).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import one_story
import record

from protoattend import ProtoAttendClassifier
from protoattend.datasets import catalogue
from protoattend.reproduce.record import circumstances

TABLES = (*one_story.TABLES, "adult")
WHOLE = {  # name, seeds
    "adult": ("adult", 5),
    "fashion": ("fashion-mnist", 1),
    "mnist": ("mnist", 1),
    "cifar": ("cifar-10", 1),
}
PARTS = ("tables", "texts", *WHOLE)


def train_whole(name: str, seed: int) -> dict[str, Any]:
    """Train on all of a set and return the accuracy on its test split, in %, the minutes of training, and the date."""
    train, test = catalogue.load(name), catalogue.load(name, "test")
    started = time.perf_counter()
    clf = ProtoAttendClassifier(random_state=seed).fit(train.X, train.y)
    minutes = (time.perf_counter() - started) / 60
    explained = clf.explain(test.X[:1000])
    return {
        "accuracy": 100 * clf.score(test.X, test.y),
        "minutes": minutes,
        "prototypes": float(np.median([e.n_prototypes(0.95) for e in explained])),
        "date": circumstances()["date"],
    }


def beside_peers(runs: dict[str, list[dict[str, Any]]], kind: str, peer: str) -> dict[str, float]:
    """Return by how many points we are ahead of the peer, and the ratio of AURC, over the sets of a kind."""
    means = [one_story.averaged(own) for own in runs.values()]
    ahead = float(np.mean([m["accuracy"] - m["peer_accuracy"] for m in means]))
    return {f"{kind}_minus_{peer}": 100 * ahead, f"{kind}_aurc_vs_{peer}": one_story.ratio(means, "aurc", "peer_aurc")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder in which each run is kept")
    parser.add_argument("--parts", default=",".join(PARTS))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    parts = arguments.parts.split(",")
    figures: dict[str, float] = {}
    kept: dict[str, Any] = {}

    def runs_of(
        name: str, seeds: Iterable[int], run: Callable[[str, int], dict[str, Any]], what: str = ""
    ) -> list[Any]:
        paths = {seed: arguments.work / f"{what}{name} {seed}.json" for seed in seeds}
        return [record.once(path, lambda seed=seed: run(name, seed)) for seed, path in paths.items()]

    for part, sets, peer in (("tables", TABLES, "hgb"), ("texts", one_story.TEXTS, "tfidf")):
        if part in parts:
            kept[part] = {name: runs_of(name, one_story.seeds_of(name), one_story.run) for name in sets}
            figures |= beside_peers(kept[part], part, peer)
    if "texts" in parts:
        figures["text_seconds"] = max(float(np.mean([run["seconds"] for run in own])) for own in kept["texts"].values())
    for part, (name, seeds) in WHOLE.items():
        if part in parts:
            kept[part] = runs_of(name, range(seeds), train_whole, "whole ")
            figures[part] = float(np.mean([run["accuracy"] for run in kept[part]]))
    record.write("defaults", {"runs": kept, "headline": figures})
    print("defaults " + " ".join(f"{name}={value:.4f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
