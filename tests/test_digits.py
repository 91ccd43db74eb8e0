"""What must hold on real digits: as accurate as the plain encoder, few prototypes, honest confidence."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from protoattend import ProtoAttendClassifier
from protoattend.baselines.plain import PlainClassifier


def split() -> list[np.ndarray]:
    digits = load_digits()
    return train_test_split(digits.images, digits.target, test_size=0.2, random_state=0)


@pytest.mark.slow
def test_wrong_answers_are_less_sure() -> None:
    X_train, X_test, y_train, y_test = split()
    confidence, right = [], []
    for seed in range(3):  # of one training two answers may be wrong: too few to tell
        seen = ProtoAttendClassifier(random_state=seed, verbose=0).fit(X_train, y_train).assess(X_test, y_test)
        confidence.append(seen.confidence)
        right.append(seen.correct)
    sure, correct = np.concatenate(confidence), np.concatenate(right)
    assert sure[correct].mean() - sure[~correct].mean() >= 0.2


@pytest.mark.slow
def test_digits() -> None:
    X_train, X_test, y_train, y_test = split()
    classifier = ProtoAttendClassifier(random_state=0, verbose=0).fit(X_train, y_train)
    plain = PlainClassifier(random_state=0, verbose=0).fit(X_train, y_train)
    right = classifier.predict(X_test) == y_test
    assert right.mean() >= 0.98
    assert right.mean() >= plain.score(X_test, y_test) - 0.007
    explanations = classifier.explain(X_test)
    assert np.median([e.n_prototypes(0.95) for e in explanations]) <= 10

    first = explanations[0]
    label = first.prototypes[0].label
    whole = classifier.explain(X_test[:1], top=len(X_train))[0]
    gone = {p.index for p in whole.prototypes if p.label == label}
    classifier.database_.remove(sorted(gone))
    after = classifier.explain(X_test[:1], top=len(X_train))[0]
    assert after.prototypes
    assert not gone & {p.index for p in after.prototypes}
