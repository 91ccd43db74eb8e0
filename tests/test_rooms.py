"""Imports go downward only through the rooms of the design, those for type checking too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "protoattend"
ROOMS = [
    "errors", "arguments", "setting_checks", "files", "folders", "viz", "parallel", "core", "data", "encoders",
    "config", "datasets", "database", "training", "explain", "uncertainty", "monitoring", "data_quality", "old_formats",
    "io", "estimator", "classifier", "baselines", "reproduce", "app",
]  # fmt: skip
FILES = sorted(
    path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
)
DRAWING = {"matplotlib", "jinja2", "markupsafe"}


def room_of(module: str) -> int | None:
    parts = module.split(".")
    return ROOMS.index(parts[1]) if parts[0] == "protoattend" and len(parts) > 1 else None


def imported_modules(path: Path) -> list[str]:
    """Return what a file imports, at the top, in functions and for type checking."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_downward(path: Path) -> None:
    own = room_of("protoattend." + ".".join(path.relative_to(SOURCE).with_suffix("").parts))
    assert own is not None
    for module in imported_modules(path):
        room = room_of(module)
        assert room is None or room <= own, f"{path.name} in {ROOMS[own]} imports upward: {module}"


def test_what_draws_knows_nothing_of_the_rest() -> None:
    for path in (SOURCE / "viz").rglob("*.py"):
        ours = [module for module in imported_modules(path) if module.startswith("protoattend.")]
        assert {module.split(".")[1] for module in ours} <= {"errors", "viz"}, path.name


def test_only_viz_imports_matplotlib_and_jinja() -> None:
    importers = {path for path in SOURCE.rglob("*.py") if DRAWING & {m.split(".")[0] for m in imported_modules(path)}}
    assert importers
    assert all(path.parent == SOURCE / "viz" for path in importers), sorted(map(name_of, importers))


def test_every_room_is_checked() -> None:
    assert {path.relative_to(SOURCE).with_suffix("").parts[0] for path in FILES} <= set(ROOMS)
    assert len(FILES) > 20
