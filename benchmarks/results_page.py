"""Write docs/results.md, the page of measured figures, from the JSON files in benchmarks/results.

    python benchmarks/results_page.py

A figure whose benchmark has not been run is not on the page. The headlines stand in README.md too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import record

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
INTRODUCTION = """# Measured

Made by `benchmarks/results_page.py` from the files in [benchmarks/results](../benchmarks/results), each of which holds
its seed, machine, threads and date, and was written by the script of its name in [benchmarks](../benchmarks). All of it
was measured on two cores without a GPU. What `quality.py`, `trust.py`, `search.py`, `condense.py` and `noisy_labels.py`
measured is older than the two readings of the scores and than likeness, and says what was true before them.
"""
TITLES = {
    "adult-lstm": 'Adult, "lstm" of the paper',
    "adult-mlp": 'Adult, "mlp"',
    "fashion-fast-cnn": 'Fashion-MNIST, "fast-cnn"',
    "cifar-fast-cnn": 'CIFAR-10, "fast-cnn"',
    "cifar-half-width": 'CIFAR-10, half-width "fast-cnn", 8 epochs',
    "dbpedia-vdcnn": 'DBPedia (subset), "vdcnn" of the paper',
    "dbpedia-frozen": "DBPedia (subset), frozen MiniLM",
    "fruits-resnet32": 'Fruits (subset), "resnet32" of the paper',
    "fruits-frozen": "Fruits (subset), frozen EfficientNet-Lite0",
    "isic-resnet50": 'ISIC (subset), melanoma or not, "resnet50" of the paper',
}
TEXTS, IMAGES = ("trec", "subjectivity", "stackoverflow"), ("digits", "fashion-mnist")
Figures = dict[str, Any]


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
        f"A training epoch takes {slower:.2f} times as long as the plain encoder's (the paper: 4.45).",
    ]


def _read(results: Path) -> dict[str, Figures]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}


def _of_one_story(figures: Figures) -> list[str]:
    found, runs = figures["headline"], figures["runs"]
    texts = [name for name in runs if name in TEXTS]
    tables = [name for name in runs if name not in TEXTS + IMAGES]
    return [
        f"Accuracy: {-found['gap_to_plain']:+.1f} points beside the plain encoder; on {len(tables)} tables "
        f"{_beside_peer(runs, tables):+.1f} beside gradient boosting, on {len(texts)} sets of texts "
        f"{_beside_peer(runs, texts):+.1f} beside TF-IDF with logistic regression.",
        f"Confidence: ranked by it, errors have {found['aurc_vs_plain']:.2f} times the AURC that the plain encoder's "
        f"probabilities give, and {found['aurc_vs_own']:.2f} times that of our own.",
        f"Prototypes: {found['contradiction']:.1%} of predictions are not what most of their prototypes are; the "
        f"heaviest one is {found['likeness']:.0%} of the way from a random row of its class to the nearest.",
    ]


def _beside_peer(runs: Figures, names: list[str]) -> float:
    """Return by how many points we are more accurate than the peer, as the mean over sets and seeds."""
    gains = [run["accuracy"] - run["peer_accuracy"] for name in names for run in runs[name]]
    return 100 * sum(gains) / len(gains)


def accuracy(found: dict[str, Figures]) -> str:
    rows = []
    for name, title in TITLES.items():
        if (figures := found.get(f"quality-{name}")) is None:
            continue
        plain, ours = figures["plain"], figures["protoattend"]
        right, wrong = ours["confidence_right"], ours["confidence_wrong"]
        rows.append(
            (
                title,
                f"{plain['accuracy']:.2%}",
                f"{ours['accuracy']:.2%}",
                f"{ours['prototypes95']:.0f}",
                f"{right:.2f} / {'none' if wrong is None else f'{wrong:.2f}'}",
                f"{ours['minutes']:.1f}",
            )
        )
    head = ("data and encoder", "plain encoder", "ProtoAttend", "prototypes", "confidence if right / wrong", "minutes")
    return _section(
        "Accuracy on the test split (`quality.py`)",
        "Plain encoder and ProtoAttend (sparsemax) share encoder, training and seed. *Prototypes* is the median number "
        "that makes 95 % of a decision, *confidence* its mean, *minutes* the training of ProtoAttend.",
        head,
        rows,
    )


def training_cost(found: dict[str, Figures]) -> str:
    if (figures := found.get("training_cost")) is None:
        return ""
    rows = []
    for data, methods in figures["results"].items():
        for name, values in methods.items():
            mean = sum(values["accuracy"]) / len(values["accuracy"])
            rows.append(
                (
                    data,
                    name,
                    f"{mean:.2%}",
                    f"{values['gap_points']:.2f}",
                    f"{figures['epoch_ratio'][data][name]:.2f}",
                    _unless_missing(values["time_to_plain_minus_0.3_ratio"], ".2f", "not reached"),
                    _unless_missing(values["prototypes95"], ",.0f", ""),
                )
            )
    again = figures["reencoding"]
    return _section(
        "What training costs (`training_cost.py`)",
        f'Half-width "fast-cnn", {figures["held_out"]:,} held-out rows, seeds: {_listed(figures["seeds"])}. Time of an '
        "epoch and time to the plain encoder's last validation accuracy less 0.3 points are ratios to the plain "
        f"encoder's; {_sampled(figures['epoch_ratio'])}. With {again['candidates']:,} sampled candidates a step is "
        f"{again['speedup']:.1f} times as fast when only those with weight are encoded with gradient.",
        ("data", "method", "accuracy", "points below plain", "time of an epoch", "time to accuracy", "prototypes"),
        rows,
    )


def _unless_missing(figure: float | None, form: str, missing: str) -> str:
    return missing if figure is None else format(figure, form)


def _sampled(by_data: dict[str, dict[str, float]]) -> str:
    """Return what the paper's own way, candidates encoded again at each step, costs."""
    return "; ".join(
        f"{name} on {data} takes {ratio:.1f} times as long (timed, not trained to the end)"
        for data, ratios in by_data.items()
        for name, ratio in ratios.items()
        if name.startswith("sampled")
    )


def recipes(found: dict[str, Figures]) -> str:
    studies = {name: figures for name, figures in found.items() if name.startswith("recipes-")}
    rows = [
        (
            name.removeprefix("recipes-"),
            variant,
            f"{values['prototype_accuracy']:.2%}" if variant != "plain encoder" else "",
            f"{values['self_accuracy']:.2%}",
            f"{values['prototypes95']:.0f}" if variant != "plain encoder" else "",
        )
        for name, figures in studies.items()
        for variant, values in figures["variants"].items()
    ]
    if not rows:
        return ""
    first = next(iter(studies.values()))
    return _section(
        "What each choice in training does (`recipes.py`)",
        f'{first["epochs"]} epochs of a half-width "fast-cnn", {first["held_out"]:,} held-out rows, one seed; each row '
        "changes one thing in the recipe that quality.py uses, and nothing else: the paper's loss has our learning "
        "rate here, which is too high for it. Prototypes are counted before weights are made sharper.",
        ("data", "what is changed", "by prototypes", "by own value", "prototypes"),
        rows,
    )


def table1(found: dict[str, Figures]) -> str:
    if (figures := found.get("table1")) is None:
        return ""
    rows = [
        (
            objective,
            f"{values['self_accuracy']:.2%}",
            f"{values['prototype_accuracy']:.2%}",
            *(_two(values, name) for name in ("joint_right", "joint_wrong")),
            *(_two(values, name) for name in ("confidence_of_right", "confidence_of_wrong")),
            " / ".join(f"{value:g}" for value in figures["paper"][objective]),
        )
        for objective, values in figures["objectives"].items()
    ]
    return _section(
        "The paper's training objectives (`table1.py`)",
        f'recipe="paper" with softmax attention on {figures["rows"]:,} rows of Fashion-MNIST, {figures["encoder"]}, '
        f"{figures['epochs']} epochs, {figures['candidates']:,} candidates a step, {figures['seeds']} seed(s). The "
        "means of C of right and of wrong decisions are over all rows (joint), as the paper's figures add up, then "
        "over those decisions alone. The paper has all 60,000 rows and about a thousand epochs.",
        ("objective", "alpha 0", "alpha 1", "C, right", "C, wrong", "C if right", "C if wrong", "the paper's"),
        rows,
    )


def _two(values: Figures, name: str) -> str:
    return "" if values[name] is None else f"{values[name]:.3f}"


def step(found: dict[str, Figures]) -> str:
    if (figures := found.get("step")) is None:
        return ""
    return _section(
        "Where the time of a training step goes (`step.py`)",
        f'Fashion-MNIST, "fast-cnn", in-batch sparsemax; 256 images take {figures["milliseconds"]:.0f} ms.',
        ("part", "share"),
        [(part, f"{share:.1%}") for part, share in figures["shares"].items()],
    )


def search(found: dict[str, Figures]) -> str:
    if (figures := found.get("search")) is None:
        return ""
    names = next(iter(figures["milliseconds"].values()))
    rows = [
        (size, *(f"{times[name]:.2f}" if name in times else "" for name in names))
        for size, times in figures["milliseconds"].items()
    ]
    large = figures["ten_million"]
    return _section(
        "Exact attention over many candidates (`search.py`)",
        "Milliseconds for B queries and D candidates. Ours gives logits, class mass and the ten heaviest prototypes; "
        f"faiss gives 64 neighbours. Ten million candidates on disk: opened in {large['open']:.0f} ms, one query "
        f"{large['B=1']:.0f} ms, 256 queries {large['B=256']:.0f} ms, {large['rss_gb']:.2f} GB of memory at the most.",
        ("", *names),
        rows,
    )


def normalize(found: dict[str, Figures]) -> str:
    if (figures := found.get("normalize")) is None:
        return ""
    names = next(iter(figures["milliseconds"].values()))
    rows = [(size, *(f"{times[name]:.2f}" for name in names)) for size, times in figures["milliseconds"].items()]
    return _section(
        "Sparsemax, forward and backward (`normalize.py`)", "Milliseconds.", ("rows x candidates", *names), rows
    )


def trust(found: dict[str, Figures]) -> str:
    if (figures := found.get("trust")) is None:
        return ""
    parts = []
    for name, images in figures["images"].items():
        risk = images["selective"]
        means = {score: sum(by.values()) / len(by) for score, by in images["ood_auroc"].items()}
        parts.append(
            (
                TITLES.get(name, name),
                f"{risk['aurc']:.4f}",
                f"{risk['sparsemax']['aurc']:.4f}",
                f"{risk['aurc_probability']:.4f}",
                f"{risk['aurc_msp']:.4f}",
                f"{risk['aurc_knn']:.4f}",
                ", ".join(f"{float(asked):.0%}: {got:.1%}" for asked, got in images["conformal"].items()),
                f"{means['ours combined']:.4f}",
                f"{means[images['ood_best_peer']]:.4f} ({images['ood_best_peer']})",
            )
        )
    head = (
        "data", "AURC of C, softmax", "sparsemax", "of our probabilities", "of plain MSP", "of kNN", "coverage of sets",
        "OOD inputs, AUROC", "best peer",
    )  # fmt: skip
    answers = _section(
        "Selective prediction, prediction sets and OOD detection (`trust.py`)",
        "AURC is the mean error over all coverages: less is better. Softmax attention ranks as it was trained; of "
        "sparsemax the number of prototypes was chosen on the other half of the images. Coverage is that of prediction "
        "sets, by the one asked for. AUROC is the mean over all out-of-distribution (OOD) sets.",
        head,
        parts,
    )
    numbers = list(next(iter(figures["images"].values()))["selective"]["by_number_of_prototypes"])
    finer = _section(
        "Confidence by number of prototypes (`trust.py`)",
        "AURC of C by sparsemax. Few prototypes mostly agree, rightly or not; of many, some disagree where an answer "
        "is wrong. `database_.set_n_prototypes(n)` sets the number without training.",
        ("data", *numbers),
        [
            (TITLES.get(name, name), *(f"{by[number]['aurc']:.4f}" for number in numbers))
            for name, images in figures["images"].items()
            for by in [images["selective"]["by_number_of_prototypes"]]
        ],
    )
    labels = [(case, f"{by['ours']:.3f}", f"{by['cleanlab']:.3f}") for case, by in figures["labels"].items()]
    wrong = _section(
        "Label errors (`trust.py`)",
        "Average precision at finding changed labels; cleanlab judges by the probabilities of the same models.",
        ("data and share of wrong labels", "ours", "cleanlab"),
        labels,
    )
    return f"{answers}\n{finer}\n{_ood_inputs(figures['images'])}\n{wrong}"


def _ood_inputs(by_images: dict[str, Figures]) -> str:
    """Return a table of every score's AUROC on every out-of-distribution set."""
    rows = [
        (TITLES.get(name, name), score, *(f"{auroc:.3f}" for auroc in by_set.values()))
        for name, images in by_images.items()
        for score, by_set in images["ood_auroc"].items()
    ]
    sets = next(iter(next(iter(by_images.values()))["ood_auroc"].values()))
    return _section(
        "Out-of-distribution inputs (`trust.py`)",
        "AUROC by score and set, with 8 prototypes; *ours disagreement* is the paper's score, *ours neighbours* what "
        "`ood_score` gives unless asked otherwise. Below 0.5, in-distribution images get the higher scores.",
        ("data", "score", *sets),
        rows,
    )


def noisy_labels(found: dict[str, Figures]) -> str:
    if (figures := found.get("noisy_labels")) is None:
        return ""
    rates = sorted({case["rate"] for case in figures["accuracy"]})
    by_way: dict[tuple[str, float], dict[float, float]] = {}
    for case in figures["accuracy"]:
        by_way.setdefault((case["way"], case["mixup"]), {})[case["rate"]] = case["accuracy"]
    return _section(
        "Training on wrong labels (`noisy_labels.py`)",
        f"Accuracy on right test labels of {figures['data']}, mean of {figures['seeds']} seeds, by the share of wrong "
        "labels in training.",
        ("trained by", "mixup", *(f"{rate:.0%}" for rate in rates)),
        [(way, f"{mixup:g}", *(f"{by_rate[rate]:.1%}" for rate in rates)) for (way, mixup), by_rate in by_way.items()],
    )


def scaling(found: dict[str, Figures]) -> str:
    if "scaling" not in found:
        return ""
    return (
        "## How the time of a step grows (`scaling.py`)\n\n![time by batch size, candidates and processes]"
        "(../benchmarks/results/scaling.png)\n"
    )


def condense(found: dict[str, Figures]) -> str:
    if "condense" not in found:
        return ""
    return "## A smaller database (`condense.py`)\n\n![accuracy by size](../benchmarks/results/condense.png)\n"


def one_story(found: dict[str, Figures]) -> str:
    """Whether decision, prototypes and confidence agree, set by set."""
    if (figures := found.get("one_story")) is None:
        return ""
    rows = []
    for name, runs in figures["runs"].items():
        mean = {key: sum(run[key] for run in runs) / len(runs) for key in runs[0] if not key.startswith("calibration")}
        totals = [sum(column) for column in zip(*(run["calibration"] for run in runs), strict=True)]
        error = sum(map(abs, totals[:-1])) / totals[-1]
        rows.append(
            (
                name,
                " / ".join(f"{mean[key]:.1%}" for key in ("accuracy", "plain_accuracy", "peer_accuracy")),
                " / ".join(f"{mean[key]:.4f}" for key in ("aurc", "aurc_own", "plain_aurc", "peer_aurc")),
                f"{error:.3f}",
                f"{mean['contradiction']:.3f}",
                f"{mean['likeness']:.2f}",
                f"{mean['hubs']:.2f}",
                f"{mean['prototypes']:.0f}",
                f"{mean['seconds']:.0f}",
            )
        )
    text = (
        f"Constructor defaults, means over {len(figures['seeds'])} seeds. Accuracy: ours / plain encoder / peer "
        "(gradient boosting for\ntables, TF-IDF and logistic regression for texts, logistic regression of pixels for "
        "images). AURC: of confidence / of our\nlargest probability / of the plain encoder's / of the peer's. ECE of "
        "our probabilities, over the rows of all seeds.\nContradiction: predictions that are not the class with most "
        "shown weight. Likeness of the heaviest prototype: 0 is a\nrandom row of its class, 1 the nearest. Hubs: "
        "inputs whose heaviest prototype is one of two rows. Prototypes for 95 % of\na decision. Seconds of training, "
        "on one thread beside other work."
    )
    head = ("set", "accuracy", "AURC", "ECE", "contradiction", "likeness", "hubs", "prototypes", "seconds")
    return _section("Decision, prototypes and confidence agree", text, head, rows)


def compare(found: dict[str, Figures]) -> str:
    """Every method's confidence and examples, set by set, as means over seeds."""
    if (figures := found.get("compare")) is None:
        return ""
    confidence, examples = [], []
    for data, runs in figures["runs"].items():
        for method in runs[0]["confidence"]:
            each = [run["confidence"][method] for run in runs]
            ood = {other: _mean(one["ood_auroc"][other] for one in each) for other in each[0]["ood_auroc"]}
            told = ", ".join(f"{other} {auroc:.3f}" for other, auroc in ood.items())
            right = _mean(one["accuracy"] for one in each)
            confidence.append((data, method, f"{right:.2%}", _spread([one["aurc"] for one in each]), told))
        for method in runs[0]["examples"]:
            each = [run["examples"][method] for run in runs]
            keys = ("same_class", "deletion", "insertion", "learned", "busiest")
            examples.append((data, method, *(f"{_mean(one[key] for one in each):.3f}" for key in keys)))
    first = _section(
        "Confidence of other methods on the same encoder (`compare.py`)",
        f"All by their defaults, means over {len(figures['seeds'])} seed(s); the ensemble has {figures['members']} "
        "networks. Peers sit on one plain encoder or, where it says so, on ours, trained with attention. AURC is "
        "the mean error over all coverages, with its range over seeds; AUROC that of low confidence at detecting "
        "out-of-distribution images.",
        ("data", "method", "accuracy", "AURC", "AUROC"),
        confidence,
    )
    second = _section(
        "Examples of other methods on the same encoder (`compare.py`)",
        f"The {figures['examples']} training rows that each method holds most important for an input. Same class: "
        "share of their weight on the input's class. Deletion and insertion: how much more the decision loses without "
        "them, and gains by them alone, than with random rows. Learned: share of the weight that goes elsewhere when "
        "the network's parameters are shuffled. Busiest: the largest share of all weight that one row has.",
        ("data", "method", "same class", "deletion", "insertion", "learned", "busiest"),
        examples,
    )
    return f"{first}\n{second}"


def _spread(values: list[float]) -> str:
    """Return the mean and, of several seeds, the least and the largest: a difference within them says nothing."""
    ends = f" ({min(values):.4f} to {max(values):.4f})" if len(values) > 1 else ""
    return f"{_mean(values):.4f}{ends}"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


SECTIONS: tuple[Callable[[dict[str, Figures]], str], ...] = (
    accuracy,
    one_story,
    training_cost,
    recipes,
    table1,
    step,
    scaling,
    search,
    normalize,
    trust,
    compare,
    noisy_labels,
    condense,
)


def _section(title: str, text: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## {title}\n\n{text}\n\n{table}\n"


def _listed(seeds: dict[str, int]) -> str:
    return ", ".join(f"{count} on {data}" for data, count in seeds.items())


if __name__ == "__main__":
    PAGE.write_text(page())
