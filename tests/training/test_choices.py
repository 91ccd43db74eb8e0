"""What "auto" stands for, how many threads a training is worth, and what fits into a time."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from tests.plans import plan

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.config import Settings
from protoattend.data.inputs import fit_inputs
from protoattend.encoders.build import MANY_IMAGES, MANY_TEXTS, build_encoder
from protoattend.errors import UserError
from protoattend.parallel import threads
from protoattend.training import choices
from protoattend.training.budget import within_budget
from protoattend.training.choices import DECAY_OF_FEW_TEXTS, LIKENESS_ALONE
from protoattend.training.setup import STEPS_OF_FEW_TEXTS, choose_threads, make_plan

GREY = {"channels": 1, "height": 28, "width": 28}
COLOUR = {"channels": 3, "height": 32, "width": 32}
CPU, GPU = torch.device("cpu"), torch.device("cuda")

decide = partial(choices.decide, device=CPU)


def test_no_auto_is_left() -> None:
    for form in (GREY, COLOUR):
        for n_rows in (100, MANY_IMAGES):
            recipe = decide(Recipe(), form, build_encoder("fast-cnn", "images", form), n_rows)
            left = [each.name for each in fields(recipe) if getattr(recipe, each.name) == "auto"]
            assert left == ["text_length"]  # which only inputs know


def test_few_texts_decay_and_many_leave_out_n_grams() -> None:
    form = {"n_grams": 9, "n_subwords": 4, "length": 8}
    few, many = (build_encoder("auto", "text", form, n_rows=n) for n in (MANY_TEXTS - 1, MANY_TEXTS))
    assert (few.body.dropout, many.body.dropout) == (0.0, 0.3)
    assert decide(Recipe(), form, few, MANY_TEXTS - 1).weight_decay == DECAY_OF_FEW_TEXTS
    assert decide(Recipe(), form, many, MANY_TEXTS).weight_decay == 0
    assert decide(Recipe(weight_decay=0.2), form, few, 100).weight_decay == 0.2
    assert decide(Recipe(optimizer="sgd"), form, few, 100).weight_decay == 0  # it has its own


def test_few_texts_take_many_steps() -> None:
    form = {"n_grams": 9, "n_subwords": 4, "length": 8}
    for n_rows in (20, 90, 700):
        encoder = build_encoder("auto", "text", form, n_rows=n_rows)
        plan_of_it = make_plan(
            Settings(), decide(Recipe(), form, encoder, n_rows), n_rows, kind="text", encoder=encoder
        )
        assert plan_of_it.max_epochs * max(1, n_rows // plan_of_it.batch_size) >= STEPS_OF_FEW_TEXTS


def test_large_images_are_learned_as_they_are_and_small_ones_blended() -> None:
    encoder = build_encoder("fast-cnn", "images", COLOUR)
    small, large = (decide(Recipe(), COLOUR, encoder, n) for n in (MANY_IMAGES - 1, MANY_IMAGES))
    assert (small.optimizer, small.mixup, small.label_smoothing) == ("adam", 1.0, 0.0)
    assert (large.optimizer, large.mixup, large.label_smoothing) == ("sgd", 0.0, 0.2)
    assert large.test_time_augmentation.mirror
    grey = decide(Recipe(), GREY, build_encoder("fast-cnn", "images", GREY), MANY_IMAGES)
    assert not grey.test_time_augmentation.mirror  # digits do not mean the same when mirrored


def test_what_is_given_stays() -> None:
    encoder = build_encoder("fast-cnn", "images", GREY)
    given = Recipe(mixup=0.5, optimizer="adam", likeness=0.0, test_time_augmentation=None)
    decided = decide(given, GREY, encoder, MANY_IMAGES)
    assert (decided.mixup, decided.optimizer, decided.likeness) == (0.5, "adam", 0.0)
    assert decided.test_time_augmentation is None


@pytest.mark.parametrize("able", [True, False])
def test_a_cpu_trains_many_images_in_bfloat16_where_it_multiplies_it(
    able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "multiplies_bfloat16", lambda device: able and device.type == "cpu")
    encoder = build_encoder("fast-cnn", "images", GREY)
    few, many = (decide(Recipe(), GREY, encoder, n).precision for n in (MANY_IMAGES - 1, MANY_IMAGES))
    assert (few, many) == ("float32", "bfloat16" if able else "float32")
    assert decide(Recipe(), GREY, encoder, 100, device=GPU).precision == "bfloat16"
    assert decide(Recipe(precision="float32"), GREY, encoder, MANY_IMAGES, device=GPU).precision == "float32"


def test_torch_that_cannot_tell_trains_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not choices.multiplies_bfloat16(CPU)


def test_likeness_stands_in_for_attention_that_is_taught_nothing() -> None:
    encoder = build_encoder("fast-cnn", "images", GREY)
    assert decide(Recipe(), GREY, encoder, 100).likeness == 0.1
    assert decide(Recipe(), GREY, encoder, 100, attention_taught=False).likeness == LIKENESS_ALONE
    assert decide(Recipe(likeness=0), GREY, encoder, 100, attention_taught=False).likeness == 0


def test_few_rows_get_as_many_epochs_as_make_enough_steps() -> None:
    def epochs(n_rows: int) -> int:
        X, y = np.random.default_rng(0).random((n_rows, 2)), np.arange(n_rows) % 2
        classifier = ProtoAttendClassifier(validation_fraction=0, random_state=0, verbose=0).fit(X, y)
        return len(classifier.history_.records)

    assert [epochs(n) for n in (6, 70, 400)] == [100, 50, 30]


def test_small_steps_get_one_thread() -> None:
    with threads(2):
        table, digits, photos = (fit_inputs(np.zeros(shape)) for shape in ((4, 3), (4, 8, 8), (4, 3, 64, 64)))
        assert choose_threads("auto", 256, table, "auto") == 1
        assert choose_threads("auto", 256, digits, "auto") == 1
        assert choose_threads("auto", 256, photos, "auto") == 2
        assert choose_threads("auto", 32, table, torch.nn.Identity()) == 2
        assert choose_threads(3, 256, table, "auto") == 3


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    X, y = load_wine(return_X_y=True)
    ProtoAttendClassifier(max_epochs=1, n_threads=before + 1, random_state=0, verbose=0).fit(X, y)
    assert torch.get_num_threads() == before


def test_epochs_fit_into_the_time() -> None:
    assert within_budget(plan(max_epochs=20), 100, 1.0).max_epochs == 20
    assert within_budget(plan(max_epochs=20, max_minutes=10), 100, 1.0).max_epochs == 5
    with pytest.raises(UserError, match="max_minutes must leave time for one epoch"):
        within_budget(plan(max_epochs=20, max_minutes=1), 100, 1.0)
    assert within_budget(plan(max_epochs=20, max_minutes=10), 100, 1.0, rounds=2.0).max_epochs == 2
    with pytest.raises(UserError, match=r"about 1\.9 minutes here, of which there are 3"):
        within_budget(plan(max_epochs=20, max_minutes=5), 100, 1.0, rounds=3.0)


def test_a_time_and_checkpoints_exclude_each_other(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    clf = ProtoAttendClassifier(recipe=Recipe(max_minutes=1), random_state=0, verbose=0)
    with pytest.raises(UserError, match="max_minutes=1 goes by the clock"):
        clf.fit(X, y, checkpoint_to=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_line_says_what_was_chosen_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = load_wine(return_X_y=True)
    told = ProtoAttendClassifier(max_epochs=2, random_state=0).fit(X, y)
    assert "table, 160 rows, encoder MLP: adam, mixup 1, 2 epochs of 5 steps" in capsys.readouterr().err
    silent = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(told.predict_proba(X), silent.predict_proba(X))


@pytest.mark.parametrize(("form", "few", "many"), [(GREY, 128, 256), (COLOUR, 256, 256)])
def test_many_images_are_worth_wider_stages(form: dict[str, int], few: int, many: int) -> None:
    small, large = (build_encoder("auto", "images", form, n_rows=n) for n in (MANY_IMAGES - 1, MANY_IMAGES))
    assert (small.out_features, large.out_features) == (few, many)
    count = [sum(p.numel() for p in encoder.parameters()) for encoder in (small, large)]
    assert count[1] > 1.5 * count[0]
    photos = form | {"height": 100, "width": 100}
    sizes = {sum(p.numel() for p in build_encoder("auto", "images", photos, n_rows=n).parameters()) for n in (1, 10**6)}
    assert len(sizes) == 1, "of large images that would take hours"
