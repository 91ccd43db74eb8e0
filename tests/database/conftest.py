"""A database on disk, shared by the tests of its folder and of its log of edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from protoattend import CandidateDatabase, ProtoAttendClassifier

from .folders import open_again


@pytest.fixture
def opened(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> CandidateDatabase:
    wine_classifier.database_.save(tmp_path / "database")
    return open_again(wine_classifier.database_, tmp_path / "database")
