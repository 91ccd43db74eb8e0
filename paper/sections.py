"""The sections of paper/RESULTS.md: each is a function of the reports, and empty where its runs are missing."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from protoattend.datasets.paper import appendix

PUBLISHED, TEXTS = (
    tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("published", "texts")
)
Report = Mapping[str, Any]
Reports = Mapping[str, Report]
SHARES = ("50%", "90%", "95%")


def section(name: str, rows: Sequence[Iterable[str]]) -> str:
    """Return a section with a table, its title, text and head by this name; nothing where there is no row."""
    if not rows:
        return ""
    head = TEXTS[name]["head"]
    line = "---" + " | ---" * head.count(" | ")
    table = "\n".join(f"| {each} |" for each in [head, line, *(" | ".join(row) for row in rows)])
    return f"## {TEXTS[name]['title']}\n\n{TEXTS[name]['text']}\n\n{table}\n"


def groups(reports: Reports, experiment: str) -> Iterator[tuple[str, str, list[Report]]]:
    """Yield data, recipe and the reports of all seeds, in the order of their names."""
    found: dict[tuple[str, str], list[Report]] = {}
    for report in reports.values():
        if report["experiment"] == experiment:
            found.setdefault((report["data"], report["recipe"]), []).append(report)
    for (data, recipe), each in found.items():
        yield data, recipe, each


def over_seeds(each: Sequence[Report], *path: str) -> float | None:
    """Return the mean over seeds of a figure that lies behind these names; None where it could not be measured."""
    values: list[Any] = [report["figures"] for report in each]
    for name in path:
        values = [None if value is None else value.get(name) for value in values]
    return None if any(value is None for value in values) else float(mean(values))


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def number(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)


def beside(ours: str, paper: Any, form: str = "g") -> str:
    """Return our figure with the paper's in brackets."""
    return ours if paper is None else f"{ours} [{paper:{form}}]"


def trained(each: Sequence[Report], data: str, training: str, *path: str) -> tuple[str, str, str]:
    """Return rows, iterations beside the paper's, and seeds."""
    known = appendix().get(data, {}).get("trainings", {})
    of_paper = known.get("baseline" if training == "plain" else training, {}).get("iterations")
    iterations = beside(f"{over_seeds(each, *path, 'iterations') or 0:,.0f}", of_paper, ",")
    return f"{each[0]['rows']['train']:,}", iterations, ", ".join(str(report["seed"]) for report in each)


def table1(reports: Reports) -> str:
    rows = []
    for data, recipe, each in groups(reports, "table1"):
        for name in each[0]["figures"]:
            paper = PUBLISHED["table1"][name] if data == "fashion-mnist" else [None] * 4
            rows.append(
                (
                    data,
                    recipe,
                    name,
                    beside(percent(over_seeds(each, name, "self_accuracy")), paper[0], ".2f"),
                    beside(percent(over_seeds(each, name, "prototype_accuracy")), paper[1], ".2f"),
                    beside(number(over_seeds(each, name, "joint_right")), paper[2]),
                    beside(number(over_seeds(each, name, "joint_wrong")), paper[3]),
                    number(over_seeds(each, name, "confidence_of_right")),
                    number(over_seeds(each, name, "confidence_of_wrong")),
                    *trained(each, data, "softmax", name),
                )
            )
    return section("table1", rows)


def table2(reports: Reports) -> str:
    rows = []
    for data, recipe, each in groups(reports, "table2"):
        for name in each[0]["figures"]:
            paper = PUBLISHED["table2"].get(data, {}).get(name, [None])
            learned = () if name == "plain" else ("as_learned",)
            counts = [number(over_seeds(each, name, "as_learned", "prototypes", share), ".0f") for share in SHARES]
            few = [number(over_seeds(each, name, "few", "prototypes", share), ".0f") for share in SHARES]
            rows.append(
                (
                    data,
                    recipe,
                    name,
                    beside(percent(over_seeds(each, name, *learned, "accuracy")), paper[0], ".2f"),
                    " / ".join(counts) + (f" [{' / '.join(map(str, paper[1:]))}]" if paper[1:] else "")
                    if learned
                    else "",
                    percent(over_seeds(each, name, "few", "accuracy")),
                    " / ".join(few) if few[0] else "",
                    number(over_seeds(each, name, "selective", "aurc"), ".4f"),
                    *trained(each, data, name, name),
                )
            )
    return section("table2", rows)


def table3(reports: Reports) -> str:
    rows = []
    for data, recipe, each in groups(reports, "table3"):
        noise = each[0]["config"]["noise"]
        paper = dict(zip(("plain", "dropout", "paper's"), PUBLISHED["table3"].get(str(noise), ()), strict=False))
        chosen = _chosen(each)
        for name in each[0]["figures"]:
            published = paper.get("paper's") if name == chosen else paper.get(name)
            rows.append(
                (
                    data,
                    recipe,
                    f"{noise:g}",
                    f"{name}, chosen" if name == chosen else name,
                    beside(percent(over_seeds(each, name, "accuracy")), published, ".2f"),
                    percent(_held_out(each, name)),
                    percent(over_seeds(each, name, "labels_right")),
                    number(over_seeds(each, name, "prototypes"), ".0f"),
                    *trained(each, "", name, name),
                )
            )
    return section("table3", rows) + _by_noise(reports)


def _chosen(each: Sequence[Report]) -> str:
    """Return the way with the lambda_sparse that is best on held-out rows."""
    ways = [name for name in each[0]["figures"] if name.startswith("lambda")]
    return max(ways, key=lambda name: _held_out(each, name))


def _by_noise(reports: Reports) -> str:
    """Return whether the best lambda_sparse grows with the noise, as the paper has it, in words."""
    chosen: dict[str, dict[float, float]] = {}
    for _, recipe, each in groups(reports, "table3"):
        value = float(_chosen(each).partition("=")[2])
        chosen.setdefault(recipe, {})[each[0]["config"]["noise"]] = value
    told = []
    for recipe, values in chosen.items():
        by_noise = sorted(values.items())
        grows = all(lower < upper for (_, lower), (_, upper) in pairwise(by_noise))
        listed = ", ".join(f"{value:g} at {noise:g}" for noise, value in by_noise)
        told.append(f"by *{recipe}* it {'grows' if grows else 'does not grow'} with the noise ({listed})")
    return f"\nThe best lambda_sparse on held-out rows: {'; '.join(told)}.\n" if told else ""


def _held_out(each: Sequence[Report], name: str) -> float:
    """Return the accuracy at the last validation, on rows held out of training."""
    return mean(report["figures"][name]["curve"][-1][1] for report in each)


def confidence(reports: Reports) -> str:
    rows = []
    for data, recipe, each in groups(reports, "compare"):
        for name, of_method in each[0]["figures"]["confidence"].items():
            path = ("confidence", name)
            sets = of_method["ood_auroc"]
            rows.append(
                (
                    data,
                    recipe,
                    name,
                    percent(over_seeds(each, *path, "accuracy")),
                    number(over_seeds(each, *path, "selective", "aurc"), ".4f"),
                    number(over_seeds(each, *path, "reliability", "ece")),
                    ", ".join(f"{other} {number(over_seeds(each, *path, 'ood_auroc', other))}" for other in sets),
                    *trained(each, "", "", "trainings", "sparsemax")[::2],
                )
            )
    return section("confidence", rows)


def prototypes(reports: Reports) -> str:
    keys = ("same_class", "deletion", "comprehensiveness", "insertion", "learned", "busiest", "diversity")
    rows = [
        (
            data,
            recipe,
            name,
            *(number(over_seeds(each, "examples", name, key)) for key in keys),
            *trained(each, "", "", "trainings", "sparsemax")[::2],
        )
        for data, recipe, each in groups(reports, "compare")
        for name in each[0]["figures"]["examples"]
    ]
    return section("prototypes", rows)


def melanoma(reports: Reports) -> str:
    rows = [
        (
            recipe,
            name,
            number(over_seeds(each, name, "auc")),
            *(number(_auc_at(each[0]["figures"][name], share)) for share in (0.8, 0.6)),
            percent(over_seeds(each, name, "accuracy")),
            number(over_seeds(each, name, "melanomas"), ".0f"),
            *trained(each, data, "baseline" if name == "baseline" else name, name),
        )
        for data, recipe, each in groups(reports, "melanoma")
        for name in each[0]["figures"]
    ]
    return section("melanoma", rows)


def _auc_at(figures: Mapping[str, Any], coverage: float) -> float | None:
    reached = [i for i, share in enumerate(figures["coverage"]) if share >= coverage]
    found: float | None = figures["auc_by_coverage"][reached[0]]
    return found


def sparsity(reports: Reports) -> str:
    rows = [
        (
            data,
            recipe,
            value,
            percent(over_seeds(each, value, "accuracy")),
            number(mean(report["figures"][value]["curve"][-1][2] for report in each), ".0f"),
            *trained(each, data, "softmax", value),
        )
        for data, recipe, each in groups(reports, "sparsity")
        for value in each[0]["figures"]
    ]
    return section("sparsity", rows)


def cost(reports: Reports) -> str:
    rows = []
    for data, recipe, each in groups(reports, "cost"):
        of_model, adds = each[0]["figures"]["parameters"], each[0]["figures"]["multiply_adds"]
        rows.append(
            (
                data,
                recipe,
                f"{of_model['queries and keys']:,} of {of_model['all']:,}",
                f"{adds['attention'] / 1e6:.2f} M, {adds['candidates']:,} candidates",
                f"{adds['encoder'] / 1e6:.1f} M",
                *(number(over_seeds(each, "epoch_ratio", way), ".2f") for way in ("in-batch", "sampled")),
                " / ".join(
                    number(over_seeds(each, "milliseconds_to_predict", way), ".2f") for way in ("plain", "in-batch")
                ),
            )
        )
    return section("cost", rows)


SECTIONS: tuple[Callable[[Reports], str], ...] = (
    table1,
    table2,
    table3,
    confidence,
    prototypes,
    melanoma,
    sparsity,
    cost,
)
