"""Sections of the page of measured figures: one set of scores, read sharply for decisions and flatly for confidence."""

from __future__ import annotations

from results_section import Figures, mean, section

TRAININGS = {"sparsemax": "sparsemax", "softmax": "softmax", "both": "the mean of both"}


def one_story(found: dict[str, Figures]) -> str:
    """Whether decision, prototypes and confidence agree, set by set."""
    if (figures := found.get("one_story")) is None:
        return ""
    rows: list[tuple[str, ...]] = []
    for name, runs in figures["runs"].items():
        mean, error = _means(runs), _calibration_error(runs, "calibration")
        rows.append(
            (
                name,
                str(len(runs)),
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
        "Constructor defaults, means over seeds: more of them where a set has fewer than 100 test rows. Accuracy:\n"
        "ours / plain encoder / peer (gradient boosting for tables, TF-IDF and logistic regression for texts,\n"
        "logistic regression of pixels for images). AURC: of confidence / of our largest probability / of the\n"
        "plain encoder's / of the peer's. ECE of our probabilities, over the rows of all seeds. Contradiction:\n"
        "predictions that are not the class with most shown weight. Likeness of the heaviest prototype: 0 is a\n"
        "random row of its class, 1 the nearest. Hubs: inputs whose heaviest prototype is one of two rows.\n"
        "Prototypes for 95 % of a decision. Seconds of training, on one thread beside other work."
    )
    head = ("set", "seeds", "accuracy", "AURC", "ECE", "contradiction", "likeness", "hubs", "prototypes", "seconds")
    return section("Decision, prototypes and confidence agree", text, head, rows)


def ood(found: dict[str, Figures]) -> str:
    """How well low confidence tells other images apart."""
    runs = {name: own for name, own in found.get("one_story", {"runs": {}})["runs"].items() if "ood" in own[0]}
    if not runs:
        return ""
    rows = [
        (f"{name}: {other}", *(f"{mean(run[key][other] for run in own):.3f}" for key in ("ood", "plain_ood")))
        for name, own in runs.items()
        for other in own[0]["ood"]
    ]
    for name, own in runs.items():
        means = (f"{mean(value for run in own for value in run[key].values()):.3f}" for key in ("ood", "plain_ood"))
        rows.append((f"{name}: mean", *means))
    return section(
        "Confidence of other images",
        "AUROC of 1 - C at telling images of other kinds from test images, beside the plain encoder's largest\n"
        "probability; the same runs. `ood_score` is made for that and does better (paper/RESULTS.md); this is what\n"
        "the confidence alone tells.",
        ("trained on: other images", "1 - C", "plain encoder, 1 - MSP"),
        rows,
    )


def readings(found: dict[str, Figures]) -> str:
    """Which n() in training serves both readings."""
    if (figures := found.get("readings")) is None:
        return ""
    rows = []
    for name in next(iter(figures["runs"].values())):
        for training, title in TRAININGS.items():
            runs = figures["runs"][training][name]
            means = _means(runs)
            rows.append(
                (
                    name,
                    title,
                    f"{means['accuracy']:.1%}",
                    f"{means['aurc']:.4f} / {means['aurc_own']:.4f}",
                    f"{_calibration_error(runs, 'calibration_of_confidence'):.3f}",
                    f"{_calibration_error(runs, 'calibration'):.3f}",
                    f"{means['contradiction']:.3f}",
                    f"{means['likeness']:.2f}",
                )
            )
    return section(
        "Which training serves both readings (`readings.py`)",
        "Constructor defaults but for n() of eq. 1 in training; all of them decide by sparsemax with few prototypes, "
        "and read\nconfidence flatly. Means over three seeds. AURC of confidence / of the largest probability; ECE of "
        "confidence and of\nprobabilities. The default is sparsemax.",
        ("set", "trained with", "accuracy", "AURC", "ECE of C", "ECE", "contradiction", "likeness"),
        rows,
    )


def _means(runs: list[Figures]) -> dict[str, float]:
    return {key: mean(run[key] for run in runs) for key, value in runs[0].items() if isinstance(value, float)}


def _calibration_error(runs: list[Figures], key: str) -> float:
    totals = [sum(column) for column in zip(*(run[key] for run in runs), strict=True)]
    return sum(map(abs, totals[:-1])) / totals[-1]
