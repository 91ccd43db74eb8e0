"""The page of measured figures says what the committed results say."""

from __future__ import annotations

from pathlib import Path

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
