"""Draw the figures of paper/RESULTS.md from the JSON files in paper/results.

    python paper/figures.py

Each figure is a function of the reports. Which can be drawn depends on the runs that are there.
"""

from __future__ import annotations

import io
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protoattend.reproduce.runs import read_reports
from protoattend.viz.palette import AGREES, DIFFERS, INK, LINE, QUIET
from protoattend.viz.style import dress, next_look, panels, percents

HERE = Path(__file__).parent
Report = Mapping[str, Any]
LEVELS = [i / 20 for i in range(21)]
FALSE_ALARMS = [i / 25 for i in range(26)]
TITLES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar-10": "CIFAR-10",
    "dbpedia": "DBPedia, a subset",
    "adult": "Adult",
    "notmnist": "notMNIST",
    "fruits": "Fruits",
    "isic": "ISIC",
    "test": "test rows",
    "rotated": "rotated test rows",
}


@dataclass(frozen=True)
class Figure:
    """A figure by the reports it needs, all of which must be there; `draw` gets them in this order.

    `shows` says of them whether there is anything to draw.
    """

    title: str
    needs: tuple[str, ...]
    draw: Callable[..., Any]
    shows: Callable[..., bool] = lambda *reports: True


def named(name: str) -> str:
    return TITLES.get(name, name)


def reliability(report: Report) -> Any:
    """Accuracy by bins of confidence, as bars, with the number of rows as a line, as in the paper."""
    both = panels(2, "figures", (9.2, 3.6))
    for ax, method in zip(both, ("ProtoAttend softmax, C", "ProtoAttend, C"), strict=True):
        found = report["figures"]["confidence"][method]["reliability"]
        middle = [(i + 0.5) / 10 for i in range(10)]
        ax.bar(middle, [value or 0 for value in found["accuracy"]], width=0.09, color=AGREES, alpha=0.75)
        ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=":")
        dress(ax, title=f"{method} (ECE {found['ece']:.3f})", xlabel="confidence", ylabel="accuracy")
        ax.set_ylim(0, 1.02)
        counts = ax.twinx()
        counts.plot(middle, found["counts"], color=DIFFERS, marker="o", markersize=3)
        counts.set_ylabel("test rows", color=DIFFERS)
        counts.set_ylim(bottom=0)
        counts.spines[["top"]].set_visible(False)
    return both[0].figure


def ratio(methods: tuple[str, ...]) -> Callable[[Report], Any]:
    """Return what draws accuracy against the ratio of rows that are answered, for some methods."""

    def draw(report: Report) -> Any:
        ax = panels(1, "figures", (6.4, 4.2))
        for method in methods:
            found = report["figures"]["confidence"][method]["selective"]
            label = f"{method} (AURC {found['aurc']:.4f})"
            ax.plot(found["coverage"], found["accuracy"], label=label, **next_look(ax))
        return _ratio(ax, named(report["data"]))

    return draw


def softmax_and_sparsemax(*reports: Report) -> Any:
    """Accuracy against ratio of both normalisations, set by set."""
    places = panels(len(reports), "figures", (4.4 * len(reports), 3.6))
    for ax, report in zip(places if len(reports) > 1 else [places], reports, strict=True):
        for method in ("plain", "softmax", "sparsemax"):
            found = report["figures"][method]["selective"]
            ax.plot(found["coverage"], found["accuracy"], label=method, **next_look(ax))
        _ratio(ax, named(report["data"]))
    return (places[0] if len(reports) > 1 else places).figure


def _ratio(ax: Any, title: str) -> Any:
    dress(ax, title=title, xlabel="ratio of rows answered", ylabel="accuracy")
    percents(ax.xaxis)
    percents(ax.yaxis)
    ax.invert_xaxis()
    ax.legend(frameon=False, fontsize=8)
    return ax.figure


def above(report: Report) -> Any:
    """The share of rows above each confidence, for test rows and sets that deviate from them."""
    both = panels(2, "figures", (10.0, 3.8))
    for ax, method in zip(both, ("ProtoAttend softmax, C", "ProtoAttend, C"), strict=True):
        for name, shares in report["figures"]["confidence"][method]["above"].items():
            ax.plot(LEVELS, shares, label=named(name), **next_look(ax))
        dress(ax, title=method, xlabel="confidence", ylabel="ratio of rows above it")
        ax.legend(frameon=False, fontsize=8)
    return both[0].figure


def roc(report: Report) -> Any:
    """ROC curves of telling other sets from test rows, ours beside the plain encoder's largest probability."""
    methods = ("ProtoAttend softmax, C", "ProtoAttend, C", "ProtoAttend, ood_score", "MSP")
    sets = [name for name in report["figures"]["confidence"]["MSP"]["roc"] if name != "rotated"]
    places = panels(len(sets), "figures", (4.8 * len(sets), 4.2))
    for ax, other in zip(places, sets, strict=True):
        for method in methods:
            found = report["figures"]["confidence"][method]
            label = f"{method} ({found['ood_auroc'][other]:.3f})"
            ax.plot(FALSE_ALARMS, found["roc"][other], label=label, **next_look(ax))
        title = f"{named(report['data'])} against {named(other)}"
        dress(ax, title=title, xlabel="test rows taken for others", ylabel="others detected")
        ax.legend(frameon=False, fontsize=8)
    return places[0].figure


def melanoma(report: Report) -> Any:
    ax = panels(1, "figures", (6.0, 4.0))
    for method, found in report["figures"].items():
        known = [(x, y) for x, y in zip(found["coverage"], found["auc_by_coverage"], strict=True) if y is not None]
        ax.plot(*zip(*known, strict=True), label=f"{method} ({found['auc']:.3f} of all)", **next_look(ax))
    dress(ax, title="ISIC: AUC of the rows answered", xlabel="ratio of rows answered", ylabel="AUC")
    percents(ax.xaxis)
    ax.invert_xaxis()
    ax.legend(frameon=False, fontsize=8)
    return ax.figure


def sparsity(report: Report) -> Any:
    """How the number of prototypes falls in training, for each lambda_sparse."""
    ax = panels(1, "figures", (6.4, 4.2))
    for value, found in report["figures"].items():
        steps, _, counts = zip(*found["curve"], strict=True)
        label = f"lambda_sparse {value} ({100 * found['accuracy']:.1f} %)"
        ax.plot(steps, counts, label=label, marker="o", markersize=3, **next_look(ax))
    dress(ax, title="Fashion-MNIST, softmax", xlabel="iterations", ylabel="prototypes for 95 %, median")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    return ax.figure


def learning(*reports: Report) -> Any:
    """Accuracy on held-out rows in the course of training: how far the short runs got."""
    places = panels(len(reports), "figures", (4.6 * len(reports), 3.6))
    for ax, report in zip(places if len(reports) > 1 else [places], reports, strict=True):
        for method, found in report["figures"].items():
            steps, accuracies, _ = zip(*found["curve"], strict=True)
            ax.plot(steps, accuracies, label=method, marker="o", markersize=3, **next_look(ax))
        title = f"{named(report['data'])}, {report['recipe']}"
        dress(ax, title=title, xlabel="iterations", ylabel="accuracy on held-out rows")
        percents(ax.yaxis)
        ax.legend(frameon=False, fontsize=8)
    return (places[0] if len(reports) > 1 else places).figure


def shown(method: str, which: str) -> Callable[[Report], Any]:
    """Return what draws decisions, each a row: the input, then its prototypes with label and weight."""

    def draw(report: Report) -> Any:
        return _decisions(report["figures"][method][which])

    return draw


def _decisions(decisions: list[Report]) -> Any:
    import matplotlib.pyplot as plt

    columns = 1 + max(len(each["prototypes"]) for each in decisions)
    images = isinstance(decisions[0]["input"], Mapping) and "png" in decisions[0]["input"]
    size = (1.35 * columns, 1.6 * len(decisions)) if images else (2.6 * columns, 1.9 * len(decisions))
    figure, places = plt.subplots(len(decisions), columns, figsize=size, layout="constrained", squeeze=False)
    for row, each in zip(places, decisions, strict=True):
        _sample(row[0], each["input"])
        wrong = each["prediction"] != each["label"]
        told = f"{each['label']}, taken for {each['prediction']}" if wrong else each["label"]
        row[0].set_title(told, size=7, color=DIFFERS if wrong else INK, weight="bold", wrap=True)
        for ax, prototype in zip(row[1:], each["prototypes"], strict=False):
            _sample(ax, prototype["input"])
            agrees = prototype["label"] == each["label"]
            colour = AGREES if agrees else DIFFERS
            ax.set_title(f"{prototype['weight']:.2f}  {prototype['label']}", size=7, color=colour)
        for ax in row:
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color(LINE)
        for ax in row[1 + len(each["prototypes"]) :]:
            ax.set_axis_off()
    return figure


def side_by_side(report: Report) -> Any:
    """For each input, on the left, what every method holds most important, a line each."""
    import matplotlib.pyplot as plt

    inputs = report["figures"]["side_by_side"]
    lines = [(each, name, found) for each in inputs for name, found in each["found_by"].items()]
    columns = 1 + max(len(found) for _, _, found in lines)
    figure, places = plt.subplots(
        len(lines), columns, figsize=(1.35 * columns + 1, 1.5 * len(lines)), layout="constrained", squeeze=False
    )
    for i, (row, (each, name, found)) in enumerate(zip(places, lines, strict=True)):
        for ax in row:
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color(LINE)
        if i % len(each["found_by"]) == 0:
            _sample(row[0], each["input"])
            row[0].set_title(each["label"], size=7, weight="bold", color=INK)
        else:
            row[0].spines[:].set_visible(False)
        row[0].set_ylabel(name, size=7, rotation=0, ha="right", va="center")
        for ax, example in zip(row[1:], found, strict=False):
            _sample(ax, example["input"])
            ax.set_title(example["label"], size=7, color=AGREES if example["label"] == each["label"] else DIFFERS)
        for ax in row[1 + len(found) :]:
            ax.set_axis_off()
    return figure


def _sample(ax: Any, sample: Any) -> None:
    import textwrap

    import matplotlib.image

    if isinstance(sample, Mapping) and "png" in sample:
        ax.imshow(matplotlib.image.imread(io.BytesIO(b64decode(sample["png"])), format="png"), cmap="gray_r")
        return
    if isinstance(sample, Mapping):
        lines = [f"{name} {value}" for name, value in sample.items() if value not in ("0", "0.0")][:12]
    else:
        lines = textwrap.wrap(sample, 34)[:7]
    ax.text(0.03, 0.97, "\n".join(lines), va="top", size=6.2, color=INK, transform=ax.transAxes)


def _of_set(data: str, recipe: str, experiment: str = "table2") -> dict[str, Figure]:
    """Return the figures of decisions that a run has kept of one set."""
    run = f"{experiment}-{data}-{recipe}-0"
    title = f"{named(data)} ({recipe}, sparsemax)"
    return {
        f"examples-{data}-{recipe}": Figure(
            f"Inputs (left) and their prototypes, {title}", (run,), shown("sparsemax", "examples")
        ),
        f"wrong-{data}-{recipe}": Figure(
            f"Wrong decisions: the labels of prototypes say what they were taken for, {title}",
            (run,),
            shown("sparsemax", "wrong"),
            lambda report: bool(report["figures"]["sparsemax"]["wrong"]),
        ),
    }


FIGURES: Mapping[str, Figure] = {
    "reliability-fashion-mnist": Figure(
        "Reliability diagram, Fashion-MNIST: softmax attention, and our default",
        ("compare-fashion-mnist-ours-0",),
        reliability,
    ),
    "ratio-mnist": Figure(
        "Accuracy against ratio, MNIST, beside deep kNN",
        ("compare-mnist-ours-0",),
        ratio(("ProtoAttend softmax, C", "ProtoAttend, C", "deep kNN, credibility", "MSP")),
    ),
    "ratio-fashion-mnist": Figure(
        "Accuracy against ratio, Fashion-MNIST",
        ("compare-fashion-mnist-ours-0",),
        ratio(("ProtoAttend softmax, C", "ProtoAttend, C", "deep kNN, credibility", "trust score", "deep ensemble")),
    ),
    "ratio-cifar-10": Figure(
        "Accuracy against ratio, CIFAR-10, beside trust score and an ensemble of four",
        ("compare-cifar-10-ours-0",),
        ratio(("ProtoAttend softmax, C", "ProtoAttend, C", "trust score", "deep ensemble", "MSP")),
    ),
    **{
        f"normalize-{data}": Figure(
            f"Accuracy against ratio by normalisation, {named(data)}", (f"table2-{data}-ours-0",), softmax_and_sparsemax
        )
        for data in ("mnist", "fashion-mnist", "dbpedia", "adult")
    },
    "above-fashion-mnist": Figure(
        "Ratio of rows above a confidence, trained on Fashion-MNIST", ("compare-fashion-mnist-ours-0",), above
    ),
    "roc-fashion-mnist": Figure("Out-of-distribution detection, Fashion-MNIST", ("compare-fashion-mnist-ours-0",), roc),
    "roc-cifar-10": Figure(
        "Out-of-distribution detection, CIFAR-10; MNIST and Fruits stand in for SVHN", ("compare-cifar-10-ours-0",), roc
    ),
    **{
        f"melanoma-{recipe}": Figure(f"ISIC: AUC against ratio, {recipe}", (f"melanoma-isic-{recipe}-0",), melanoma)
        for recipe in ("ours", "paper")
    },
    "sparsity": Figure("Number of prototypes in the course of training", ("sparsity-fashion-mnist-paper-0",), sparsity),
    **{
        f"learning-{data}": Figure(f"How far the short runs got, {named(data)}", (f"table2-{data}-paper-0",), learning)
        for data in ("mnist", "fashion-mnist", "cifar-10", "dbpedia", "adult")
    },
    **{
        name: figure
        for data in ("mnist", "fashion-mnist", "cifar-10", "fruits", "dbpedia", "adult")
        for name, figure in _of_set(data, "ours").items()
    },
    **_of_set("isic", "ours", "melanoma"),
    **{
        f"side-by-side-{data}": Figure(
            f"Training rows that each method holds most important, {named(data)}, frozen features",
            (f"compare-{data}-frozen-ours-0",),
            side_by_side,
        )
        for data in ("fruits", "isic")
    },
}


def drawable(reports: Mapping[str, Report]) -> dict[str, Figure]:
    """Return the figures whose reports are all there and show something."""
    there = {name: figure for name, figure in FIGURES.items() if all(run in reports for run in figure.needs)}
    return {name: figure for name, figure in there.items() if figure.shows(*(reports[run] for run in figure.needs))}


def titles(reports: Mapping[str, Report]) -> dict[str, str]:
    """Return the titles of the figures whose reports are all there."""
    return {name: figure.title for name, figure in drawable(reports).items()}


def draw_all(results: Path, folder: Path) -> int:
    """Draw every figure whose runs are there, and return how many there are."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    reports = read_reports(results)
    for name, figure in drawable(reports).items():
        drawn = figure.draw(*(reports[run] for run in figure.needs))
        drawn.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(drawn)
    return len(drawable(reports))


if __name__ == "__main__":
    print(f"figures drawn={draw_all(HERE / 'results', HERE / 'figures')}")
