"""How likely each label is the right one, given what judges say of the row and how many labels are wrong at all.

Judges that have learned from wrong labels too say how likely a row is to *carry* a label, q(g). If a share e of the
labels is wrong, each any other of C classes with the same chance b = e / (C - 1), then q(g) = b + (1 - e - b) p(g),
where p(g) is how likely g is right; and with the label that the row carries,

    P(t | x, g) ~ p(t) (1 - e if t = g else b).

So where few labels are wrong it takes much to speak against one. Judges who are confident of no row cannot tell what
they do not know from labels that are wrong, and correct more than they should.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from protoattend.database.judges import Judges
from protoattend.database.readings import probability_temperature

TOP, NEAR, ENOUGH = 0.99, 0.95, 50  # anchors are nearly as certain as the hundredth row of a hundred; at least so many
SHARE = 0.25  # of the rows, where these are few: not all of them are anchors
LEAST = 1e-4  # that any class is likely: what is left of a support below b says nothing of how much less
FEWEST_WRONG = 1e-3  # of the labels, for each other class: so that one who is certain can be right against a label


def calibrated(support: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return shares `(n, C)` raised to the power that makes them the likeliest for the labels that rows carry."""
    logs = torch.from_numpy(np.log(np.maximum(support.astype(float), 1e-9)))
    judges = Judges(torch.from_numpy(labels), torch.ones(len(labels)))
    shares: np.ndarray = (logs / probability_temperature(logs, judges)).softmax(1).numpy()
    return shares


def noise_rate(shares: np.ndarray, labels: np.ndarray) -> float:
    """Return about which share of the labels `(n,)` is wrong, from how likely rows are to carry each one `(n, C)`.

    Rows whose class is the most certain carry another label as often as labels are wrong: they are the anchors
    (Patrini et al., 2017).

    >>> noise_rate(np.tile([0.9, 0.1], (100, 1)), np.tile([0, 0, 0, 0, 1], 20))
    0.2
    """
    certainty = shares.max(1)
    at_least = min(ENOUGH, math.ceil(SHARE * len(certainty)))
    n_anchors = max(at_least, int((certainty >= NEAR * np.quantile(certainty, TOP)).sum()))
    anchors = np.argsort(-certainty, kind="stable")[:n_anchors]
    wrong = float((shares[anchors].argmax(1) != labels[anchors]).mean())
    return min(wrong, 1 - 1 / shares.shape[1] - LEAST)  # with more, a label would speak for the others


def likelihoods(support: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how likely each class is to be the right one `(n, C)`, given `support` `(n, C)` and the labels `(n,)`.

    >>> support = np.array([[0.9, 0.1]] * 9 + [[0.1, 0.9]] * 9 + [[0.45, 0.55]])
    >>> likelihoods(support, np.repeat([0, 1, 0], [9, 9, 1]))[-1].argmax() == 0  # no reason to think it wrong
    np.True_
    """
    shares = calibrated(support, labels)
    wrong = noise_rate(shares, labels)
    right, other = 1 - wrong, wrong / (shares.shape[1] - 1)
    found = np.maximum((shares - other) / (right - other), LEAST)
    found[np.arange(len(labels)), labels] *= right / max(other, FEWEST_WRONG * right)
    likely: np.ndarray = found / found.sum(1, keepdims=True)
    return likely
