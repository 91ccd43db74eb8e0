"""What `import protoattend` costs and gives."""

from __future__ import annotations

import subprocess
import sys

import pytest

import protoattend


def loaded_by(module: str, *heavy: str) -> list[str]:
    """Return which of the heavy modules a fresh interpreter has loaded after importing this one."""
    code = f"import sys, {module}; print(' '.join(name for name in {heavy!r} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_import_brings_no_heavy_module() -> None:
    assert loaded_by("protoattend", "torch", "sklearn", "matplotlib", "pandas") == []


def test_baselines_are_imported_when_used() -> None:
    assert loaded_by("protoattend.baselines", "torch", "sklearn", "scipy") == []


@pytest.mark.parametrize("name", ["selective", "calibration", "conformal", "assessment", "methods"])
def test_uncertainty_takes_arrays_and_does_not_draw(name: str) -> None:
    assert loaded_by(f"protoattend.uncertainty.{name}", "torch", "matplotlib", "jinja2") == []


def test_public_names_exist() -> None:
    for name in protoattend.__all__:
        assert getattr(protoattend, name) is not None
    assert set(protoattend.__all__) <= set(dir(protoattend))
