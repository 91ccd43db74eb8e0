"""How much slower a training becomes beside other busy processes.

    python benchmarks/threads.py

Fits a table of 500 rows and 5,000 images of the size of digits, by the defaults, alone and beside as many busy loops as
there are cores. Prints last `threads slowdown_small=… slowdown_images=…`: seconds beside them over seconds alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import record

TABLE = """
from sklearn.datasets import make_classification
X, y = make_classification(500, 10, n_informative=5, random_state=0)
"""
IMAGES = """
import numpy as np
from sklearn.datasets import load_digits
digits = load_digits()
X, y = np.resize(digits.images.astype(np.uint8), (5000, 8, 8)), np.resize(digits.target, 5000)
"""
FIT = """
import time
from protoattend import ProtoAttendClassifier
clf = ProtoAttendClassifier(max_epochs=6, random_state=0, verbose=0)
clf.fit(X[:64], y[:64])  # what is imported and compiled at the first fit is not counted
started = time.perf_counter()
clf.fit(X, y)
print(time.perf_counter() - started)
"""
BUSY = "while True: pass"


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds(data: str) -> float:
    """Fit in a process of its own, as threads are set up when torch is loaded."""
    answer = subprocess.run([sys.executable, "-c", data + FIT], capture_output=True, text=True, check=True)
    return float(answer.stdout)


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    figures = {}
    for name, data in (("small", TABLE), ("images", IMAGES)):
        alone = seconds(data)
        with busy_loops(cores):
            beside = seconds(data)
        figures[name] = {"alone": alone, "beside": beside, "slowdown": beside / alone}
        print(f"{name}: {alone:.1f} s alone, {beside:.1f} s beside {cores} busy loops", flush=True)
    record.write("threads", figures)
    print("threads " + " ".join(f"slowdown_{name}={found['slowdown']:.2f}" for name, found in figures.items()))


if __name__ == "__main__":
    main()
