"""The report's sections on errors: accuracy by class, who is taken for whom by which prototypes, and label errors."""

from __future__ import annotations

import numpy as np
import torch

from protoattend.app.report.measured import Measured
from protoattend.data_quality.error_analysis import ErrorAnalysis, error_analysis
from protoattend.data_quality.label_errors import LabelIssues
from protoattend.explain.explanations import Explanations
from protoattend.viz.blocks import Block, Cell, Examples, Heading, Prose, Section, Table
from protoattend.viz.svg_charts import interval
from protoattend.viz.text import counted, percent, plain, precise

MOST_CLASSES, WIDEST_MATRIX, MOST_CONFUSIONS, MOST_HARMFUL, MOST_ISSUES = 20, 12, 12, 6, 10
MOST_JUDGED = 100_000  # candidates that are judged by one another: beyond, it takes many minutes
SHOWN = 3  # prototypes in a cell


def classes_table(m: Measured) -> Table:
    """Return how each class fares, the worst first: rows, found (recall), right when named (precision)."""
    assert m.labels is not None
    labels, predicted = m.labels[m.known], m.decided.predicted[m.known]
    confidence = m.decided.confidence[m.known]
    present = np.unique(labels)
    found = {c: float(m.correct[labels == c].mean()) for c in present}
    worst = sorted(present, key=lambda c: (found[c], -(labels == c).sum()))[:MOST_CLASSES]
    rows = []
    for c in worst:
        named = predicted == c
        precision = precise(float((labels[named] == c).mean())) if named.any() else "never"
        own = labels == c
        low, high = interval(int(m.correct[own].sum()), int(own.sum()))
        rows.append(
            (
                plain(m.clf.classes_[c]),
                f"{int(own.sum()):,}",
                Cell(precise(found[c]), bar=found[c]),
                f"{precise(low)} – {precise(high)}",
                precision,
                precise(float(confidence[own].mean())),
            )
        )
    caption = "Classes, those found least often first."
    if len(present) > len(worst):
        caption = f"The {len(worst)} of {len(present)} classes found least often."
    caption += " Right when named is the share of predictions of the class that are right (precision)."
    columns = ("Class", "Rows", "Found", "95 % interval", "Right when named", "Mean confidence")
    return Table(caption, columns, tuple(rows), frozenset(range(1, 6)))


def errors_section(m: Measured) -> Section:
    """Return who is taken for whom, and the prototypes that pull there."""
    assert m.labels is not None
    wrong = int((~m.correct).sum())
    if wrong == 0:
        lead = f"None of the {counted(len(m.known), 'decision')} is wrong, so there is nothing to analyse."
        return Section("Errors", lead, [classes_table(m)])
    counts = _counts(m)
    blocks: list[Block] = [classes_table(m), *_confusions(m, counts)]
    if not m.own_rows:
        known = torch.from_numpy(m.known)
        labels = torch.from_numpy(m.labels[m.known])
        found = error_analysis(m.clf.database_, m.encoded.queries[known], labels, top=MOST_HARMFUL)
        blocks += _by_prototype(m, found)
    worst = np.unravel_index(np.argmax(np.where(np.eye(len(counts), dtype=bool), 0, counts)), counts.shape)
    a, b = (plain(m.clf.classes_[c]) for c in worst)
    lead = (
        f"{counted(wrong, 'decision')} of {len(m.known):,} ({precise(wrong / len(m.known))}) "
        f"{'is' if wrong == 1 else 'are'} wrong. The most frequent confusion is {a} taken for {b}: "
        f"{counted(int(counts[worst]), 'time')}."
    )
    return Section("Errors", lead, blocks)


def _counts(m: Measured) -> np.ndarray:
    assert m.labels is not None
    size = len(m.clf.classes_)
    pairs = m.labels[m.known] * size + m.decided.predicted[m.known]
    return np.bincount(pairs, minlength=size**2).reshape(size, size)


def _confusions(m: Measured, counts: np.ndarray) -> list[Block]:
    """Return the confusion matrix, or where it is too wide its largest cells."""
    names = [plain(label) for label in m.clf.classes_]
    if len(names) <= WIDEST_MATRIX:
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        shares[np.eye(len(names), dtype=bool)] = 0
        shade = shares / max(float(shares.max()), 1e-9)
        rows: tuple[tuple[Cell | str, ...], ...] = tuple(
            (
                names[i],
                *(
                    Cell(f"{counts[i, j]:,}" if counts[i, j] else "·", shade=float(shade[i, j]))
                    for j in range(len(names))
                ),
            )
            for i in range(len(names))
        )
        caption = (
            "Rows are true classes, columns what they are taken for; errors are shaded by their share of the class."
        )
        return [Table(caption, ("True class", *names), rows, frozenset(range(1, len(names) + 1)), look="matrix")]
    return []


def _by_prototype(m: Measured, found: ErrorAnalysis) -> list[Block]:
    database, kind = m.clf.database_, m.clf.inputs_.kind
    rows = []
    for confusion in found.confusions[:MOST_CONFUSIONS]:
        culprits = [index for index, _ in confusion.culprits[:SHOWN]]
        names = ", ".join(f"#{index}" for index in culprits)
        samples = tuple(database.preview(index) for index in culprits[: 1 if kind == "table" else SHOWN])
        pair = f"{plain(confusion.label)} → {plain(confusion.taken_for)}"
        rows.append((pair, f"{len(confusion.rows):,}", Cell(names, samples=samples)))
    caption = "Each confusion with the training rows that pull most towards the wrong class."
    if len(found.confusions) > len(rows):
        caption += f" {len(rows)} of {len(found.confusions)} are shown."
    title = "Confusions by prototype"
    blocks: list[Block] = [
        Heading(title),
        Table(caption, ("True → taken for", "Errors", "Pulled by"), tuple(rows), frozenset({1}), kind),
    ]
    helpful = [h for h in found.harmful if h.fixed > h.broken]
    if not helpful:
        blocks.append(
            Prose(
                "No single training row does more harm than good: removing one of those that pull most would not turn "
                "more wrong decisions right than right ones wrong."
            )
        )
        return blocks
    listed = tuple(
        (
            f"#{h.index}",
            plain(h.label),
            f"{h.errors:,}",
            f"{h.fixed:,}",
            f"{h.broken:,}",
            Cell("", samples=(h.preview,)),
        )
        for h in helpful
    )
    caption = (
        "Training rows that do more harm than good here: without the row, so many decisions become right and wrong."
    )
    columns = ("Row", "Label", "Takes part in errors", "Become right", "Become wrong", "Sample")
    blocks.append(Table(caption, columns, listed, frozenset({2, 3, 4}), kind))
    return blocks


def labels_section(m: Measured) -> Section:
    """Return the training rows whose label is disputed."""
    database = m.clf.database_
    if len(database) > MOST_JUDGED:
        lead = (
            f"The database has {len(database):,} rows, too many to judge here; call find_label_issues of the "
            "classifier, which takes a while."
        )
        return Section("Label errors", lead, [])
    issues = m.clf.find_label_issues()
    share = len(issues) / len(database)
    lead = (
        f"Of {len(database):,} training labels, {counted(len(issues), 'is', 'are')} disputed ({precise(share)}): "
        "prototypes and the row's own value speak for another class. They are suggestions to look at, not proven "
        "errors."
        if len(issues)
        else f"None of the {len(database):,} training labels is disputed by the rows that are most alike."
    )
    return Section("Label errors", lead, _issues(issues) if len(issues) else [])


def _issues(issues: LabelIssues) -> list[Block]:
    rows = []
    for issue in issues.issues[:MOST_ISSUES]:
        preview = () if issue.explanation is None else (issue.explanation.preview,)
        named = (f"#{issue.index}", plain(issue.given_label), plain(issue.suggested_label), f"{issue.score:.3f}")
        rows.append((*named, Cell("", samples=preview)))
    caption = (
        f"The most disputed labels, {len(rows)} of {len(issues)}. A score of 1 means that nothing speaks for the label."
    )
    columns = ("Row", "Label", "Suggested", "Score", "Sample")
    blocks: list[Block] = [Table(caption, columns, tuple(rows), frozenset({3}), issues.kind)]
    explained = [(issue, issue.explanation) for issue in issues.issues[:2] if issue.explanation is not None]
    if explained:
        items = Explanations(tuple(explanation for _, explanation in explained), issues.kind)
        names = tuple(f"Training row #{issue.index}" for issue, _ in explained)
        told = "The suggestion stands where a prediction would, with the training rows that speak for it."
        blocks.append(Examples("Why they are disputed", told, items, names))
    return blocks


def error_words(m: Measured) -> str:
    """Return the accuracy in a sentence, with its interval."""
    right = int(m.correct.sum())
    low, high = interval(right, len(m.known))
    return (
        f"{precise(right / len(m.known))} of {counted(len(m.known), 'decision')} are right (95 % interval "
        f"{precise(low)} to {precise(high)}), with a mean confidence of "
        f"{percent(float(m.decided.confidence[m.known].mean()))}"
    )
