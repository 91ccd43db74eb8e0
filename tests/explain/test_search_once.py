"""One question is one search of the database, and X is read once for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from protoattend import ProtoAttendClassifier
from protoattend.database import search

QUESTIONS: dict[str, Callable[[ProtoAttendClassifier, Any], Any]] = {
    "predict": lambda clf, X: clf.predict(X),
    "predict_proba": lambda clf, X: clf.predict_proba(X),
    "confidence": lambda clf, X: clf.confidence(X),
    "class_mass": lambda clf, X: clf.class_mass(X),
    "predict_or_abstain": lambda clf, X: clf.predict_or_abstain(X, 0.9),
    "explain": lambda clf, X: clf.explain(X),
    "contrast": lambda clf, X: clf.contrast(X, clf.classes_[1]),
    "explain_diverse": lambda clf, X: clf.explain_diverse(X),
    "prototype_usage": lambda clf, X: clf.prototype_usage(X),
}


@pytest.fixture
def counts(wine_classifier: ProtoAttendClassifier, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a database was searched and X was read, from here on."""
    found: Counter[str] = Counter()
    attend, source = search.attend, wine_classifier.inputs_.source

    def counted_attend(*args: Any, **how: Any) -> Any:
        found["searches"] += 1
        return attend(*args, **how)

    def counted_source(X: Any) -> Any:
        found["readings"] += 1
        return source(X)

    monkeypatch.setattr(search, "attend", counted_attend)
    monkeypatch.setitem(vars(wine_classifier.inputs_), "source", counted_source)
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_search_and_one_reading(
    name: str, wine_classifier: ProtoAttendClassifier, wine: Any, counts: Counter[str]
) -> None:
    QUESTIONS[name](wine_classifier, wine[0][:7])
    assert counts == {"searches": 1, "readings": 1}


def test_leave_one_out_is_one_search(wine_classifier: ProtoAttendClassifier, counts: Counter[str]) -> None:
    wine_classifier.explain(None)
    assert counts == {"searches": 1}


@pytest.mark.parametrize("supposition", [{"without": [3, 4]}, {"with_labels": {3: 1}}])
def test_a_supposition_searches_each_of_the_two_databases_once(
    supposition: dict[str, Any], wine_classifier: ProtoAttendClassifier, wine: Any, counts: Counter[str]
) -> None:
    wine_classifier.explain(wine[0][:7], **supposition)
    assert counts == {"searches": 2, "readings": 1}


def test_errors_are_analysed_by_one_search_and_one_without_each_suspect(
    wine_classifier: ProtoAttendClassifier, wine: Any, counts: Counter[str]
) -> None:
    X, y = wine
    wrong = (y + 1) % 3  # all decisions are errors, so there are suspects
    found = wine_classifier.error_analysis(X, wrong, top=4)
    assert len(found.harmful) == 4
    assert counts == {"searches": 1 + 4, "readings": 1}
