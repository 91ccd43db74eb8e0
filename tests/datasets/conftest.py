"""A folder to fetch into."""

from __future__ import annotations

from pathlib import Path

import pytest

from protoattend.datasets import catalogue as datasets
from protoattend.datasets import fetch

from .stand_ins import idx_files


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to fetch into, while the tiny files count as the published MNIST and Fashion-MNIST."""
    source = tmp_path / "published"
    source.mkdir()
    for name, data in idx_files().items():
        (source / name).write_bytes(data)
    for split in datasets.SPLITS:
        samples, _ = datasets.read("mnist", split, folder=source)
        for name in ("mnist", "fashion-mnist"):
            monkeypatch.setitem(fetch.DIGESTS, (name, split), fetch.fingerprint(samples.X, samples.y))
    return tmp_path / "data"
