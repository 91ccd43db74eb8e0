"""Out-of-distribution scores: how far an input is from everything the decisions are made of."""

from __future__ import annotations

import numpy as np


def disagreement(confidence: np.ndarray) -> np.ndarray:
    """Return the paper's score 1 - C_i: prototypes of strange inputs disagree about the label."""
    return 1 - confidence
