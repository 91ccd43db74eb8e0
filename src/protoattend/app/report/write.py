"""`write_report`: all sections in one self-contained HTML file."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

import protoattend
from protoattend.app.report.card import card_section
from protoattend.app.report.comparison import Baseline, comparison_section
from protoattend.app.report.confidence import confidence_section, operating
from protoattend.app.report.data import data_section
from protoattend.app.report.database import database_section
from protoattend.app.report.decisions import decisions_section, prototypes_section
from protoattend.app.report.errors import error_words, errors_section, labels_section
from protoattend.app.report.measured import Measured, measure, measure_database
from protoattend.app.report.training import training_section
from protoattend.classifier import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.files.writing import write_text
from protoattend.uncertainty.checks import check_share
from protoattend.viz.blocks import Block, Fact, Facts, Notice, Page, Section
from protoattend.viz.html import report
from protoattend.viz.svg_charts import interval
from protoattend.viz.text import counted, goal, percent, plain, precise

SUBTITLE = "A classifier that decides from real examples: every prediction is a weighted sum of a few training rows."


def write_report(
    classifier: ProtoAttendClassifier,
    X: Any = None,
    y: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str = "",
    accuracy: float = 0.99,
    baseline: Baseline | None = None,
) -> Path:
    """Write a report on a classifier as one HTML file that needs nothing from outside.

    Parameters
    ----------
    classifier : ProtoAttendClassifier
        Fitted, or loaded.
    X : array-like, DataFrame, list of str, images, ImageFiles or None, default=None
        Rows to report on, unseen in training. None takes rows of the database, each decided without itself: the
        encoder was trained on them, so that their figures flatter, and the report says so.
    y : array-like of shape (n,) or None, default=None
        Their labels. Rows of classes never seen in training are counted apart; without any, the report leaves out what
        needs labels.
    path : path, default="report.html"
        Where to write.
    title : str, default=""
        By default what the classifier decides between.
    accuracy : float, default=0.99
        Wanted among the answers: the threshold of confidence for it is marked.
    baseline : PlainClassifier or other fitted classifier with predict_proba, default=None
        Compared on the same rows.

    Returns
    -------
    Path
        That was written.

    Raises
    ------
    UserError
        If no label is a class of the classifier, X and y differ in length, y or baseline come without X, or the folder
        does not exist.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X[::2], y[::2])
    >>> with TemporaryDirectory() as folder:
    ...     write_report(clf, X[1::2], y[1::2], Path(folder) / "wine.html").read_text().startswith("<!DOCTYPE html>")
    True
    """
    check_is_fitted(classifier)
    accuracy = check_share(accuracy, "accuracy")
    for name, value in (("y", y), ("baseline", baseline)):
        if X is None and value is not None:
            raise UserError(f"{name} is about rows of X, but X is None; pass these rows, or leave {name} out.")
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise UserError(f"the folder of {target} must exist, but it does not; make it or choose another.")
    measured = measure_database(classifier) if X is None else measure(classifier, X, y)
    sections = _sections(measured, X, accuracy, baseline)
    names = [plain(label) for label in classifier.classes_[:3]]
    among = ", ".join(names) + (f" and {len(classifier.classes_) - 3} more" if len(classifier.classes_) > 3 else "")
    content = Page(
        title=plain(title) or f"Deciding between {among}",
        subtitle=SUBTITLE,
        sections=sections,
        footer=f"Written on {date.today():%d %B %Y} by protoattend {protoattend.__version__}; the file needs no other.",
    )
    write_text(target, report(content))
    return target


def _sections(m: Measured, X: Any, accuracy: float, baseline: Baseline | None) -> list[Section]:
    sections = [_summary(m, accuracy), data_section(m), training_section(m)]
    if m.labelled:
        sections.append(comparison_section(m, X, baseline))
    sections += [prototypes_section(m), decisions_section(m)]
    if m.labelled:
        sections += [confidence_section(m, accuracy), errors_section(m)]
    return [*sections, labels_section(m), database_section(m), card_section(m)]


def _summary(m: Measured, accuracy: float) -> Section:
    confidence, counts = m.decided.confidence, m.decided.counts[0.95]
    facts = [Fact("Prototypes a decision", f"{sorted(counts)[len(counts) // 2]:,}", "carry 95 % of it, in the median")]
    if m.labelled:
        right = int(m.correct.sum())
        low, high = interval(right, len(m.known))
        chosen = operating(m, accuracy)
        interval_note = f"of {counted(len(m.known), 'row')}; 95 % interval {precise(low)} to {precise(high)}"
        facts.insert(0, Fact("Right", precise(right / len(m.known)), interval_note))
        answered = "none" if chosen is None else percent(chosen.coverage)
        facts.append(Fact(f"Answered at {goal(accuracy)} right", answered, _needs(chosen)))
    facts.append(Fact("Mean confidence", percent(float(confidence.mean())), _split(m)))
    lead = (
        f"{error_words(m)}."
        if m.labelled
        else f"{counted(len(m), 'row')} without labels were decided; how often rightly is not known."
    )
    return Section("Summary", lead, [*_notices(m), Facts(tuple(facts))])


def _needs(chosen: Any) -> str:
    return (
        "no threshold of confidence is enough"
        if chosen is None
        else f"where confidence is at least {chosen.threshold:.3f}"
    )


def _split(m: Measured) -> str:
    if not m.labelled or m.correct.all() or not m.correct.any():
        return ""
    confidence = m.decided.confidence[m.known]
    right, wrong = (percent(float(confidence[which].mean())) for which in (m.correct, ~m.correct))
    return f"{right} if right, {wrong} if wrong"


def _notices(m: Measured) -> list[Block]:
    """Return what must be known before any number is read."""
    told = []
    if m.own_rows:
        told.append(
            f"No data was given, so {counted(len(m), 'row')} of the database were decided, each without itself. The "
            "encoder was trained on them: expect less on new rows. Give rows it has not seen for figures that can be "
            "relied on."
        )
    if m.unseen:
        apart = len(m) - len(m.known)
        names = ", ".join(plain(label) for label in m.unseen[:5]) + (" and others" if len(m.unseen) > 5 else "")
        told.append(
            f"{counted(apart, 'row')} of {len(m):,} carry labels never seen in training ({names}). They cannot be "
            "decided rightly and are left out of all shares of right and wrong; the decisions on them are shown like "
            "others."
        )
    if m.labelled and not m.own_rows:
        present = len(set(m.labels[m.known].tolist()))  # type: ignore[index]
        if present == 1:
            only = plain(m.clf.classes_[int(m.labels[m.known][0])])  # type: ignore[index]
            told.append(f"All rows are of one class, {only}: how well it is told from others cannot be seen here.")
        if len(m.known) < 30:
            told.append(f"{counted(len(m.known), 'row')} with labels are few: read the intervals, not the shares.")
    if m.copies:
        told.append(
            f"{counted(m.copies, 'row is', 'rows are')} in the training data too, of {len(m):,}. On what it was "
            "trained on, a classifier looks better than it is."
        )
    return [Notice(text) for text in told]
