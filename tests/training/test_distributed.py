"""Two processes compute what one would, and one that dies is named."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from sklearn.datasets import load_wine
from torch import Tensor, nn

from protoattend import ProtoAttendClassifier, frozen
from protoattend.config import CANDIDATES, Settings
from protoattend.core import candidates as sources
from protoattend.core.model import Encoded, ProtoAttend
from protoattend.database.encode import encode_together
from protoattend.errors import UserError
from protoattend.parallel import Ranks, gather, ranks
from protoattend.training import checkpoint
from protoattend.training.batches import Batch, Labelled
from protoattend.training.checkpoint import Checkpoint
from protoattend.training.loop import train
from protoattend.training.losses import prototype_terms
from protoattend.training.setup import set_up
from protoattend.training.workers import spawned

from ..plans import plan
from . import killable
from .deaths import failing, killed
from .strategies import strategy_over

N, B, WIDTH = 48, 12, 5
KINDS = [("in-batch", "sparsemax"), ("sampled", "softmax"), ("bank", "sparsemax")]
DEFAULT, *OTHERS = CANDIDATES
CONFIG = plan(batch_size=B, max_epochs=2, lambda_sparse=0.1, lambda_conf=0.1, learning_rate=0.01)
DATA = Labelled(
    torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(N) % 3
)


def make_model(normalize: str) -> ProtoAttend:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.LayerNorm(16))
        return ProtoAttend(encoder, 3, in_features=16, d_att=8, d_out=6, normalize=normalize).double()


def trained(candidates: str, normalize: str) -> dict[str, Tensor]:
    """Train for eight steps, with a bank or samples over several, and return the weights."""
    model = make_model(normalize)
    strategy = strategy_over(candidates, DATA, batch_size=B, n_candidates=20, normalize=normalize)
    history = train(model, DATA, CONFIG, loss_terms=prototype_terms(CONFIG, strategy), evaluate=None, seed=0)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    return weights | {"losses": torch.tensor([list(record.losses.values()) for record in history])}


def reencoded() -> dict[str, Tensor]:
    """Take one step with most candidates encoded without gradient, and return the gradients."""
    model = make_model("sparsemax")
    x, y = ranks().share(DATA.samples[:B]), ranks().share(DATA.labels[:B])
    output = model(x, sources.reencoded(DATA.samples[B:], at_once=7))
    torch.nn.functional.cross_entropy(output.prototype_logits, y).backward()
    size = ranks().size
    return {
        name: gather(parameter.grad[None]).sum(0) / size
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


ODD = 7  # rows, which two processes cannot share evenly


def encoded() -> Encoded:
    return encode_together(make_model("softmax"), DATA.samples[:ODD])


class Doubling(nn.Module):
    rows: ClassVar[int] = 0  # read in this process

    def forward(self, x: Tensor) -> Tensor:
        Doubling.rows += len(x)
        return 2 * x


def features() -> Tensor:
    X, y = load_wine(return_X_y=True)
    settings = Settings(encoder=frozen(Doubling()), verbose=0)
    setup = set_up(settings, X[1:], y[1:], None, torch.Generator().manual_seed(0))
    return setup.prepared.everything.samples


def gathered() -> tuple[Tensor, Tensor]:
    """Gather two rows of each process, of which each wants something else; return them and our gradient."""
    rank = ranks().rank
    x = torch.tensor([[1.0], [2.0]]) + 2 * rank
    everything = gather(x.requires_grad_())
    (everything * torch.tensor([[1.0], [2.0], [3.0], [4.0]]) * 10**rank).sum().backward()
    assert x.grad is not None
    return everything.detach(), x.grad


def fitted(candidates: str, n_processes: int = 1, **places: Path) -> ProtoAttendClassifier:
    clf = ProtoAttendClassifier(candidates=candidates, max_epochs=12, n_processes=n_processes, verbose=0)
    return clf.fit(*load_wine(return_X_y=True), **places)


def everything(folder: Path) -> dict[str, Any]:
    """All that one process is asked for; starting another costs more than any of it."""
    return {
        "ranks": ranks(),
        "trained": {kind: trained(*kind) for kind in KINDS},
        "reencoded": reencoded(),
        "encoded": encoded(),
        "features": features(),
        "rows": Doubling.rows,
        "gathered": gathered(),
        "fitted": {name: fitted(name, checkpoint_to=folder / name).model_.state_dict() for name in OTHERS},
    }


def _tell_everything(folder: Path, file: Path) -> None:
    torch.save(everything(folder), file)


Told = tuple[dict[str, Any], dict[str, Any], Path]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the first and the second of two processes have found, and the folder with their checkpoints."""
    folder = tmp_path_factory.mktemp("two")
    Doubling.rows = 0
    with spawned(2, _tell_everything, (folder, folder / "told")):
        first = everything(folder)
    return first, torch.load(folder / "told", weights_only=False), folder


@pytest.mark.slow
def test_each_knows_its_place(told: Told) -> None:
    first, second, _ = told
    assert (first["ranks"], second["ranks"], ranks()) == (Ranks(0, 2), Ranks(1, 2), Ranks())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_train_as_one(kind: tuple[str, str], told: Told) -> None:
    first, second = (process["trained"][kind] for process in told[:2])
    for name, value in trained(*kind).items():
        torch.testing.assert_close(first[name], value, rtol=1e-6, atol=1e-9)
        assert torch.equal(first[name], second[name]), "both end with the same weights"


@pytest.mark.slow
def test_candidates_are_encoded_anew_in_shares(told: Told) -> None:
    alone, together = reencoded(), told[0]["reencoded"]
    assert alone.keys() == together.keys()
    for name, gradient in alone.items():
        torch.testing.assert_close(together[name], gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_a_database_is_encoded_in_shares(told: Told) -> None:
    alone, together = encoded(), told[0]["encoded"]
    for name in ("queries", "keys", "values"):
        torch.testing.assert_close(getattr(together, name), getattr(alone, name))


@pytest.mark.slow
def test_features_of_a_frozen_encoder_are_computed_in_shares(told: Told) -> None:
    alone = features()
    assert torch.equal(told[0]["features"], alone)
    assert len(alone) / 2 <= told[0]["rows"] < 0.6 * len(alone)


@pytest.mark.slow
def test_gather_carries_the_gradient_of_all(told: Told) -> None:
    for process, gradient in zip(told[:2], ([[11.0], [22.0]], [[33.0], [44.0]]), strict=True):
        all_rows, grad = process["gathered"]
        assert all_rows.tolist() == [[1.0], [2.0], [3.0], [4.0]]
        assert grad.tolist() == gradient, "what both losses ask of this process's part"


@pytest.mark.slow
@pytest.mark.parametrize("candidates", OTHERS)
def test_the_estimator_among_two_processes(candidates: str, told: Told) -> None:
    first, second, folder = told
    again = fitted(candidates, resume_from=folder / candidates)
    assert again.score(*load_wine(return_X_y=True)) > 0.9
    for name, value in again.model_.state_dict().items():
        assert torch.equal(first["fitted"][candidates][name], value), "a checkpoint is as good for one process"
        assert torch.equal(second["fitted"][candidates][name], value), "no seed was given, and yet both train the same"


@pytest.mark.slow
def test_the_estimator_starts_two_processes(tmp_path: Path) -> None:
    clf = fitted(DEFAULT, n_processes=2, checkpoint_to=tmp_path / "run")
    X, y = load_wine(return_X_y=True)
    assert clf.score(X, y) > 0.9
    assert len(clf.database_) == len(y)
    again = fitted(DEFAULT, resume_from=tmp_path / "run")
    for name, value in clf.model_.state_dict().items():
        assert torch.equal(again.model_.state_dict()[name], value)
    assert ranks() == Ranks()


@pytest.mark.slow
@pytest.mark.parametrize(("work", "how"), [(killed, "exit code -9"), (failing, "ZeroDivisionError: of its own")])
def test_a_process_that_dies_is_named(work: Any, how: str) -> None:
    def go_on() -> None:
        with spawned(2, work, ()):
            for _ in range(3):
                gather(torch.zeros(1))

    with pytest.raises(UserError, match=rf"process 1 died \({how}\); go on from the last checkpoint"):
        go_on()
    assert ranks() == Ranks()


SCRIPT = """
import os
from pathlib import Path
from sklearn.datasets import load_wine
from protoattend import ProtoAttendClassifier

clf = ProtoAttendClassifier(max_epochs=2, verbose=0)
said = [clf.fit(*load_wine(return_X_y=True)).database_.fingerprint for _ in range(2)]  # a second fit meets again
Path(os.environ['RANK']).write_text(" ".join(said))
"""


def torchrun(place: Path, *what: str) -> None:
    """Run it in two processes, which must end well."""
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    run = subprocess.run(
        [*start, *what],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
def test_a_script_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    torchrun(tmp_path, "script.py")
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text(), (
        "no seed was given, and yet both train the same model"
    )


@pytest.mark.slow
def test_the_command_line_under_torchrun(tmp_path: Path) -> None:
    load_wine(as_frame=True).frame.to_csv(tmp_path / "wine.csv", index=False)
    torchrun(tmp_path, *["-m", "protoattend", "fit", "wine.csv", "--target", "target", "--epochs", "3", "--to", "wine"])
    assert len(ProtoAttendClassifier.load(tmp_path / "wine").database_) == len(load_wine().target)


def test_shares_of_a_batch() -> None:
    rows = torch.arange(12)
    assert torch.equal(torch.cat([Ranks(rank, 3).share(rows) for rank in range(3)]), rows)
    assert Ranks().share(rows) is rows
    assert Batch(rows, rows, rows).parents.shape == (12, 2)


def test_what_is_divided_among_processes() -> None:
    assert Ranks(0, 3).divisible(256, "batch_size") == 255
    with pytest.raises(UserError, match=r"batch_size=2 is to be divided among 4 processes; pass a larger one"):
        Ranks(1, 4).divisible(2, "batch_size")


def test_going_on_with_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Checkpoint(Path("run"), seed=0, rows_of_a_step=100, identity={}, progress={}, tensors={})
    assert found.batch_size() == 100
    monkeypatch.setattr(checkpoint, "ranks", lambda: Ranks(0, 3))
    with pytest.raises(UserError, match="the 100 rows of one in run cannot be divided among 3 processes"):
        found.batch_size()


@pytest.mark.slow
def test_a_process_that_dies_in_training_leaves_a_checkpoint(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [killable.started(killable.train_until_the_second_dies, rank, port, tmp_path) for rank in range(2)]
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, -signal.SIGKILL]
    told = (tmp_path / "told").read_text()
    assert "one could not be reached" in told
    assert "go on from the last checkpoint with resume_from" in told
    alone = killable.dying_at(None).fit(*killable.some_digits(), resume_from=tmp_path / "run")
    assert len(alone.history_) == 3
