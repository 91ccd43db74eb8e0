"""Write docs/results.md, the page of measured figures, from the JSON files in benchmarks/results.

    python benchmarks/results_page.py

A figure whose benchmark has not been run is not on the page. The headlines stand in README.md too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import record
from results_decisions import condense, search
from results_defaults import conformal, defaults, tables
from results_readings import one_story, ood, readings
from results_section import Figures, mean
from results_training import normalize, recipes, scaling, step, training_cost

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
INTRODUCTION = """# Measured

Made by `benchmarks/results_page.py` from the files in [benchmarks/results](../benchmarks/results), each of which holds
its seed, machine, threads and date, and was written by the script of its name in [benchmarks](../benchmarks). All of it
was measured on two cores without a GPU. The paper's own tables and figures are in
[paper/RESULTS.md](../paper/RESULTS.md), with label noise, out-of-distribution inputs and all methods on one encoder.
"""
TEXTS, IMAGES = ("trec", "subjectivity", "stackoverflow"), ("digits", "fashion-mnist")
SECTIONS: tuple[Callable[[dict[str, Figures]], str], ...] = (
    one_story,
    ood,
    readings,
    defaults,
    tables,
    conformal,
    training_cost,
    recipes,
    step,
    scaling,
    search,
    normalize,
    condense,
)


def page(results: Path = record.RESULTS) -> str:
    """Return the page, from what is in the folder of results."""
    found = _read(results)
    return "\n".join([INTRODUCTION, *(part for part in (section(found) for section in SECTIONS) if part)])


def headlines(results: Path = record.RESULTS) -> list[str]:
    """Return what README.md says of the results: of models with nothing but defaults, and of what training costs."""
    found = _read(results)
    slower = max(ratios["in-batch sparsemax"] for ratios in found["training_cost"]["epoch_ratio"].values())
    return [
        *_of_one_story(found["one_story"]),
        _of_whole_sets(found["defaults"]),
        f"A training epoch takes {slower:.2f} times as long as the plain encoder's (the paper: 4.45).",
    ]


def _of_whole_sets(figures: Figures) -> str:
    runs = figures["runs"]

    def mean(part: str, key: str) -> float:
        return sum(run[key] for run in runs[part]) / len(runs[part])

    images = [
        f"{title} {mean(part, 'accuracy'):.2f}% in {mean(part, 'minutes'):.0f} minutes"
        for part, title in (("fashion", "Fashion-MNIST"), ("cifar", "CIFAR-10"))
    ]
    return f"Whole sets, by few prototypes: {', '.join(images)}, Adult {mean('adult', 'accuracy'):.2f}%."


def _read(results: Path) -> dict[str, Figures]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}


def _of_one_story(figures: Figures) -> list[str]:
    found, runs = figures["headline"], figures["runs"]
    texts = [name for name in runs if name in TEXTS]
    tables = [name for name in runs if name not in TEXTS + IMAGES]
    return [
        f"Accuracy: {-found['gap_to_plain']:+.2f} points beside the plain encoder; on {len(tables)} tables "
        f"{_beside_peer(runs, tables):+.1f} beside gradient boosting, on {len(texts)} sets of texts "
        f"{_beside_peer(runs, texts):+.1f} beside TF-IDF with logistic regression.",
        f"Confidence: ranked by it, errors have {found['aurc_vs_plain']:.2f} times the AURC that the plain encoder's "
        f"probabilities give, and {found['aurc_vs_own']:.2f} times that of our own.",
        f"Prototypes: {found['contradiction']:.1%} of predictions are not what most of their prototypes are; the "
        f"heaviest one is {found['likeness']:.0%} of the way from a random row of its class to the nearest.",
    ]


def _beside_peer(runs: Figures, names: list[str]) -> float:
    """Return by how many points we are more accurate than the peer, as the mean over sets."""
    gains = [mean(run["accuracy"] - run["peer_accuracy"] for run in runs[name]) for name in names]
    return 100 * mean(gains)


if __name__ == "__main__":
    PAGE.write_text(page())
