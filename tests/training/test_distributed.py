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
import torch.multiprocessing as mp
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
from .strategies import strategy_over

N, B, WIDTH = 48, 12, 5
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


def _train_and_tell(candidates: str, normalize: str, answers: Any) -> None:
    answers.put({name: value.numpy() for name, value in trained(candidates, normalize).items()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidates", "normalize"), [("in-batch", "sparsemax"), ("sampled", "softmax"), ("bank", "sparsemax")]
)
def test_two_processes_train_as_one(candidates: str, normalize: str) -> None:
    alone = trained(candidates, normalize)
    answers = mp.get_context("spawn").Queue()
    with spawned(2, _train_and_tell, (candidates, normalize, answers)):
        assert ranks() == Ranks(0, 2)
        first = trained(candidates, normalize)
        second = {name: torch.from_numpy(value) for name, value in answers.get(timeout=60).items()}
    assert ranks() == Ranks(0, 1)
    for name, value in alone.items():
        torch.testing.assert_close(first[name], value, rtol=1e-6, atol=1e-9)
        assert torch.equal(first[name], second[name]), "both end with the same weights"


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


@pytest.mark.slow
def test_candidates_are_encoded_anew_in_shares() -> None:
    alone = reencoded()
    with spawned(2, reencoded, ()):
        together = reencoded()
    assert alone.keys() == together.keys()
    for name, gradient in alone.items():
        torch.testing.assert_close(together[name], gradient, rtol=1e-6, atol=1e-9)


ODD = 7  # rows, which two processes cannot share evenly


def encoded() -> Encoded:
    return encode_together(make_model("softmax"), DATA.samples[:ODD])


@pytest.mark.slow
def test_a_database_is_encoded_in_shares() -> None:
    alone = encoded()
    with spawned(2, encoded, ()):
        together = encoded()
    for name in ("queries", "keys", "values"):
        torch.testing.assert_close(getattr(together, name), getattr(alone, name))


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


@pytest.mark.slow
def test_features_of_a_frozen_encoder_are_computed_in_shares() -> None:
    alone = features()
    Doubling.rows = 0
    with spawned(2, features, ()):
        together = features()
    assert torch.equal(together, alone)
    assert len(alone) / 2 <= Doubling.rows < 0.6 * len(alone)


def _gather_and_tell(answers: Any) -> None:
    x = torch.tensor([[3.0], [4.0]], requires_grad=True)
    everything = gather(x)
    (everything * torch.tensor([[10.0], [20.0], [30.0], [40.0]])).sum().backward()
    assert x.grad is not None
    answers.put((everything.tolist(), x.grad.tolist()))


@pytest.mark.slow
def test_gather_carries_the_gradient_of_all() -> None:
    answers = mp.get_context("spawn").Queue()
    with spawned(2, _gather_and_tell, (answers,)):
        x = torch.tensor([[1.0], [2.0]], requires_grad=True)
        everything = gather(x)
        (everything * torch.tensor([[1.0], [2.0], [3.0], [4.0]])).sum().backward()
        theirs = answers.get(timeout=60)
    assert everything.tolist() == [[1.0], [2.0], [3.0], [4.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [[11.0], [22.0]], "what both losses ask of this process's part"
    assert theirs == (everything.tolist(), [[33.0], [44.0]])


@pytest.mark.slow
@pytest.mark.parametrize("candidates", CANDIDATES)
def test_the_estimator_on_two_processes(candidates: str, tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    params: dict[str, Any] = {"candidates": candidates, "max_epochs": 40, "verbose": 0, "n_processes": 2}
    clf = ProtoAttendClassifier(**params).fit(X, y, checkpoint_to=tmp_path / "run")
    assert clf.score(X, y) > 0.9
    assert len(clf.database_) == len(y)
    again = ProtoAttendClassifier(**params | {"n_processes": 1}).fit(X, y, resume_from=tmp_path / "run")
    for name, value in clf.model_.state_dict().items():
        assert torch.equal(again.model_.state_dict()[name], value)
    assert ranks() == Ranks()


def _die() -> None:
    gather(torch.zeros(1))
    os.kill(os.getpid(), signal.SIGKILL)


def _fail() -> None:
    raise ZeroDivisionError("of its own")


@pytest.mark.slow
@pytest.mark.parametrize(("work", "how"), [(_die, "exit code -9"), (_fail, "ZeroDivisionError: of its own")])
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
from protoattend import ProtoAttendClassifier, frozen

X, y = load_wine(return_X_y=True)
clf = ProtoAttendClassifier(max_epochs=3, verbose=0).fit(X, y)
Path(os.environ['RANK']).write_text(clf.database_.fingerprint)
"""


@pytest.mark.slow
def test_a_script_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "script.py"]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text(), (
        "no seed was given, and yet both train the same model"
    )


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


DYING = """
import os, signal
from sklearn.datasets import load_digits
from protoattend import ProtoAttendClassifier, frozen
from protoattend.database.encode import encode_together
from protoattend.errors import UserError
from protoattend.training.setup import set_up

X, y = load_digits(return_X_y=True)
calls = []

def augment(images, generator):
    calls.append(1)
    if os.environ.get('RANK') == '1' and len(calls) == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return images

clf = ProtoAttendClassifier(max_epochs=3, augment=augment, random_state=0, verbose=0)
try:
    clf.fit(X.reshape(-1, 8, 8), y, **{'resume_from' if os.path.exists('run') else 'checkpoint_to': 'run'})
    print('epochs', len(clf.history_))
except UserError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_process_that_dies_in_training_leaves_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(DYING)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | together | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    first, _ = (process.communicate(timeout=300)[0] for process in processes)
    assert processes[1].returncode == -signal.SIGKILL
    assert "one could not be reached" in first
    assert "go on from the last checkpoint with resume_from" in first
    alone = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    assert alone.stdout.strip() == "epochs 3"


@pytest.mark.slow
def test_the_command_line_under_torchrun(tmp_path: Path) -> None:
    load_wine(as_frame=True).frame.to_csv(tmp_path / "wine.csv", index=False)
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    fit = ["-m", "protoattend", "fit", "wine.csv", "--target", "target", "--epochs", "12", "--to", "wine"]
    run = subprocess.run(
        start + fit,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    clf = ProtoAttendClassifier.load(tmp_path / "wine")
    assert len(clf.database_) == len(load_wine().target)
