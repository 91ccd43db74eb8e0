"""Checkpoints: one file that is replaced as a whole, from which a training goes on exactly as if it had not stopped.

It holds the weights, the best ones so far, the optimizer, the bank, the number of steps done, and a checksum of all of
it. Random states are not among it: every draw is a function of the seed and the step.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import textwrap
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from protoattend.arguments import check_count, check_path
from protoattend.config import Settings
from protoattend.encoders.pretrained import Pretrained
from protoattend.errors import BadFile, UserError
from protoattend.files.meta import checksum
from protoattend.files.schema import anything, listed, mapping, maybe, number, one_of, record, text, whole
from protoattend.files.writing import write_tensors
from protoattend.folders import try_to_write
from protoattend.parallel import ranks
from protoattend.training.batches import Labelled
from protoattend.training.candidates import Candidates
from protoattend.training.state import TrainingState

FILE = "checkpoint.safetensors"
WHAT, VERSION, OLDEST = "protoattend checkpoint", 3, 2  # version 2 has no checksum
EVERY = 200
_SCHEMA = record(
    {
        "what": one_of(WHAT),
        "version": whole(OLDEST, VERSION),
        "seed": whole(0, 1 << 64),
        "batch_size": whole(1),
        "identity": mapping(text()),
        "progress": record(
            {
                "step": whole(),
                "sums": mapping(number()),
                "records": listed(mapping(anything)),
                "best_accuracy": number(0, 1),
                "best_epoch": maybe(whole()),
                "validations_since_best": whole(),
                "seconds_before": number(0),
            }
        ),
    }
)
CHOSEN = "chosen on held-out rows"  # among what must be the same
# Settings that may be others when training goes on.
IRRELEVANT = ("verbose", "device", "n_processes", "n_threads", "recipe.compile")


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints are written, and after how many steps; they are written at the end of each epoch too.

    Parameters
    ----------
    folder : path
        A folder for `ProtoAttendClassifier.fit(..., checkpoint_to=...)`, in which one file is replaced as a whole.
    every : int, default=200
        Steps between two checkpoints.

    Raises
    ------
    UserError
        If `every` is below 1.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0)
    >>> with TemporaryDirectory() as folder:
    ...     clf = clf.fit(X, y, checkpoint_to=Checkpoints(folder, every=50))
    ...     resumed = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y, resume_from=folder)
    >>> bool((resumed.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """

    folder: str | os.PathLike[str]
    every: int = EVERY

    def __post_init__(self) -> None:
        check_path(self.folder, "folder")
        check_count(self.every, "every")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read: whose it is, and what it holds."""

    path: Path
    seed: int
    rows_of_a_step: int
    identity: Mapping[str, str]
    progress: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def batch_size(self) -> int:
        """Return the batch size to go on with, which must be that of before: steps are counted in it."""
        who = ranks()
        if self.rows_of_a_step % who.size:
            raise UserError(
                f"training must go on with the steps it began with, but the {self.rows_of_a_step} rows of one in "
                f"{self.path} cannot be divided among {who.size} processes; use another number of them."
            )
        return self.rows_of_a_step


class Checkpointer(Protocol):
    """What the loop tells about its progress, and asks where to start."""

    def restore(self, state: TrainingState) -> None: ...
    def after_step(self, state: TrainingState) -> None: ...
    def after_epoch(self, state: TrainingState) -> None: ...
    def before_giving_up(self) -> str:
        """Return where the last good state is, as the end of a message."""


class NoCheckpointer:
    """Keeps nothing."""

    def restore(self, state: TrainingState) -> None:
        pass

    def after_step(self, state: TrainingState) -> None:
        pass

    def after_epoch(self, state: TrainingState) -> None:
        pass

    def before_giving_up(self) -> str:
        return ""


def require_usable(folder: Path, identity: Mapping[str, str], found: Checkpoint | None) -> None:
    """Raise where the checkpoint found is of another training, or the folder cannot be written or holds another one.

    What held-out rows choose need not be known yet.
    """
    if found is not None:
        chosen = {CHOSEN: found.identity[CHOSEN]} if CHOSEN in found.identity else {}
        _require_same(found, chosen | dict(identity))
    own = found is not None and found.path.resolve() == (folder / FILE).resolve()
    if not own and (folder / FILE).exists():
        raise UserError(
            f"{folder} holds a checkpoint already, which this training would replace; go on from it with "
            f"resume_from={str(folder)!r}, or choose another folder."
        )
    if ranks().rank == 0:  # of several processes, the one that writes
        try_to_write(folder, Path(os.path.realpath(folder)))


class FileCheckpointer:
    """Writes checkpoints while training goes on; as a context, it also makes Ctrl-C wait for the end of a step.

    Of several processes only the first one writes.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        *,
        seed: int,
        batch_size: int,
        identity: Mapping[str, str],
        candidates: Candidates | None = None,
        found: Checkpoint | None = None,
    ) -> None:
        self.folder = Path(checkpoints.folder)
        self.every = checkpoints.every
        self.seed = seed
        self.batch_size = batch_size
        self.identity = identity
        self.candidates = candidates
        self.found = found
        self.interrupted = False
        self.written: int | None = None  # the step of the last checkpoint
        require_usable(self.folder, identity, found)

    def restore(self, state: TrainingState) -> None:
        if self.found is None:
            return
        try:
            state.from_file(self.found.tensors, self.found.progress)
        except (KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
            raise BadFile(
                f"{self.found.path} must hold a state of this training, but does not fit it ({error}); start afresh."
            ) from None
        self.written = state.step
        if self.candidates is not None:
            bank = {name.removeprefix("bank."): t for name, t in self.found.tensors.items() if name.startswith("bank.")}
            self.candidates.restore(bank)

    def after_step(self, state: TrainingState) -> None:
        if self.interrupted:
            self._stop(state)
        if state.step % self.every == 0:
            self._write(state)

    def after_epoch(self, state: TrainingState) -> None:
        if self.interrupted:
            self._stop(state)
        self._write(state)

    def before_giving_up(self) -> str:
        # Nothing is written now: batch norm and bank have seen what broke the step.
        return "" if self.written is None else f" The state after step {self.written} is kept in {self.folder}."

    def __enter__(self) -> FileCheckpointer:
        # Python delivers signals to the main thread only; elsewhere Ctrl-C is somebody else's.
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C reaches all processes of a group: the first one decides, and the others end with it.
            first = ranks().rank == 0
            self._handler = signal.signal(signal.SIGINT, self._interrupt if first else signal.SIG_IGN)
        return self

    def __exit__(self, *raised: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:  # the second time, at once
            raise KeyboardInterrupt
        self.interrupted = True

    def _stop(self, state: TrainingState) -> None:
        self._write(state)
        raise KeyboardInterrupt(f"stopped after step {state.step}; go on with resume_from={str(self.folder)!r}")

    def _write(self, state: TrainingState) -> None:
        if ranks().rank != 0:
            return
        tensors, progress = state.to_file()
        if self.candidates is not None:
            tensors |= {f"bank.{name}": value for name, value in self.candidates.state().items()}
        try:
            about = {
                "seed": self.seed,
                "batch_size": self.batch_size,
                "identity": dict(self.identity),
                "progress": progress,
            }
            write(self.folder, tensors, about)
            self.written = state.step
        except OSError as error:
            warnings.warn(
                f"the checkpoint of step {state.step} could not be written to {self.folder} ({error}); training goes "
                "on, and what was written before stays; make room.",
                stacklevel=2,
            )


def write(folder: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write the checkpoint file, wholly or not at all: an earlier one stays until the new one is on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    about = {"what": WHAT, "version": VERSION, **meta}
    content = json.dumps(about | {"checksum": _checksum(own, about)})
    fresh = folder / f".{FILE}.part"  # of one name, so that what kill -9 leaves behind is replaced
    try:
        write_tensors(fresh, lambda path: save_file(own, path, metadata={"protoattend": content}))
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, folder / FILE)
    finally:
        fresh.unlink(missing_ok=True)


def read(folder: str | os.PathLike[str]) -> Checkpoint:
    """Return the checkpoint in a folder, checked to be one."""
    path = Path(check_path(folder, "resume_from")) / FILE
    if not path.is_file():
        raise BadFile(f"resume_from must be a folder with a checkpoint, but {folder} has no {FILE}; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {})["protoattend"])
            noted = meta.pop("checksum", None)
            _SCHEMA(meta, "")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(
            f"{path} must be a checkpoint of this protoattend, but it cannot be read ({error}); it is truncated, or of "
            "another program or version: start afresh."
        ) from None
    if (noted is not None or meta["version"] > OLDEST) and noted != _checksum(tensors, meta):
        raise BadFile(f"{path} does not match its checksum: it was changed or the disk is failing; start afresh.")
    return Checkpoint(path, meta["seed"], meta["batch_size"], meta["identity"], meta["progress"], tensors)


def _checksum(tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(checksum(meta).encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def identity(settings: Settings, data: Labelled) -> dict[str, str]:
    """Return what must be the same for a training to go on: its settings, and a hash of its data."""
    recipe = settings.training_recipe
    named = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name != "recipe"}
    named |= {f"recipe.{each.name}": getattr(recipe, each.name) for each in fields(recipe)}
    described = {name: _described(value) for name, value in named.items() if name not in IRRELEVANT}
    return described | {"X and y": _digest(data)}


def _described(value: Any) -> str:
    """Return what tells a value from others, in this process and the next: without addresses in memory."""
    told = f"{value!r} of {value.module!r}" if isinstance(value, Pretrained) else repr(value)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", told)


def _digest(data: Labelled) -> str:
    digest = hashlib.sha256()
    for part in (data.samples, data.labels, data.sample_weight, data.shares):
        if isinstance(part, Tensor):
            digest.update(repr(part.dtype).encode())
            digest.update(np.ascontiguousarray(part.cpu().numpy()).data)
        else:
            digest.update(repr(part if part is None else part.identity()).encode())
    return digest.hexdigest()


def _short(description: str | None) -> str:
    return textwrap.shorten(str(description), 200)


def _require_same(found: Checkpoint, identity: Mapping[str, str]) -> None:
    for name in identity.keys() | found.identity.keys():
        before, now = found.identity.get(name), identity.get(name)
        if before == now:
            continue
        if name == "X and y":
            raise UserError(
                f"training must go on with the data it began with, but {found.path} was made of other X or y."
            )
        if name == CHOSEN:
            raise UserError(
                f"training must go on with what held-out rows chose, but {found.path} was made with {before} and now "
                f"it is {now}; go on with as many processes and on the device it began with, or start afresh."
            )
        raise UserError(
            f"training must go on with the parameters it began with, but {found.path} was made with {name}="
            f"{_short(before)} and now it is {_short(now)}; pass the same, or start afresh without resume_from."
        )
