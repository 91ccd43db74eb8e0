"""The report's sections on prototypes and on example decisions: right, wrong, least confident, furthest out."""

from __future__ import annotations

import numpy as np

from protoattend.app.report.measured import SHARES, Measured
from protoattend.viz.blocks import Block, Chart, Charts, Examples, Fact, Facts, Heading, Legend, Prose, Section
from protoattend.viz.svg_charts import concentration_chart, histogram_chart
from protoattend.viz.text import counted, percent, precise

EACH, WRONG = 2, 3  # examples of a sort: most can be learned from wrong decisions


def prototypes_section(m: Measured) -> Section:
    """Return how many prototypes decisions rest on and whether these agree."""
    d, counts = m.decided, m.decided.counts[0.95]
    medians = [np.median(d.counts[share]) for share in SHARES]
    contrary = float((d.heaviest != d.predicted).mean())
    few = float((counts <= 10).mean())
    facts = (
        Fact("For half of a decision", f"{medians[0]:.0f}", "prototypes, in the median"),
        Fact("For 95 % of a decision", f"{medians[2]:.0f}", f"in the median; {int(counts.max()):,} at the most"),
        Fact("Weight that agrees", precise(float(d.agreement.mean())), "of the shown prototypes, in the mean"),
        Fact(
            "Against most of its weight", precise(contrary), "of predictions are not what most of their prototypes are"
        ),
    )
    sentence = (
        f"Half of the decisions need {medians[2]:.0f} prototypes or fewer for 95 % of their weight, and "
        f"{percent(few)} need no more than ten. The strong bar holds the median."
    )
    chart = histogram_chart(
        "Prototypes that carry 95 % of a decision",
        counts,
        xlabel="prototypes for 95 % of the decision",
        sentence=sentence,
    )
    lead = (
        f"A decision is a weighted sum of real training rows. Here {medians[2]:.0f} of {len(m.clf.database_):,} carry "
        f"95 % of it in the median, and {precise(float(d.agreement.mean()))} of their weight has the predicted label."
    )
    return Section("Prototypes", lead, [Facts(facts), Charts((chart, _spread(m)))])


def _spread(m: Measured) -> Chart:
    shares = np.sort(m.decided.usage)[::-1]
    used = int((shares > 0).sum())
    half = int(np.searchsorted(np.cumsum(shares), 0.5) + 1)
    sentence = (
        f"{used:,} of {len(shares):,} candidates ({percent(used / len(shares))}) are a prototype of at least one of "
        f"these decisions; {half:,} of them carry half of all weight. On the dashed line all would be used alike."
    )
    return concentration_chart(shares, sentence=sentence)


def decisions_section(m: Measured) -> Section:
    """Return examples: typical right decisions, confident wrong ones, the least confident, the furthest out."""
    blocks = example_blocks(m)
    shown = sum(len(block.explanations) for block in blocks if isinstance(block, Examples))
    lead = f"{counted(shown, 'decision')} of {len(m):,}, each with the training rows it rests on; none is shown twice."
    return Section("Decisions", lead, blocks)


def example_blocks(m: Measured) -> list[Block]:
    """Return the examples with their headings, and how to read them first."""
    blocks: list[Block] = [Legend(m.clf.inputs_.kind)]
    for (title, sentence), places in choose_examples(m).items():
        if len(places):
            names = tuple(f"Row {m.rows[i]:,}" for i in places)
            blocks.append(Examples(title, sentence, m.explained(places), names))
        else:
            blocks += [Heading(title), Prose(sentence)]
    return blocks


def choose_examples(m: Measured) -> dict[tuple[str, str], np.ndarray]:
    """Return the places of the rows that are shown, by title and sentence; no row twice."""
    d, taken = m.decided, np.zeros(len(m), dtype=bool)
    chosen: dict[tuple[str, str], np.ndarray] = {}

    def take(title: str, sentence: str, ranked: np.ndarray, most: int = EACH) -> None:
        places = ranked[~taken[ranked]][:most]
        taken[places] = True
        chosen[title, sentence] = places

    by_confidence = np.argsort(d.confidence, kind="stable")
    if m.labelled:
        wrong, right = m.known[~m.correct], m.known[m.correct]
        ranked = wrong[np.argsort(-d.confidence[wrong], kind="stable")]
        told = "Every decision on a row with a known class is right."
        if len(wrong):
            told = f"{counted(len(wrong), 'decision is', 'decisions are')} wrong; these are the most confident of them."
        take("Right", "The median confidence of its class: how a right decision typically looks.", _typical(m, right))
        take("Wrong, and most confident", told, ranked, WRONG)
    else:
        take("Typical", "The median confidence of its class.", _typical(m, np.arange(len(m))))
    lowest = d.confidence[by_confidence[0]]
    take(
        "Least confident",
        f"Candidates of other labels weigh most here; the lowest confidence is {percent(lowest)}.",
        by_confidence,
    )
    outward = np.argsort(-m.ood, kind="stable")
    told = (
        f"The score is the distance of a row's value to that of the tenth nearest candidate: {np.median(m.ood):.2f} "
        f"in the median, and {m.ood[outward[0]]:.2f} at the most. Rows that are unlike all training data come first."
    )
    take("Most out-of-distribution", told, outward)
    return chosen


def _typical(m: Measured, among: np.ndarray) -> np.ndarray:
    """Return a row of median confidence for each class, classes with most rows first."""
    predicted, confidence = m.decided.predicted[among], m.decided.confidence
    classes, counts = np.unique(predicted, return_counts=True)
    typical = []
    for c in classes[np.argsort(-counts, kind="stable")]:
        rows = among[predicted == c]
        typical.append(rows[np.argsort(confidence[rows], kind="stable")[len(rows) // 2]])
    return np.array(typical, dtype=int)
