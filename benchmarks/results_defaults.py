"""Sections of the page of measured figures: what defaults reach beside what people would use without us."""

from __future__ import annotations

from results_section import Figures, section

HEAD = ("set", "accuracy, %", "seeds", "minutes", "prototypes for 95 %", "date")
PEERS = (("tables", "hgb", "gradient boosting"), ("texts", "tfidf", "TF-IDF and logistic regression"))


def defaults(found: dict[str, Figures]) -> str:
    """Whole data sets by the defaults, and how far ahead of peers tables and texts are."""
    if (figures := found.get("defaults")) is None:
        return ""
    runs, headline = figures["runs"], figures["headline"]
    rows = []
    for part, title in (("adult", "Adult"), ("fashion", "Fashion-MNIST"), ("mnist", "MNIST"), ("cifar", "CIFAR-10")):
        if own := runs.get(part):
            shares = [run["accuracy"] for run in own]
            spread = f", {min(shares):.2f} to {max(shares):.2f}" if len(shares) > 1 else ""
            minutes = sum(run["minutes"] for run in own) / len(own)
            found_on = own[-1]["date"].partition("T")[0]
            prototypes = f"{own[0]['prototypes']:.0f}"
            share = f"{headline[part]:.2f}{spread}"
            rows.append((title, share, str(len(own)), f"{minutes:.1f}", prototypes, found_on))
    text = ["All of a set, constructor defaults. Minutes of training, on two cores beside other work."]
    for kind, peer, name in PEERS:
        if f"{kind}_minus_{peer}" in headline:
            ahead, ratio = headline[f"{kind}_minus_{peer}"], headline[f"{kind}_aurc_vs_{peer}"]
            text.append(
                f"On {len(runs[kind])} sets of {kind}, three seeds or more: {ahead:+.2f} points beside {name}, and "
                f"{ratio:.2f} times its AURC."
            )
    return section("What defaults reach (`defaults.py`)", "\n".join(text), HEAD, rows)


def tables(found: dict[str, Figures]) -> str:
    """Rows far away, and wrong labels, table by table."""
    if (figures := found.get("tables")) is None:
        return ""
    keys = ("far_all", "far_one", "labels", "logistic", "cleanlab")
    rows = [
        (name, *(f"{sum(run[key] for run in runs) / len(runs):.3f}" for key in keys))
        for name, runs in figures["runs"].items()
    ]
    means = [sum(run[key] for runs in figures["runs"].values() for run in runs) for key in keys]
    count = sum(len(runs) for runs in figures["runs"].values())
    return section(
        "Tables: rows far away and wrong labels (`tables.py`)",
        "AUROC of `ood_score` for test rows with all numbers, or one, moved by eight standard deviations. With a tenth "
        "of the\ntraining labels made wrong, the average precision of `find_label_issues()`, of a logistic regression "
        "in five folds, and of\ncleanlab on its probabilities. Constructor defaults, three seeds.",
        ("table", "all numbers", "one number", "wrong labels", "logistic regression", "cleanlab"),
        [*rows, ("mean", *(f"{mean / count:.3f}" for mean in means))],
    )


def conformal(found: dict[str, Figures]) -> str:
    """Coverage of prediction sets beside what was asked for."""
    if (figures := found.get("conformal")) is None:
        return ""
    rows = [
        (
            name,
            asked,
            " ".join(f"{share:.3f}" for share in own["coverages"]),
            f"{sum(own['coverages']) / len(own['coverages']):.3f}",
            f"{own['deviation']:.3f}",
            f"{own['expected_deviation']:.3f}",
        )
        for name, of_set in figures["sets"].items()
        for asked, own in of_set.items()
        if asked != "rows"
    ]
    return section(
        "Coverage of prediction sets (`conformal.py`)",
        "Test rows divided seven times at random, half to calibrate on and half to be covered, and the standard "
        "deviation that\ntheory gives such a share: a single division may lie as far from what was asked, or as near.",
        ("set", "asked", "found", "mean", "deviation", "by theory"),
        rows,
    )
