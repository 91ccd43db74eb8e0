"""The page of measured figures says what the committed results say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_readme_says_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_page

    readme = words((ROOT / "README.md").read_text())
    for headline in results_page.headlines():
        assert words(headline) in readme


def test_the_page_is_made_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_page

    assert results_page.PAGE.read_text() == results_page.page(), "run python benchmarks/results_page.py"


def test_comparisons_are_means_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_page

    def run(aurc: float) -> dict[str, Any]:
        quality = {"same_class": 0.9, "deletion": aurc, "insertion": 0.1, "learned": 0.5, "busiest": 0.02}
        confidence = {"accuracy": 0.95, "aurc": aurc, "ood_auroc": {"rotated": 0.8, "inverted": 0.7}}
        return {"confidence": {"MSP": confidence}, "examples": {"kNN": quality}}

    runs = {"digits": [run(0.01), run(0.03)]}
    section = results_page.compare({"compare": {"seeds": [0, 1], "members": 4, "examples": 10, "runs": runs}})
    assert "| digits | MSP | 95.00% | 0.0200 (0.0100 to 0.0300) | rotated 0.800, inverted 0.700 |" in section
    assert "| digits | kNN | 0.900 | 0.020 | 0.100 | 0.500 | 0.020 |" in section
