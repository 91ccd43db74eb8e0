"""Forgetting: rows are gone from memory and disk, and the report says what still depends on them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoattend import CandidateDatabase, ImageFiles, ProtoAttendClassifier

from .folders import content, open_again

SECRET = "this quince belongs to Erika Mustermann"


def test_a_removed_text_is_gone_from_disk(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    first = copy.deepcopy(text_classifier.database_)
    added = first.add([SECRET], ["fruit"])
    first.save(tmp_path / "database")

    def on_disk() -> bool:
        return any(SECRET.encode() in held for held in content(tmp_path).values())

    opened = open_again(first, tmp_path / "database")
    opened.remove(added)
    opened.save_edits()
    assert on_disk()  # as the docstring says
    opened.compact()
    assert not on_disk()
    first.save(tmp_path / "database")
    assert open_again(first, tmp_path / "database").forget(added).gone_from_disk
    assert not on_disk()
    assert list(tmp_path.iterdir()) == [tmp_path / "database"]


def test_the_report_says_what_rested_on_rows(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    added = database.add(wine[0][:1], wine[1][:1])
    before = database.snapshot()
    of_one_class = np.flatnonzero(wine[1] == 2)[:-1]
    report = database.forget([*of_one_class, *added])
    assert report.indices == (*of_one_class, *added)
    assert report.trained_with == tuple(of_one_class)  # not the row added after training
    assert 0 < report.votes < 1
    assert len(wine[1]) - 1 in report.changed  # the last of its class
    assert not report.gone_from_disk
    assert "in memory alone" in str(report)
    remaining = database.rows
    own = np.searchsorted(before.rows.ids, remaining.ids)
    was = before.attend(remaining.queries, own=torch.from_numpy(own)).predicted
    now = database.attend(remaining.queries, own=torch.arange(len(remaining))).predicted
    assert report.changed == tuple(remaining.ids[(was != now).numpy()].tolist())


def test_image_files_are_named_and_stay(tmp_path: Path) -> None:
    from PIL import Image

    for i in range(20):
        Image.fromarray(np.full((8, 8), 12 * i, dtype=np.uint8)).save(tmp_path / f"{i:02d}.png")
    images = ImageFiles.from_paths(sorted(tmp_path.iterdir()), ["a", "b"] * 10)
    database: CandidateDatabase = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(images).database_
    assert database.forget([3]).image_files == (str(tmp_path / "03.png"),)
    assert (tmp_path / "03.png").exists()
