"""Sections of the page of measured figures: decisions, their confidence and the database they come from."""

from __future__ import annotations

from results_section import TITLES, Figures, section


def search(found: dict[str, Figures]) -> str:
    if (figures := found.get("search")) is None:
        return ""
    names = next(iter(figures["milliseconds"].values()))
    rows = [
        (size, *(f"{times[name]:.2f}" if name in times else "" for name in names))
        for size, times in figures["milliseconds"].items()
    ]
    large = figures["ten_million"]
    return section(
        "Exact attention over many candidates (`search.py`)",
        "Milliseconds for B queries and D candidates. Ours gives logits, class mass and the ten heaviest prototypes; "
        f"faiss gives 64 neighbours. Ten million candidates on disk: opened in {large['open']:.0f} ms, one query "
        f"{large['B=1']:.0f} ms, 256 queries {large['B=256']:.0f} ms, {large['rss_gb']:.2f} GB of memory at the most.",
        ("", *names),
        rows,
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
                f"{means['ours combined']:.4f}",
                f"{means[images['ood_best_peer']]:.4f} ({images['ood_best_peer']})",
            )
        )
    head = (
        "data", "AURC of C, softmax", "sparsemax", "of our probabilities", "of plain MSP", "of kNN",
        "OOD inputs, AUROC", "best peer",
    )  # fmt: skip
    answers = section(
        "Selective prediction and OOD detection (`trust.py`)",
        "AURC is the mean error over all coverages: less is better. Softmax attention ranks as it was trained; of "
        "sparsemax the number of prototypes was chosen on the other half of the images. AUROC is the mean over all "
        "out-of-distribution (OOD) sets.",
        head,
        parts,
    )
    numbers = list(next(iter(figures["images"].values()))["selective"]["by_number_of_prototypes"])
    finer = section(
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
    wrong = section(
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
    return section(
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
    return section(
        "Training on wrong labels (`noisy_labels.py`)",
        f"Accuracy on right test labels of {figures['data']}, mean of {figures['seeds']} seeds, by the share of wrong "
        "labels in training.",
        ("trained by", "mixup", *(f"{rate:.0%}" for rate in rates)),
        [(way, f"{mixup:g}", *(f"{by_rate[rate]:.1%}" for rate in rates)) for (way, mixup), by_rate in by_way.items()],
    )


def condense(found: dict[str, Figures]) -> str:
    if "condense" not in found:
        return ""
    return "## A smaller database (`condense.py`)\n\n![accuracy by size](../benchmarks/results/condense.png)\n"
