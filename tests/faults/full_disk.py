"""Save onto a tmpfs of a few hundred kilobytes until it is full, and say what became of what was there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sklearn.datasets import load_wine

from protoattend import ProtoAttendClassifier


def main(place: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1100k", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        sys.exit("cannot mount")
    clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(*load_wine(return_X_y=True))
    clf.save(place / "model")
    raised = ""
    try:
        clf.save(place / "model")  # there is no room for two
    except OSError as error:
        raised = type(error).__name__
    loads = len(ProtoAttendClassifier.load(place / "model").database_) == len(clf.database_)
    print(json.dumps({"raised": raised, "loads": loads, "hidden": [path.name for path in place.rglob(".*")]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
