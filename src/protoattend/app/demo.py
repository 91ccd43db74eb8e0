"""`protoattend demo`: the plain encoder and ProtoAttend side by side on images, a table and texts."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from protoattend.app.demo_data import DemoSet, demo_sets
from protoattend.app.report.decisions import example_blocks
from protoattend.app.report.measured import SHARES, Measured, measure
from protoattend.app.report.write import SUBTITLE, write_report
from protoattend.baselines.plain import PlainClassifier
from protoattend.classifier import ProtoAttendClassifier
from protoattend.files.meta import write_json
from protoattend.files.writing import write_text
from protoattend.uncertainty.selective import accuracy_at_coverage
from protoattend.viz.blocks import Charts, Fact, Facts, Link, Page, Section
from protoattend.viz.blocks import Table as ReportTable
from protoattend.viz.html import report


@dataclass(frozen=True)
class DemoResult:
    """What the demo measured on the test rows of one data set."""

    name: str
    n_train: int
    n_test: int
    plain_accuracy: float
    accuracy: float
    plain_seconds: float
    seconds: float
    prototypes: tuple[float, ...]  # median number for 50, 90 and 95 % of the decision
    confidence_right: float
    confidence_wrong: float
    accuracy_at_95_coverage: float  # when answering only the most confident 95 %

    @property
    def time_ratio(self) -> float:
        return self.seconds / self.plain_seconds


def run_demo(out: Path, console: Console, *, random_state: int = 0) -> Path:
    """Train, measure and write pictures and a report into `out`; return the report's path."""
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    console.print("Every decision below is a weighted sum of a few real training samples.\n")
    results, sections = [], []
    for data in demo_sets():
        console.print(f"[bold]{data.name}[/]: {data.question} ({len(data.y_train)} training samples)")
        result, section = _run(data, out, random_state)
        results.append(result)
        sections.append(section)
    console.print(_table(results))
    write_json(out / "results.json", [asdict(result) for result in results])
    overview = out / "report.html"
    page = Page("Decisions from real examples", SUBTITLE, [_summary(results), *sections])
    write_text(overview, report(page))
    names = ", ".join(f"{result.name}.html" for result in results)
    console.print(f"{time.perf_counter() - started:.0f} s in all. Pictures, and a report of each: {out}/ ({names})")
    console.print(f"Report: {overview.resolve()}", soft_wrap=True)
    return overview


def _run(data: DemoSet, out: Path, random_state: int) -> tuple[DemoResult, Section]:
    plain = PlainClassifier(random_state=random_state).fit(data.X_train, data.y_train)
    clf = ProtoAttendClassifier(random_state=random_state).fit(data.X_train, data.y_train)
    measured = measure(clf, data.X_test, data.y_test)
    result = _measure(data, plain, measured)
    typical = _typical(measured, data.y_test)
    measured.explained(typical).plot(out / f"{data.name}.png")
    clf.history_.plot().figure.savefig(out / f"{data.name}-training.png", dpi=110)
    write_report(clf, data.X_test, data.y_test, out / f"{data.name}.html", title=data.question, baseline=plain)
    facts = Facts(tuple(Fact(name, value) for name, value in _facts(result).items()))
    blocks = [facts, Charts(clf.history_.charts()), *example_blocks(measured)]
    blocks.append(Link(f"The whole report on {data.name}", f"{data.name}.html"))
    return result, Section(data.name.capitalize(), data.question, blocks)


def _measure(data: DemoSet, plain: PlainClassifier, measured: Measured) -> DemoResult:
    confidence, right = measured.decided.confidence, measured.correct
    return DemoResult(
        name=data.name,
        n_train=len(data.y_train),
        n_test=len(data.y_test),
        plain_accuracy=float(plain.score(data.X_test, data.y_test)),
        accuracy=float(right.mean()),
        plain_seconds=plain.history_.seconds,
        seconds=measured.clf.history_.seconds,
        prototypes=tuple(float(np.median(measured.decided.counts[share])) for share in SHARES),
        confidence_right=float(confidence[right].mean()),
        confidence_wrong=float(confidence[~right].mean()) if (~right).any() else float("nan"),
        accuracy_at_95_coverage=accuracy_at_coverage(confidence, right, 0.95),
    )


def _typical(measured: Measured, y: np.ndarray) -> np.ndarray:
    """Return positions of a right decision of median confidence, for some classes."""
    confidence, right = measured.decided.confidence, measured.correct
    by_class = [np.flatnonzero(right & (y == label)) for label in np.unique(y)]
    typical = [some[np.argsort(confidence[some])[len(some) // 2]] for some in by_class if len(some)]
    return np.array(typical[:5], dtype=int)


def _summary(results: list[DemoResult]) -> Section:
    facts = [_facts(result) for result in results]
    rows = tuple((name, *(column[name] for column in facts)) for name in facts[0])
    numbers = frozenset(range(1, len(results) + 1))
    columns = ("Measured", *(result.name for result in results))
    table = ReportTable("On test rows, unseen in training.", columns, rows, numbers)
    lead = "The same encoder, trained plainly and to decide from prototypes, on images, a table and texts."
    return Section("Summary", lead, [table])


def _facts(result: DemoResult) -> dict[str, str]:
    wrong = "none wrong" if np.isnan(result.confidence_wrong) else f"{result.confidence_wrong:.2f}"
    return {
        "plain encoder": f"{result.plain_accuracy:.1%}",
        "ProtoAttend": f"{result.accuracy:.1%}",
        "training time": f"{result.time_ratio:.2f}x",
        "prototypes for 50/90/95 %": " / ".join(f"{count:.0f}" for count in result.prototypes),
        "confidence right/wrong": f"{result.confidence_right:.2f} / {wrong}",
        "accuracy at 95 % coverage": f"{result.accuracy_at_95_coverage:.1%}",
    }


def _table(results: list[DemoResult]) -> Table:
    table = Table(title="\nOn test samples")
    table.add_column("")
    for result in results:
        table.add_column(result.name, justify="right")
    facts = [_facts(result) for result in results]
    for name in facts[0]:
        table.add_row(name, *(column[name] for column in facts))
    return table
