"""Checkpoints: a flipped bit, a missing tensor or a step out of range is told; nothing resumes to other weights."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.faults.checkpointing import killed_and_resumed, weights

from protoattend import ProtoAttendClassifier
from protoattend.errors import BadFile
from protoattend.training import checkpoint


def resume(wine: Any, folder: Path) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(*wine, resume_from=folder)


@pytest.fixture(scope="module")
def content(wine: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("training")
    ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(*wine, checkpoint_to=folder)
    return (folder / checkpoint.FILE).read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_is_told(content: bytes, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    damaged = bytearray(content)
    place = int(rng.integers(len(damaged)))
    damaged[place] ^= 1 << int(rng.integers(8))
    (tmp_path / checkpoint.FILE).write_bytes(damaged)
    with pytest.raises(BadFile):
        checkpoint.read(tmp_path)


def meta_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["protoattend"])


@pytest.mark.parametrize("prefix", ["optimizer.", "best."])
def test_a_missing_tensor_is_told(content: bytes, tmp_path: Path, prefix: str) -> None:
    path = tmp_path / checkpoint.FILE
    path.write_bytes(content)
    tensors, meta = load_file(path), meta_of(path)
    fewer = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    assert len(fewer) < len(tensors)
    save_file(fewer, path, metadata={"protoattend": json.dumps(meta)})
    with pytest.raises(BadFile, match="does not match its checksum"):
        checkpoint.read(tmp_path)


def write_again(path: Path, change: Any) -> None:
    tensors, meta = load_file(path), meta_of(path)
    meta.pop("checksum")
    change(meta, tensors)
    about = {name: value for name, value in meta.items() if name not in ("what", "version")}
    checkpoint.write(path.parent, tensors, about)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta, tensors: meta["progress"].update(step=10**9), "is of step 1000000000"),
        (lambda meta, tensors: meta["progress"].update(step=-1), "step must be an integer"),
        (lambda meta, tensors: meta["progress"].update(records=[{}]), "does not fit it"),
        (lambda meta, tensors: meta.update(identity=[]), "identity must be an object"),
        (lambda meta, tensors: tensors.pop("model.decision.weight"), "does not fit it"),
        (lambda meta, tensors: tensors.update({"optimizer.0.999.exp_avg": torch.ones(1)}), "does not fit it"),
    ],
)
def test_what_does_not_fit_is_told(content: bytes, wine: Any, tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / checkpoint.FILE
    path.write_bytes(content)
    write_again(path, change)
    with pytest.raises(BadFile, match=message):
        resume(wine, tmp_path)


def test_a_checkpoint_without_a_checksum_is_still_read(content: bytes, wine: Any, tmp_path: Path) -> None:
    path = tmp_path / checkpoint.FILE
    path.write_bytes(content)
    tensors, meta = load_file(path), meta_of(path)
    del meta["checksum"]
    save_file(tensors, path, metadata={"protoattend": json.dumps(meta | {"version": 2})})
    assert len(resume(wine, tmp_path).history_) == 2
    save_file(tensors, path, metadata={"protoattend": json.dumps(meta)})
    with pytest.raises(BadFile, match="does not match its checksum"):
        checkpoint.read(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="forks a process")
def test_a_training_that_is_killed_goes_on_to_the_same_end(wine: Any, tmp_path: Path) -> None:
    X, y = wine[0][::2], wine[1][::2]
    whole = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    rng, killed = np.random.default_rng(0), 0
    for run in range(3):
        killed += killed_and_resumed(X, y, tmp_path / str(run), float(rng.uniform(0.02, 0.3)))
        assert weights(ProtoAttendClassifier.load(tmp_path / str(run) / "model")) == weights(whole)
    assert killed > 0
