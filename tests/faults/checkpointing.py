"""Mutations of checkpoints: a byte, or the end of the file; each must be refused, or read as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.killing import killed_after
from tests.faults.mutating import Verdict, judge

from protoattend import ProtoAttendClassifier
from protoattend.training import checkpoint


def trained(X: Any, y: Any, folder: Path) -> Path:
    """Train for a moment with checkpoints, and return their folder."""
    ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y, checkpoint_to=folder)
    return folder


def killed_and_resumed(X: Any, y: Any, folder: Path, seconds: float) -> bool:
    """Train in a child that is killed after so many seconds, and again until it ends; return whether it was killed.

    What comes of it is saved as `folder / "model"`.
    """

    def fit() -> None:
        where = {"resume_from": folder} if (folder / checkpoint.FILE).exists() else {"checkpoint_to": folder}
        small = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0)
        small.fit(X, y, **where).save(folder / "model")

    killed = killed_after(seconds, fit)
    if killed:
        fit()
    return killed


def weights(clf: ProtoAttendClassifier) -> dict[str, bytes]:
    """Return all numbers of a classifier, bit by bit: its model's, and its database's keys."""
    state = {name: value.numpy().tobytes() for name, value in clf.model_.state_dict().items()}
    return state | {"keys": clf.database_.keys.contiguous().numpy().tobytes()}


def held(folder: Path) -> tuple[Any, ...]:
    """Return all that a checkpoint says, as plain values."""
    found = checkpoint.read(folder)
    tensors = {name: value.numpy().tobytes() for name, value in found.tensors.items()}
    return found.seed, found.rows_of_a_step, dict(found.identity), dict(found.progress), tensors


def attack_checkpoint(original: Path, work: Path, seed: int) -> Verdict:
    """Mutate a copy of a checkpoint once, read it, and judge."""
    rng = np.random.default_rng(seed)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(original, work)
    path = work / checkpoint.FILE
    content = bytearray(path.read_bytes())
    # Half of the flips are in the header, which is small beside the tensors.
    place = int(rng.integers(len(content) if rng.random() < 0.5 else 5000))
    if rng.random() < 0.8:
        content[place] ^= 1 << int(rng.integers(8))
    else:
        del content[place:]
    path.write_bytes(content)
    return judge(lambda: held(work), held(original), f"seed {seed}: checkpoint at {place}", judged=True)
