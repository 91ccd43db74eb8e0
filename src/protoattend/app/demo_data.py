"""Real data that lies inside installed packages: digits, tumours, and the docstrings of four libraries."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from protoattend.errors import MissingExtra

LIBRARIES = {
    "numpy": (
        "numpy",
        "numpy.linalg",
        "numpy.fft",
        "numpy.random",
        "numpy.ma",
        "numpy.polynomial.polynomial",
    ),
    "scipy": (
        "scipy.stats",
        "scipy.signal",
        "scipy.optimize",
        "scipy.linalg",
        "scipy.ndimage",
        "scipy.interpolate",
    ),
    "scikit-learn": (
        "sklearn.metrics",
        "sklearn.ensemble",
        "sklearn.linear_model",
        "sklearn.preprocessing",
        "sklearn.datasets",
        "sklearn.cluster",
        "sklearn.model_selection",
        "sklearn.utils",
        "sklearn.neighbors",
        "sklearn.decomposition",
    ),
    "torch": (
        "torch",
        "torch.nn",
        "torch.nn.functional",
        "torch.linalg",
        "torch.optim",
        "torch.distributions",
    ),
}
NAMES = re.compile(r"\b(numpy|np|scipy|scikit-learn|sklearn|torch|pytorch)\b", re.IGNORECASE)
EACH = 280  # docstrings of a library at the most


@dataclass(frozen=True)
class DemoSet:
    """A data set of the demo, split into training and test rows."""

    name: str
    question: str
    X_train: Any
    X_test: Any
    y_train: np.ndarray
    y_test: np.ndarray


def demo_sets() -> list[DemoSet]:
    """Return the three data sets: images, a table and texts."""
    digits = load_digits()
    try:
        tumours = load_breast_cancer(as_frame=True)
    except ImportError:
        raise MissingExtra("pandas", "table", "the demo's table") from None
    texts, libraries = docstrings()
    return [
        _split("digits", "Which digit is this?", digits.images, digits.target),
        _split(
            "tumours",
            "Is this tumour benign or malignant?",
            tumours.data,
            tumours.target_names[tumours.target.to_numpy()],
        ),
        _split("docstrings", "Which library is this from?", texts, libraries),
    ]


def docstrings() -> tuple[list[str], np.ndarray]:
    """Return the beginnings of docstrings, library names blotted out, and the library of each."""
    texts: list[str] = []
    labels: list[str] = []
    seen: set[str] = set()
    for library, modules in LIBRARIES.items():
        found = []
        for module in map(importlib.import_module, modules):
            for name in sorted(vars(module)):
                text = "" if name.startswith("_") else _beginning(getattr(module, name))
                if len(text) >= 40 and text not in seen:
                    seen.add(text)
                    found.append(text)
        for text in found[:: max(1, -(-len(found) // EACH))]:
            texts.append(text)
            labels.append(library)
    return texts, np.array(labels)


def _beginning(thing: Any, length: int = 160) -> str:
    if not (callable(thing) or inspect.isclass(thing)):
        return ""
    text = re.sub(r"\s+", " ", inspect.getdoc(thing) or "")
    return NAMES.sub("_", text)[:length].strip()


def _split(name: str, question: str, X: Any, y: np.ndarray) -> DemoSet:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    return DemoSet(name, question, X_train, X_test, np.asarray(y_train), np.asarray(y_test))
