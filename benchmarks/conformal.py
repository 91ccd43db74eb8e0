"""Do prediction sets hold the true label as often as asked, and as exactly as chance has it?

    PROTOATTEND_DATA=../shared/data python benchmarks/conformal.py [--sets adult,phoneme,digits]

One model of each set by the defaults. Its test rows are divided seven times at random: half of them calibrate, the
other half are covered or not. The share covered varies by chance, as calibration rows and others do: its standard
deviation is known (a beta-binomial distribution), and printed beside the one that was found. Writes
benchmarks/results/conformal.json; prints last `conformal worst=…`, by how many standard deviations the mean of seven
coverages lies furthest from what was asked.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import record
from one_story import load

from protoattend import ProtoAttendClassifier
from protoattend.uncertainty.conformal import Conformal, class_support

SETS = ("adult", "phoneme", "digits")
SPLITS = 7
COVERAGES = (0.8, 0.9, 0.95)


def coverages(support: np.ndarray, labels: np.ndarray, coverage: float) -> list[float]:
    """Return how often the true class is in its set, in each of seven divisions of the rows."""
    found = []
    for seed in range(SPLITS):
        rows = np.random.default_rng(seed).permutation(len(labels))
        held, rest = np.array_split(rows, 2)
        sets = Conformal.fit(support[held], labels[held]).sets(support[rest], coverage)
        found.append(float(sets[np.arange(len(rest)), labels[rest]].mean()))
    return found


def expected(n_rows: int, coverage: float) -> tuple[float, float]:
    """Return mean and standard deviation of the share covered, by theory, for continuous scores."""
    held, rest = (len(part) for part in np.array_split(np.arange(n_rows), 2))
    a = np.ceil((held + 1) * coverage)
    b = held + 1 - a
    mean = a / (a + b)
    return float(mean), float(np.sqrt(mean * (1 - mean) * (a + b + rest) / (rest * (a + b + 1))))


def run(name: str) -> dict[str, Any]:
    """Train one model and measure its sets."""
    split = load(name, 0)
    clf = ProtoAttendClassifier(random_state=0, verbose=0).fit(split.X, split.y)
    support = class_support(clf.class_mass(split.X_test), clf.predict_proba(split.X_test))
    labels = np.searchsorted(clf.classes_, split.y_test)
    figures: dict[str, Any] = {"rows": len(labels)}
    for coverage in COVERAGES:
        found, (mean, deviation) = coverages(support, labels, coverage), expected(len(labels), coverage)
        figures[str(coverage)] = {
            "coverages": found,
            "expected": mean,
            "expected_deviation": deviation,
            "deviation": float(np.std(found, ddof=1)),
            # Divisions of the same rows are not independent, so that the mean of seven says no more than one.
            "away": abs(float(np.mean(found)) - mean) / deviation,
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    found = {}
    for name in parser.parse_args().sets.split(","):
        found[name] = run(name)
        for coverage in map(str, COVERAGES):
            own = found[name][coverage]
            print(name, coverage, *(f"{share:.4f}" for share in own["coverages"]), flush=True)
            print(f"  deviation {own['deviation']:.4f}, by theory {own['expected_deviation']:.4f}", flush=True)
    record.write("conformal", {"seed": 0, "splits": SPLITS, "sets": found})
    print(f"conformal worst={max(own[str(c)]['away'] for own in found.values() for c in COVERAGES):.2f}")


if __name__ == "__main__":
    main()
