"""What `import protoattend` costs and gives."""

from __future__ import annotations

import subprocess
import sys

import protoattend


def test_import_brings_no_heavy_module() -> None:
    code = (
        "import sys, protoattend; print([m for m in ('torch', 'sklearn', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_public_names_exist() -> None:
    for name in protoattend.__all__:
        assert getattr(protoattend, name) is not None
    assert set(protoattend.__all__) <= set(dir(protoattend))
