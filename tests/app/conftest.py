"""A folder with a table, texts and images, and a classifier for each; tests must not change what is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from .running import succeeded


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("command line")
    wine = load_wine(as_frame=True)
    table = wine.data.assign(kind=wine.target_names[wine.target]).sample(frac=1, random_state=0)
    table.iloc[:140].to_csv(root / "wine.csv", index=False)
    table.iloc[140:].to_csv(root / "wine-test.csv", index=False, sep=";")
    table.iloc[140:].drop(columns="kind").to_csv(root / "wine-new.csv", index=False)
    words = {"fruit": ["apple", "melon"], "tool": ["hammer", "wrench"]}
    texts = [(f"this {word} is {size}", kind) for kind, some in words.items() for word in some for size in "abcdefghij"]
    pd.DataFrame(texts, columns=["said", "what"]).to_csv(root / "texts.csv", index=False)
    digits = load_digits()
    for i in range(120):
        folder = root / "digits" / f"digit {digits.target[i]}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[i] * 15).astype(np.uint8)).save(folder / f"{i}.png")
    for name, more in (
        ("wine.csv", ("--target", "kind", "--epochs", 8)),
        ("texts.csv", ("--target", "what", "--epochs", 2)),
        ("digits", ("--epochs", 2)),
    ):
        succeeded("fit", root / name, "--to", root / f"{Path(name).stem}-model", *more)
    return root
