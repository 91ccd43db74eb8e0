"""Write paper/RESULTS.md, the paper's figures beside ours, from the JSON files in paper/results.

    python paper/tables.py [--check]

A run that is not there yet is listed as missing. `--check` writes nothing: it exits 1 where the page differs from the
JSON, a figure of the page is not there, or a run of the list is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import figures
from sections import SECTIONS, TEXTS, Reports, section
from targets import targets

from protoattend.reproduce.experiments import Run
from protoattend.reproduce.runs import missing, read_reports

HERE = Path(__file__).parent
RESULTS, PAGE, FIGURES = HERE / "results", HERE / "RESULTS.md", HERE / "figures"


def page(reports: Reports, wanted: list[Run]) -> str:
    """Return the page: what was measured, then how, then what is missing."""
    parts = [part for part in (make(reports) for make in (targets, *SECTIONS)) if part]
    drawn = [f"![{title}](figures/{name}.png)\n\n{title}.\n" for name, title in figures.titles(reports).items()]
    if drawn:
        parts.append("## Figures\n\n" + "\n".join(drawn))
    parts.append(_runs(reports))
    if wanted:
        names = "\n".join(f"- {run.experiment}, {run.data}, {run.recipe}, seed {run.seed}" for run in wanted)
        parts.append(f"## Missing\n\nOn the list, and not done yet (`protoattend reproduce --all`):\n\n{names}\n")
    opening = TEXTS["introduction"]
    return "\n".join([f"# {opening['title']}\n\n{opening['text']}\n", *parts])


def _runs(reports: Reports) -> str:
    rows = [
        (
            f"{report['experiment']}, {report['data']}",
            report["recipe"],
            str(report["seed"]),
            f"{report['rows']['train']:,} / {report['rows']['test']:,}",
            _settings(report["config"]) + (f"; {report['note']}" if report["note"] else ""),
            f"{report['minutes']:.1f}",
            "" if report.get("cpu_minutes") is None else f"{report['cpu_minutes']:.1f}",
            f"{report['machine']}, {report['threads']} of {report['cores']} cores, torch {report['torch']}, "
            f"{report['date'][:10]}",
        )
        for report in reports.values()
    ]
    return section("runs", rows)


def _settings(config: Mapping[str, Any]) -> str:
    given = {
        **config.get("params", {}),
        **{name: config[name] for name in ("noise", "frozen", "shrink") if name in config},
    }
    return ", ".join(f"{name} {value}" for name, value in given.items()) or "defaults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something is not as it is")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the reports")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    reports, wanted = read_reports(arguments.results), missing(arguments.results)
    text = page(reports, wanted)
    problems = [f"missing: {run.name}" for run in wanted]
    if arguments.check:
        if not arguments.page.exists() or arguments.page.read_text(encoding="utf-8") != text:
            problems.append(f"{arguments.page} is not what the results say; run python paper/tables.py")
        folder = arguments.page.parent / "figures"
        undrawn = [name for name in figures.titles(reports) if not (folder / f"{name}.png").exists()]
        problems += [f"not drawn: {name}; run python paper/figures.py" for name in undrawn]
        print("\n".join(problems))
    else:
        arguments.page.write_text(text, encoding="utf-8")
    print(f"tables rebuilt={len(reports)} missing={len(wanted)}")
    sys.exit(1 if arguments.check and problems else 0)


if __name__ == "__main__":
    main()
