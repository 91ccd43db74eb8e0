"""Sections of the page of measured figures: what training costs, and what its choices do."""

from __future__ import annotations

from results_section import Figures, listed, section, unless_missing


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
                    unless_missing(values["time_to_plain_minus_0.3_ratio"], ".2f", "not reached"),
                    unless_missing(values["prototypes95"], ",.0f", ""),
                )
            )
    again = figures["reencoding"]
    return section(
        "What training costs (`training_cost.py`)",
        f'Half-width "fast-cnn", {figures["held_out"]:,} held-out rows, seeds: {listed(figures["seeds"])}. Time of an '
        "epoch and time to the plain encoder's last validation accuracy less 0.3 points are ratios to the plain "
        f"encoder's; {_sampled(figures['epoch_ratio'])}. With {again['candidates']:,} sampled candidates a step is "
        f"{again['speedup']:.1f} times as fast when only those with weight are encoded with gradient. Times are of "
        f"{figures['date'][:10]}, accuracies of {figures['trained'][:10]}.",
        ("data", "method", "accuracy", "points below plain", "time of an epoch", "time to accuracy", "prototypes"),
        rows,
    )


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
    return section(
        "What each choice in training does (`recipes.py`)",
        f'{first["epochs"]} epochs of a half-width "fast-cnn", {first["held_out"]:,} held-out rows, one seed; each row '
        "changes one thing in the recipe of large sets of images, and nothing else: the paper's loss has our learning "
        "rate here, which is too high for it. Prototypes are counted before weights are made sharper.",
        ("data", "what is changed", "by prototypes", "by own value", "prototypes"),
        rows,
    )


def step(found: dict[str, Figures]) -> str:
    if (figures := found.get("step")) is None:
        return ""
    return section(
        "Where the time of a training step goes (`step.py`)",
        f'Fashion-MNIST, "fast-cnn", in-batch sparsemax; 256 images take {figures["milliseconds"]:.0f} ms.',
        ("part", "share"),
        [(part, f"{share:.1%}") for part, share in figures["shares"].items()],
    )


def scaling(found: dict[str, Figures]) -> str:
    if "scaling" not in found:
        return ""
    return (
        "## How the time of a step grows (`scaling.py`)\n\n![time by batch size, candidates and processes]"
        "(../benchmarks/results/scaling.png)\n"
    )


def normalize(found: dict[str, Figures]) -> str:
    if (figures := found.get("normalize")) is None:
        return ""
    names = next(iter(figures["milliseconds"].values()))
    rows = [(size, *(f"{times[name]:.2f}" for name in names)) for size, times in figures["milliseconds"].items()]
    return section(
        "Sparsemax, forward and backward (`normalize.py`)", "Milliseconds.", ("rows x candidates", *names), rows
    )
