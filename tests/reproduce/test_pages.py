"""paper/RESULTS.md is made of the reports, and the check says where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from protoattend.reproduce.experiments import Run, config_of, listed
from protoattend.reproduce.runs import path_of, read_reports

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "paper"
TABLES = ["figures", "sections", "tables", "targets"]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return paper/tables.py; benchmarks have a file of that name too."""
    monkeypatch.syspath_prepend(str(PAPER))
    for name in TABLES:  # afterwards they are what they were
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    import tables

    return tables


def report(run: Run, figures: dict[str, Any]) -> dict[str, Any]:
    about = {"note": "", "minutes": 1.5, "cpu_minutes": 1.0, "machine": "a machine", "threads": 1, "cores": 2}
    rows = {"train": 1000, "test": 200}
    when = {"torch": "2.0", "date": "2026-01-01T00:00:00+00:00"}
    return {**vars(run), "config": config_of(run), "rows": rows, "figures": figures, **about, **when}


def trained(**figures: Any) -> dict[str, Any]:
    return {**figures, "minutes": 0.5, "iterations": 120, "curve": [[60, 0.5, 9], [120, 0.6, 7]]}


def attention(accuracy: float) -> dict[str, Any]:
    curve = {"aurc": 0.02, "coverage": [0.5, 1.0], "accuracy": [0.99, accuracy]}
    counts = {"50%": 2.0, "90%": 6.0, "95%": 8.0}
    sample = {"weight": 0.6, "label": "a", "input": "a text"}
    example = {"input": "words", "label": "a", "prediction": "a", "confidence": 0.9, "prototypes": [sample]}
    return trained(
        as_learned={"accuracy": accuracy, "prototypes": {**counts, "95%": 11.0}},
        few={"accuracy": accuracy - 0.01, "prototypes": counts},
        selective=curve,
        examples=[example],
        wrong=[{**example, "prediction": "b"}],
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with two seeds of one run, and one of another."""
    folder = tmp_path / "results"
    folder.mkdir()
    plain = trained(accuracy=0.8, selective={"aurc": 0.03, "coverage": [0.5, 1.0], "accuracy": [0.9, 0.8]})
    for seed, accuracy in ((0, 0.9), (1, 0.92)):
        run = Run("table2", "dbpedia", "ours", seed)
        figures = {"plain": plain, "softmax": attention(accuracy), "sparsemax": attention(accuracy)}
        path_of(run, folder).write_text(json.dumps(report(run, figures)))
    noisy = {way: trained(accuracy=0.5, labels_right=0.4) for way in ("plain", "dropout", "lambda_sparse=0.1")}
    noisy["lambda_sparse=0.2"] = {**trained(accuracy=0.55, labels_right=0.4), "curve": [[120, 0.7, 5]]}
    run = Run("table3", "cifar-10-noise-60", "paper")
    path_of(run, folder).write_text(json.dumps(report(run, noisy)))
    return folder


def test_figures_stand_beside_the_papers_as_means_over_seeds(tables: ModuleType, results: Path) -> None:
    page = tables.page(read_reports(results), [])
    assert (
        "| dbpedia | ours | sparsemax | 91.00 [97.74] | 2 / 6 / 11 [2 / 4 / 4] | 90.00 | 2 / 6 / 8 | 0.0200 | 1,000 "
        "| 120 [270,000] | 0, 1 |" in page
    )
    assert "| dbpedia | ours | plain | 80.00 [98.25] |  |  |  | 0.0300 |" in page
    assert "![Accuracy against ratio by normalisation, DBPedia, a subset](figures/normalize-dbpedia.png)" in page
    assert "## Missing" not in page


def test_lambda_sparse_is_chosen_on_held_out_rows(tables: ModuleType, results: Path) -> None:
    page = tables.page(read_reports(results), [])
    assert "| 0.6 | lambda_sparse=0.2, chosen | 55.00 [74.67] | 70.00 |" in page
    assert "| 0.6 | plain | 50.00 [71.27] | 60.00 | 40.00 |" in page


def test_the_check_says_what_is_missing(tables: ModuleType, results: Path, tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(tables.page(read_reports(results), tables.missing(results)))
    command = [sys.executable, PAPER / "tables.py", "--check", "--results", results, "--page", page]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    assert lines[-1] == f"tables rebuilt=3 missing={len(listed()) - 2}"
    assert "missing: table2-adult-ours-0" in lines
    assert "missing: table2-dbpedia-ours-0" not in lines
    assert "not drawn: normalize-dbpedia; run python paper/figures.py" in lines
    assert not any("is not what the results say" in line for line in lines)


def test_a_page_is_right_until_it_is_changed(
    tables: ModuleType, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "RESULTS.md"
    assert tables.figures.draw_all(results, tmp_path / "figures") == 3
    monkeypatch.setattr(tables, "missing", lambda results: [])

    def ended(*arguments: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["tables.py", *arguments, "--results", str(results), "--page", str(page)])
        with pytest.raises(SystemExit) as stopped:
            tables.main()
        return stopped.value.code

    assert (ended(), ended("--check")) == (0, 0)
    page.write_text(page.read_text().replace("91.00", "99.00"))
    assert ended("--check") == 1


def test_the_committed_page_is_made_of_the_committed_reports(tables: ModuleType) -> None:
    reports, wanted = read_reports(tables.RESULTS), tables.missing(tables.RESULTS)
    assert tables.PAGE.read_text() == tables.page(reports, wanted), "run python paper/tables.py"
    undrawn = [name for name in tables.figures.titles(reports) if not (tables.FIGURES / f"{name}.png").exists()]
    assert undrawn == [], "run python paper/figures.py"


def test_targets_are_reached_or_missed_by_so_much(tables: ModuleType) -> None:
    runs = {
        "a": report(Run("table2", "adult-lstm", "ours"), {"sparsemax": attention(0.885)}),
        "c": report(
            Run("table3", "cifar-10-noise-80", "ours"), {"plain": {"accuracy": 0.5}, "corrected": {"accuracy": 0.52}}
        ),
    }
    section = tables.targets(runs)
    assert "| >= 0.856 | 0.875 | reached | 1,000 |" in section
    assert "| >= 0.53 | 0.52 | missed by 0.01 | 1,000 |" in section
    assert "AURC below" not in section, "of runs that are not there"


def test_targets_for_whole_sets_are_of_a_benchmark(tables: ModuleType) -> None:
    section = tables.targets({})
    measured = json.loads((ROOT / "benchmarks/results/defaults.json").read_text())["headline"]["adult"]
    assert f"| Adult, accuracy of the sparse decision [85.58] | >= 87.2 | {measured:.4g} |" in section


def test_targets_are_of_runs_on_the_list(tables: ModuleType) -> None:
    wanted = {f"{run.experiment} {run.data} {run.recipe}" for run in listed()}
    targets = sys.modules[tables.targets.__module__].TARGETS
    assert {target["run"] for target in targets if "benchmark" not in target} <= wanted


def test_the_papers_figures_are_of_runs_that_exist(tables: ModuleType) -> None:
    needed = {run for figure in tables.figures.FIGURES.values() for run in figure.needs}
    assert needed <= {run.name for run in listed()}
