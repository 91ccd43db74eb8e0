"""A training that was stopped, at any point and in any way, goes on to the same weights."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from typer.testing import CliRunner

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.app.cli import app
from protoattend.config import CANDIDATES, Settings
from protoattend.core.model import ProtoAttend
from protoattend.errors import BadFile, CannotWrite, UserError
from protoattend.training import checkpoint
from protoattend.training.batches import Labelled
from protoattend.training.checkpoint import FILE, Checkpoints, FileCheckpointer
from protoattend.training.history import Metrics
from protoattend.training.loop import train
from protoattend.training.losses import plain_terms

from ..plans import plan
from . import killable

PARAMS: dict[str, Any] = {"max_epochs": 6, "random_state": 0, "verbose": 0, "batch_size": 32}


@pytest.fixture(scope="module")
def wine() -> Any:
    return load_wine(return_X_y=True)


def same_weights(first: ProtoAttendClassifier, second: ProtoAttendClassifier) -> bool:
    ours, theirs = first.model_.state_dict(), second.model_.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in theirs)


class StopError(Exception):
    pass


def stopped_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let training fall over after so many steps, having written what it had to write by then."""
    for name in ("after_step", "after_epoch"):
        method = getattr(FileCheckpointer, name)

        def falling(self: FileCheckpointer, state: Any, method: Any = method) -> None:
            method(self, state)
            if state.step >= step:
                raise StopError

        monkeypatch.setattr(FileCheckpointer, name, falling)


@pytest.fixture(scope="module", params=CANDIDATES)
def whole(request: Any, wine: Any) -> ProtoAttendClassifier:
    """A training of each strategy that nothing has stopped."""
    return ProtoAttendClassifier(**PARAMS, candidates=request.param).fit(*wine)


@pytest.mark.parametrize("step", [1, 3, 4, 5, 9, 23])
def test_it_goes_on_to_the_same_weights(
    whole: ProtoAttendClassifier, step: int, wine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stopped_at(step, patched)
        with pytest.raises(StopError):
            clone(whole).fit(*wine, checkpoint_to=Checkpoints(tmp_path, every=1))
    again = clone(whole).fit(*wine, resume_from=tmp_path)
    assert same_weights(again, whole)
    assert [r.losses for r in again.history_] == [r.losses for r in whole.history_]
    assert again.history_.best_epoch == whole.history_.best_epoch


def test_sgd_goes_on_too(few_digits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = PARAMS | {"recipe": Recipe(optimizer="sgd"), "max_epochs": 2}
    whole = ProtoAttendClassifier(**params).fit(*few_digits)
    with monkeypatch.context() as patched:
        stopped_at(7, patched)
        with pytest.raises(StopError):
            ProtoAttendClassifier(**params).fit(*few_digits, checkpoint_to=Checkpoints(tmp_path, every=1))
    assert same_weights(ProtoAttendClassifier(**params).fit(*few_digits, resume_from=tmp_path), whole)


def test_augmentation_dropout_and_an_unknown_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_digits(return_X_y=True)
    images = X[:160].reshape(-1, 8, 8)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(0.5))
    params = PARAMS | {"encoder": net, "max_epochs": 3, "random_state": None}
    with monkeypatch.context() as patched:
        stopped_at(4, patched)
        with pytest.raises(StopError):
            ProtoAttendClassifier(**params).fit(images, y[:160], checkpoint_to=Checkpoints(tmp_path / "a", every=2))
    kept = (tmp_path / "a" / FILE).read_bytes()
    results = []
    for _ in range(2):
        (tmp_path / "a" / FILE).write_bytes(kept)
        results.append(ProtoAttendClassifier(**params).fit(images, y[:160], resume_from=tmp_path / "a"))
    assert same_weights(*results), "what was drawn from no seed goes on from the seed in the checkpoint"


@pytest.mark.slow
def test_a_killed_process(tmp_path: Path) -> None:
    """Kill -9 at random moments, again and again, until it comes through."""
    places = tmp_path / "run", tmp_path / "model"
    chance = random.Random(time.time_ns())
    kills = 0
    process = killable.started(killable.train, *places)
    while not (tmp_path / "run" / FILE).exists():
        time.sleep(0.01)
    while kills < 4:
        time.sleep(chance.uniform(0.0, 0.3))
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
        process = killable.started(killable.go_on, *places)
    process.join()
    assert process.exitcode == 0
    assert kills
    whole = killable.with_a_bank().fit(*killable.some_digits())
    assert same_weights(ProtoAttendClassifier.load(tmp_path / "model"), whole)


def test_ctrl_c_saves_and_says_how_to_go_on(wine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = signal.getsignal(signal.SIGINT)
    after = FileCheckpointer.after_step

    def pressed(self: FileCheckpointer, state: Any) -> None:
        if state.step == 6:
            os.kill(os.getpid(), signal.SIGINT)
        after(self, state)

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpointer, "after_step", pressed)
        with pytest.raises(KeyboardInterrupt, match="stopped after step 6; go on with resume_from="):
            ProtoAttendClassifier(**PARAMS).fit(*wine, checkpoint_to=tmp_path)
    assert signal.getsignal(signal.SIGINT) is handler
    assert checkpoint.read(tmp_path).progress["step"] == 6
    assert same_weights(
        ProtoAttendClassifier(**PARAMS).fit(*wine, resume_from=tmp_path), ProtoAttendClassifier(**PARAMS).fit(*wine)
    )


def test_a_finished_training_is_read_back(wine: Any, tmp_path: Path) -> None:
    first = ProtoAttendClassifier(**PARAMS).fit(*wine, checkpoint_to=tmp_path)
    assert same_weights(ProtoAttendClassifier(**PARAMS).fit(*wine, resume_from=tmp_path), first)
    assert [path.name for path in tmp_path.iterdir()] == [FILE], "nothing else is left behind"


def test_another_model_or_data_set(wine: Any, tmp_path: Path) -> None:
    X, y = wine
    ProtoAttendClassifier(**PARAMS).fit(X, y, checkpoint_to=tmp_path)
    before = (tmp_path / FILE).read_bytes()
    for params, message in (
        ({"d_att": 8}, r"was made with d_att=16 and now it is 8"),
        ({"random_state": 1}, r"was made with random_state=0 and now it is 1"),
    ):
        with pytest.raises(UserError, match=message):
            ProtoAttendClassifier(**PARAMS | params).fit(X, y, resume_from=tmp_path)
    with pytest.raises(UserError, match="was made of other X or y"):
        ProtoAttendClassifier(**PARAMS).fit(X[::-1], y, resume_from=tmp_path)
    with pytest.raises(UserError, match="holds a checkpoint already"):
        ProtoAttendClassifier(**PARAMS).fit(X, y, checkpoint_to=tmp_path)
    ProtoAttendClassifier(**PARAMS | {"d_att": 8}).fit(X, y, checkpoint_to=tmp_path / "other")
    with pytest.raises(UserError, match="holds a checkpoint already"):
        ProtoAttendClassifier(**PARAMS | {"d_att": 8}).fit(X, y, resume_from=tmp_path / "other", checkpoint_to=tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_encoders_of_one_class_are_told_apart(wine: Any, tmp_path: Path) -> None:
    def params(width: int) -> dict[str, Any]:
        return PARAMS | {"encoder": torch.nn.Sequential(torch.nn.Linear(13, width)), "max_epochs": 1}

    ProtoAttendClassifier(**params(16)).fit(*wine, checkpoint_to=tmp_path)
    ProtoAttendClassifier(**params(16)).fit(*wine, resume_from=tmp_path)
    with pytest.raises(UserError, match=r"was made with encoder=Sequential.*out_features=16"):
        ProtoAttendClassifier(**params(32)).fit(*wine, resume_from=tmp_path)


def test_a_function_is_the_same_in_another_process() -> None:
    data = Labelled(torch.zeros(2, 1), torch.arange(2))
    (first, second) = (checkpoint.identity(Settings(augment=lambda x, g: x), data) for _ in range(2))
    assert first == second
    assert "0x" not in first["augment"]


def test_files_that_are_none(wine: Any, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="resume_from must be a folder with a checkpoint"):
        ProtoAttendClassifier(**PARAMS).fit(*wine, resume_from=tmp_path)
    ProtoAttendClassifier(**PARAMS).fit(*wine, checkpoint_to=tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for broken in (b"", b"\x80\x04 something else", whole[: len(whole) // 2], whole[:-1]):
        (tmp_path / FILE).write_bytes(broken)
        with pytest.raises(BadFile, match="must be a checkpoint of this protoattend"):
            ProtoAttendClassifier(**PARAMS).fit(*wine, resume_from=tmp_path)


def test_a_full_disk_does_not_end_the_training(wine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.warns(UserWarning, match=r"could not be written to .*No space left on device.*training goes on"):
        fitted = ProtoAttendClassifier(**PARAMS).fit(*wine, checkpoint_to=tmp_path)
    assert fitted.score(*wine) > 0.9
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_keeps_the_last_good_state(wine: Any, tmp_path: Path) -> None:
    class Breaking(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(13, 8)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += self.training
            return self.linear(x) * (float("nan") if self.calls == 8 else 1.0)

    with pytest.raises(UserError, match=r"attention scores must be finite.* The state after step 6 is kept in"):
        ProtoAttendClassifier(**PARAMS | {"encoder": Breaking(), "recipe": Recipe(mixup=0.0)}).fit(
            *wine, checkpoint_to=Checkpoints(tmp_path, every=3)
        )
    state = checkpoint.read(tmp_path)
    assert state.progress["step"] == 6
    assert all(torch.isfinite(tensor).all() for tensor in state.tensors.values())


def test_the_term_that_is_not_finite_is_named() -> None:
    data = Labelled(torch.randn(40, 4), torch.arange(40) % 2)
    config = plan(batch_size=20, max_epochs=2)

    def terms(model: ProtoAttend, batch: Any, progress: float) -> dict[str, torch.Tensor]:
        fine = model.self_logits(batch.x).square().mean()
        return {"self": fine, "conf": fine / (0.0 if progress else 1.0)}

    model = ProtoAttend(torch.nn.Flatten(), 2, in_features=4)
    with pytest.raises(UserError, match="at step 1: the loss must stay finite, but its conf became NaN or infinite"):
        train(model, data, config, loss_terms=terms, evaluate=None, seed=0)
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())


def test_patience_stops_early(wine: Any) -> None:
    accuracies = iter([0.8, 0.9, 0.5, 0.9, 0.5, 0.4, 0.3])
    data = Labelled(torch.randn(40, 4), torch.arange(40) % 2)
    config = plan(batch_size=20, max_epochs=7, patience=2)
    history = train(
        ProtoAttend(torch.nn.Flatten(), 2, in_features=4),
        data,
        config,
        loss_terms=plain_terms(config),
        evaluate=lambda: Metrics(1000, 0.0, next(accuracies), 1.0),
        seed=0,
    )
    assert (len(history), history.best_epoch) == (6, 3)
    with pytest.raises(UserError, match="patience must be None or an integer of at least 1"):
        Recipe(patience=0)
    with pytest.raises(UserError, match="validation_fraction=0 holds no row out"):
        ProtoAttendClassifier(**PARAMS | {"recipe": Recipe(patience=2), "validation_fraction": 0.0}).fit(*wine)


def test_a_training_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    accuracies = iter([0.9, 0.5, 0.4])
    data = Labelled(torch.randn(40, 4), torch.arange(40) % 2)
    config = plan(batch_size=20, max_epochs=7, patience=2)

    def fit(found: checkpoint.Checkpoint | None) -> tuple[ProtoAttend, Any]:
        model = ProtoAttend(torch.nn.Flatten(), 2, in_features=4)
        history = train(
            model,
            data,
            config,
            loss_terms=plain_terms(config),
            evaluate=lambda: Metrics(1000, 0.0, next(accuracies), 1.0),
            seed=0,
            checkpointer=FileCheckpointer(Checkpoints(tmp_path), seed=0, batch_size=20, identity={}, found=found),
        )
        return model, history

    first, history = fit(None)
    again, history_again = fit(checkpoint.read(tmp_path))
    assert len(history) == len(history_again) == 3
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in first.state_dict().items())


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load_wine(as_frame=True).frame.to_csv("wine.csv", index=False)
    fit = ["fit", "wine.csv", "--target", "target", "--epochs", "3"]
    runner = CliRunner()
    with monkeypatch.context() as patched:
        after = FileCheckpointer.after_step

        def pressed(self: FileCheckpointer, state: Any) -> None:
            self.interrupted = state.step == 6
            after(self, state)

        patched.setattr(FileCheckpointer, "after_step", pressed)
        stopped = runner.invoke(app, [*fit, "--checkpoint-to", "run"])
    assert stopped.exit_code == 130
    assert "stopped: after step 6; go on with --resume-from 'run'" in stopped.stderr
    assert runner.invoke(app, [*fit, "--resume-from", "run"]).exit_code == 0
    assert ProtoAttendClassifier.load("wine-model").history_[2].epoch == 2


def test_a_folder_that_cannot_be_written_is_found_before_any_step(wine: Any, tmp_path: Path, monkeypatch: Any) -> None:
    X, y = wine
    monkeypatch.setattr("protoattend.training.fit.train", lambda *rest, **more: pytest.fail("trained first"))
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(CannotWrite, match=r"could not be written \(Not a directory\)"):
            ProtoAttendClassifier(**PARAMS).fit(X, y, checkpoint_to=folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
