"""What must hold on real digits: as accurate as the plain encoder, few prototypes, honest confidence."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from protoattend import ProtoAttendClassifier
from protoattend.baselines.plain import PlainClassifier

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def split() -> Split:
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(digits.images, digits.target, test_size=0.4, random_state=0)
    return X, X_test, y, y_test


@pytest.fixture(scope="module")
def classifier(split: Split) -> ProtoAttendClassifier:
    X, _, y, _ = split
    return ProtoAttendClassifier(random_state=0, verbose=0).fit(X, y)


@pytest.mark.slow
def test_it_is_as_accurate_as_the_plain_encoder(classifier: ProtoAttendClassifier, split: Split) -> None:
    X, X_test, y, y_test = split
    plain = PlainClassifier(random_state=0, verbose=0).fit(X, y)
    accuracy = classifier.score(X_test, y_test)
    assert accuracy >= 0.98
    assert accuracy >= plain.score(X_test, y_test) - 0.007


@pytest.mark.slow
def test_wrong_answers_are_less_sure(classifier: ProtoAttendClassifier, split: Split) -> None:
    seen = classifier.assess(split[1], split[3])
    assert (~seen.correct).sum() >= 5, "of fewer, a mean would not tell"
    assert seen.confidence[seen.correct].mean() - seen.confidence[~seen.correct].mean() >= 0.1
    assert roc_auc_score(seen.correct, seen.confidence) >= 0.9, (
        "a few wrong answers: their order tells more than a mean"
    )


@pytest.mark.slow
def test_few_prototypes_decide_and_those_removed_never_come_back(
    classifier: ProtoAttendClassifier, split: Split
) -> None:
    X, X_test, _, _ = split
    explanations = classifier.explain(X_test)
    assert np.median([e.n_prototypes(0.95) for e in explanations]) <= 10

    label = explanations[0].prototypes[0].label
    whole = classifier.explain(X_test[:1], top=len(X))[0]
    gone = {p.index for p in whole.prototypes if p.label == label}
    edited = copy.deepcopy(classifier)
    edited.database_.remove(sorted(gone))
    after = edited.explain(X_test[:1], top=len(X))[0]
    assert after.prototypes
    assert not gone & {p.index for p in after.prototypes}
