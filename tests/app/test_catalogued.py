"""Data sets of the catalogue by name in place of a file, and the paper's recipe from the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.app.settings import make_classifier
from protoattend.config import PAPER, PAPER_SETTINGS
from protoattend.datasets import catalogue
from protoattend.datasets.paper import paper_settings
from protoattend.errors import UserError

from .running import as_json, failed

ROWS = 12  # of each of the five files of CIFAR-10
QUICK = ("--epochs", 1, "--set", "encoder=fast-cnn", "--set", "n_candidates=8", "--set", "batch_size=16")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny CIFAR-10 in its original format, and no other data set."""
    folder = tmp_path / "data" / "cifar-10"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for i in range(1, 6):
        rows = generator.integers(0, 256, (ROWS, 1 + 3 * 32 * 32), dtype=np.uint8)
        rows[:, 0] = np.arange(ROWS) % 3
        (folder / f"data_batch_{i}.bin").write_bytes(rows.tobytes())
    monkeypatch.setenv("PROTOATTEND_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(catalogue, "SYSTEM_FOLDERS", ())
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_set_is_trained_by_its_name_as_the_paper_says(data: Path) -> None:
    told = as_json("fit", "cifar-10", "--recipe", "paper", *QUICK)
    assert (told["folder"], told["n_samples"]) == ("cifar-10-model", 5 * ROWS)
    assert told["classes"] == ["airplane", "automobile", "bird"]
    clf = ProtoAttendClassifier.load(data / "cifar-10-model")
    of_set = paper_settings("cifar-10")
    assert (clf.recipe, clf.d_out, clf.learning_rate) == (of_set["recipe"], 128, of_set["learning_rate"])
    assert (clf.candidates, clf.n_candidates, clf.n_prototypes, clf.max_epochs) == ("sampled", 8, None, 1)


def test_options_go_before_the_appendix(data: Path) -> None:
    given = ("--max-minutes", 5, "--set", "recipe.mixup=0.5", "--set", "d_out=8", "--set", "normalize=softmax")
    as_json("fit", "cifar-10", "--recipe", "paper", *QUICK, *given)
    clf = ProtoAttendClassifier.load(data / "cifar-10-model")
    of_set = paper_settings("cifar-10", "softmax")
    assert clf.recipe == replace(of_set["recipe"], max_minutes=5.0, mixup=0.5)
    assert (clf.d_out, clf.learning_rate) == (8, of_set["learning_rate"])


def test_a_set_is_trained_by_our_recipe_too(data: Path) -> None:
    as_json("fit", "cifar-10", "--epochs", 1)
    clf = ProtoAttendClassifier.load(data / "cifar-10-model")
    assert (clf.recipe, clf.d_out) == ("auto", 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cifar10",), "did you mean the data set 'cifar-10'?"),
        (("mnist",), "get it with protoattend datasets get mnist"),
        (("no-such-thing",), "no-such-thing does not exist; check the path"),
        (("cifar-10", "--no-header"), "--header/--no-header was passed; leave it out"),
        (("cifar-10", "--target", "y"), "--target was passed; leave it out, or pass a file"),
        (("cifar-10", "--recipe", "paper", "--set", "d_out=0"), "d_out must be an integer"),
    ],
)
def test_mistakes(data: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in failed("fit", *arguments)
    assert not (data / "cifar-10-model").exists()


def test_a_file_goes_before_a_set_of_its_name(data: Path) -> None:
    (data / "mnist").mkdir()
    assert "datasets get" not in failed("fit", "mnist")


def made(*assignments: str, **options: Any) -> Any:
    return make_classifier(None, {}, options, assignments)


def test_the_paper_s_recipe_takes_a_budget() -> None:
    clf = made("recipe.max_minutes=5", "d_att=8", recipe="paper")
    assert clf.recipe == replace(PAPER, max_minutes=5.0)
    assert {name: getattr(clf, name) for name in PAPER_SETTINGS} == PAPER_SETTINGS
    assert clf.d_att == 8
    assert made("batch_size=32", "recipe.max_minutes=5", recipe="paper").batch_size == 32


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("recipe.mixup=0.5", "recipe=paper trains as the paper says, but recipe.mixup would change it"),
        ("n_prototypes=5", "recipe='paper' leaves attention as it was learned"),
        ("recipe.max_minutes=-1", "max_minutes must be"),
    ],
)
def test_what_would_change_the_paper_s_recipe_is_refused(assignment: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        made("recipe.max_minutes=5", assignment, recipe="paper")
