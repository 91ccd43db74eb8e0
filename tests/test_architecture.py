"""docs/architecture.md is true: what it names exists, its rooms are all rooms, its arrows are the imports."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from .test_rooms import FILES, ROOMS, imported_modules

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "protoattend"
TEXT = (ROOT / "docs" / "architecture.md").read_text()
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
PATHS = sorted({span for span in CODE if re.fullmatch(r"[\w/.]+(\.(py|html|md|toml)|/)(::[\w.]+)?", span)})
IN_DOCSTRINGS = re.compile(r"(?<![\w/.*-])((?:[a-z_]+/)+[a-z_]+\.(?:py|md|html))\b")


@cache
def names_in(path: Path) -> set[str]:
    """Return the functions, classes, methods and constants of a file, methods as Class.method."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        found |= _named(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for inner in node.body for name in _named(inner)}
    return found


def _named(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}


def resolved(name: str, *more: Path) -> Path | None:
    return next((folder / name for folder in (SOURCE, ROOT, *more) if (folder / name).exists()), None)


@pytest.mark.parametrize("span", PATHS)
def test_what_is_named_exists(span: str) -> None:
    name, _, member = span.partition("::")
    path = resolved(name)
    assert path is not None, f"{name} is not there"
    assert not member or member in names_in(path), f"{name} has no {member}"


def test_enough_is_named() -> None:
    rows = TEXT.partition("## Where do I change")[2].count("\n| ") - 2
    assert rows >= 20
    assert len([span for span in PATHS if "::" in span]) >= 100


def test_every_room_is_described_in_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT.partition("## One `fit`")[0], re.MULTILINE) == ROOMS


def test_the_arrows_are_the_imports() -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", TEXT, re.MULTILINE))
    real = set()
    for path in FILES:
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        others = {module.split(".")[1] for module in imported_modules(path) if module.startswith("protoattend.")}
        real |= {(own, other) for other in others - {own} if other in ROOMS}
    assert drawn - real == set(), "no such import"
    reached = set(drawn)
    for _ in ROOMS:
        reached |= {(a, d) for a, b in reached for c, d in drawn if b == c}
    assert real - reached == set(), "an import that no path of arrows shows"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_files_named_in_the_source_exist(path: Path) -> None:
    """A docstring that says where something is must not name a file of before."""
    assert [name for name in IN_DOCSTRINGS.findall(path.read_text()) if resolved(name, path.parent) is None] == []
