"""Less trust in labels: what alike samples say takes the place of a wrong label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError
from protoattend.training.losses import _outvoted
from protoattend.trust.labels import inject_label_noise

SAID = torch.tensor([[0.0, 0.75, 0.25], [1.0, 0.0, 0.0]])


def test_a_share_of_each_target_is_what_prototypes_say() -> None:
    found = _outvoted(torch.tensor([0, 2]), SAID, trust=0.5)
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.375, 0.125], [0.5, 0.0, 0.5]]))


def test_a_row_counts_as_much_as_before() -> None:
    weighted = torch.tensor([[0.0, 3.0, 0.0], [0.25, 0.0, 0.25]])
    found = _outvoted(weighted, SAID, trust=0.2)
    torch.testing.assert_close(found.sum(1), weighted.sum(1))
    torch.testing.assert_close(_outvoted(weighted, SAID, trust=1.0), weighted)


def agreement(label_trust: float) -> tuple[float, float]:
    """Return how often the encoder's own decision is a row's wrong label, and how often new rows are right."""
    X, y = load_digits(return_X_y=True)
    images = X.reshape(-1, 8, 8)
    noisy = inject_label_noise(y[:600], 0.4, random_state=0)
    clf = ProtoAttendClassifier(
        label_trust=label_trust, mixup=0.0, max_epochs=25, random_state=0, augment=None, verbose=0
    ).fit(images[:600], noisy.labels)
    values = clf.database_.rows.values[torch.from_numpy(noisy.flipped)]
    own = (values @ clf.model_.decision.weight.detach().T).argmax(1).numpy()
    return float(np.mean(own == noisy.labels[noisy.flipped])), clf.score(images[600:1200], y[600:1200])


def test_wrong_labels_are_learned_less_by_heart() -> None:
    (believed, accuracy), (doubted, accuracy_of_doubt) = agreement(1.0), agreement(0.2)
    assert doubted < believed / 2
    assert accuracy_of_doubt > accuracy + 0.1


@pytest.mark.parametrize("value", [-0.1, 1.5, "half"])
def test_what_is_no_share_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="label_trust must be a number from 0 to 1"):
        ProtoAttendClassifier(label_trust=value).fit(np.eye(4), [0, 1, 0, 1])
