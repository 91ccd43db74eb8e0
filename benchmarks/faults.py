"""Faults: mutated folders, kills, odd calls and threads, for as long as asked; every one must be met by a clear error.

    python benchmarks/faults.py --minutes 60    # what results/faults.json was made with
    python benchmarks/faults.py --quick

The attacks are those of tests/faults, which the suite runs briefly.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from record import write
from sklearn.datasets import load_digits, load_wine

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.faults.calling import Targets, calls, raw
from tests.faults.checkpointing import attack_checkpoint, killed_and_resumed, trained, weights
from tests.faults.killing import hidden, killed_at
from tests.faults.mutating import Verdict, answers, attack
from tests.faults.racing import race
from tests.faults.reading_files import attack_reader, readers

from protoattend import CandidateDatabase, ProtoAttendClassifier

SHARES = {"mutations": 0.4, "kills": 0.35, "api": 0.15, "threads": 0.1}  # of the time
NAMED = 20  # failures of a kind that are kept word for word


@dataclass(frozen=True)
class Sample:
    """A kind of input: a fitted classifier, and what it was fitted on."""

    clf: ProtoAttendClassifier
    X: Any
    y: np.ndarray


def samples() -> dict[str, Sample]:
    """Return a small fitted classifier of each kind of input."""
    rng = np.random.default_rng(0)
    words = {"fruit": ["apple", "cherry", "melon"], "tool": ["hammer", "chisel", "wrench"]}
    texts = [
        (f"this {rng.choice(words[kind])} is {rng.choice(['old', 'new'])}", kind) for kind in words for _ in range(40)
    ]
    digits, labels = load_digits(return_X_y=True)
    data = {
        "table": load_wine(return_X_y=True),
        "text": ([text for text, _ in texts], np.array([kind for _, kind in texts])),
        "images": (digits[:150].reshape(-1, 8, 8), labels[:150]),
    }
    return {
        kind: Sample(ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y), X, y)
        for kind, (X, y) in data.items()
    }


def saved_with_edits(sample: Sample, folder: Path) -> Path:
    copy.deepcopy(sample.clf).calibrate(sample.X, sample.y).save(folder)
    database = ProtoAttendClassifier.load(folder).database_
    database.remove([3])
    database.relabel([5], sample.y[0])
    database.add(sample.X[:2], sample.y[:2])
    database.save_edits()
    return folder


def mutations(known: dict[str, Sample], work: Path, seconds: float) -> Iterator[Verdict]:
    """Mutate folders of all kinds, checkpoints and files of data in turn."""
    stop, seed = time.monotonic() + seconds, 0
    folders = {kind: saved_with_edits(sample, work / kind) for kind, sample in known.items()}
    expected = {kind: answers(folder, known[kind].X[:3]) for kind, folder in folders.items()}
    training = trained(known["table"].X, known["table"].y, work / "training")
    files = readers(work / "files")
    for turn in count():
        if time.monotonic() > stop:
            return
        for kind, folder in folders.items():
            yield attack(folder, work / "mutated", known[kind].X[:3], seed, expected[kind])
            seed += 1
        yield attack_checkpoint(training, work / "mutated-training", seed)
        for reader in files[turn % 2 :: 2]:
            seed += 1
            yield attack_reader(reader, work / "mutated-files", seed)


def kills(sample: Sample, work: Path, seconds: float) -> Iterator[str]:
    """Kill save, save_edits, compact and fit in turn at random moments; yield what was lost, or nothing."""
    stop, rng = time.monotonic() + seconds, np.random.default_rng(0)
    folder = work / "killed"
    sample.clf.database_.save(folder / "database")
    sample.clf.save(folder / "model")
    undisturbed = weights(ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(sample.X, sample.y))
    while time.monotonic() < stop:
        for name in ("compact", "save_edits", "save"):
            lost = killed_writer(sample.clf, folder, name, int(rng.integers(60)))
            if lost is not None:
                yield lost
        run = folder / "training"
        if killed_and_resumed(sample.X, sample.y, run, float(rng.uniform(0.01, 0.4))):
            same = weights(ProtoAttendClassifier.load(run / "model")) == undisturbed
            yield "" if same else "fit: what was resumed ends with other weights"
        shutil.rmtree(run)
    opened(sample.clf, folder).compact()
    sample.clf.save(folder / "model")
    if hidden(folder):
        yield f"left behind: {hidden(folder)[:3]}"


def opened(clf: ProtoAttendClassifier, folder: Path) -> CandidateDatabase:
    return CandidateDatabase.open(folder / "database", clf.model_, inputs=clf.inputs_, classes=clf.database_.classes)


def killed_writer(clf: ProtoAttendClassifier, folder: Path, name: str, operation: int) -> str | None:
    """Kill a writer at one of its file operations; return what was lost, "" if nothing, None if it came to its end."""
    database = opened(clf, folder)
    if len(database) < 20:
        clf.database_.save(folder / "database")
        database = opened(clf, folder)
    before = len(database)
    database.remove([int(database.indices[0])])
    calls = {"compact": database.compact, "save_edits": database.save_edits, "save": lambda: clf.save(folder / "model")}
    if not killed_at(operation, calls[name]):
        return None
    try:
        after = opened(clf, folder)
        after.verify()
        ProtoAttendClassifier.load(folder / "model").database_.verify()
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    return "" if len(after) in (before, before - 1) else f"{name}: {before} rows became {len(after)}"


def odd_calls(known: dict[str, Sample], seconds: float) -> Iterator[str]:
    """Make odd calls, pass after pass; yield what came out that is not an error of ours, or nothing."""
    stop, seed = time.monotonic() + seconds, 0
    fitted = {kind: copy.deepcopy(sample.clf) for kind, sample in known.items()}
    targets = Targets(fitted, known["table"].X[::3], known["table"].y[::3])
    while time.monotonic() < stop:
        for name, call in calls(targets, seed):
            error = raw(call)
            yield "" if error is None else f"{name}: {error}"
            if time.monotonic() > stop:
                return
        seed += 1


def run(minutes: float) -> dict[str, Any]:
    """Run every attack for its share of the time, and count."""
    seconds = {name: 60 * minutes * share for name, share in SHARES.items()}
    known = samples()
    with TemporaryDirectory() as folder, chdir(folder):  # some odd arguments are names to save under
        verdicts = list(mutations(known, Path(folder), seconds["mutations"]))
        lost = list(kills(known["table"], Path(folder), seconds["kills"]))
        made = list(odd_calls(known, seconds["api"]))
    table = known["table"]
    raced = race(copy.deepcopy(table.clf), table.X, table.y, seconds=seconds["threads"])
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    failed = [f"{verdict.outcome} {verdict.mutation}: {verdict.told}" for verdict in verdicts if _bad(verdict)]
    return {
        "mutations": len(verdicts),
        "refused": outcomes["refused"],
        "silent": outcomes["silent"],
        "raw": outcomes["raw"],
        "kills": len(lost),
        "lost": sum(map(bool, lost)),
        "api": len(made),
        "raw_api": sum(map(bool, made)),
        "threads_wrong": raced.wrong + len(raced.failures),
        "race": {"shown": raced.shown, "edits": raced.edits, "seconds": seconds["threads"]},
        "failures": [*failed[:NAMED], *filter(None, [*lost, *made, *raced.failures])][: 4 * NAMED],
    }


def _bad(verdict: Verdict) -> bool:
    return verdict.outcome in ("silent", "raw")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true", help="half a minute, and no file")
    given = parser.parse_args()
    figures = run(0.5 if given.quick else given.minutes)
    for failure in figures["failures"]:
        print(failure)
    if not given.quick:
        write("faults", {"minutes": given.minutes, **figures})
    names = ("mutations", "silent", "raw", "kills", "lost", "api", "raw_api", "threads_wrong")
    print("faults", *(f"{name}={figures[name]}" for name in names))


if __name__ == "__main__":
    main()
