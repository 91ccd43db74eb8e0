"""The code of the guides runs as it stands, and their figures are those of committed results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_code_of_the_guide(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)


def test_figures_of_imbalance() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "imbalance.json").read_text())
    text = (ROOT / "docs" / "guides" / "imbalance.md").read_text()
    for name, title in (("breast_cancer", "breast cancer"), ("adult", "Adult"), ("isic", "ISIC, 32 x 32")):
        found = results[name]
        rows = found["train_rows"].values()
        rare, other = found["recall_rare"], found["recall_frequent"]
        cells = [f"{rare[way]:.2f} ({other[way]:.2f})" for way in rare]
        assert f"| {title}, {' : '.join(map(str, rows))} | {' | '.join(cells)} |" in text
