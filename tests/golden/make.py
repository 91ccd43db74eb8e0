"""Write what default trainings predict, on one thread, for sums depend on how they are divided among several.

    python tests/golden/make.py

Only when a change is meant to change predictions; the commit then says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine

from protoattend import ProtoAttendClassifier

PATH = Path(__file__).parent / "predictions.json"
KINDS = ("digits", "wine", "texts")


def data(kind: str) -> tuple[Any, np.ndarray]:
    """Return rows and labels: images, a table or texts."""
    if kind == "digits":
        digits = load_digits()
        return digits.images[:600], digits.target[:600]
    if kind == "wine":
        return load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    words = {"fruit": ("apple", "cherry", "melon", "quince"), "tool": ("hammer", "chisel", "wrench", "pliers")}
    labels = rng.choice(list(words), 200)
    texts = [f"the {rng.choice(words[label])} is {rng.choice(['old', 'new', 'large'])} and good" for label in labels]
    return texts, labels


def predictions(kind: str) -> dict[str, Any]:
    """Train on two rows in three by default, and predict the others."""
    X, y = data(kind)
    held_out = np.arange(len(y)) % 3 == 0
    rows, others = np.flatnonzero(held_out), np.flatnonzero(~held_out)
    X_train, X_test = ([X[i] for i in part] for part in (others, rows))
    if kind != "texts":
        X_train, X_test = np.array(X_train), np.array(X_test)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        clf = ProtoAttendClassifier(random_state=0, verbose=0, max_epochs=8).fit(X_train, y[others])
        return {
            "labels": clf.predict(X_test).tolist(),
            "probabilities": clf.predict_proba(X_test).round(6).tolist(),
            "heaviest prototypes": [e.prototypes[0].index for e in clf.explain(X_test, top=1)],
        }
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    PATH.write_text(json.dumps({kind: predictions(kind) for kind in KINDS}) + "\n")
