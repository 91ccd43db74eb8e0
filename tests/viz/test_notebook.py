"""What notebooks show: the same blocks as reports, with styles that stay inside, for every object that is shown."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from sklearn import config_context

from protoattend import PlainClassifier, ProtoAttendClassifier
from protoattend.viz.text import precise

from .pages import Reader


@pytest.fixture(params=["classifier", "explanations", "assessment", "database"])
def shown(request: Any, any_kind: Any) -> str:
    clf, X, y = any_kind
    made = {
        "classifier": lambda: clf._repr_mimebundle_()["text/html"],
        "explanations": lambda: clf.explain(X[:2])._repr_html_(),
        "assessment": lambda: clf.assess(X[:50], y[:50])._repr_html_(),
        "database": lambda: clf.database_._repr_html_(),
    }
    return str(made[request.param]())


def test_cells_are_fragments_whose_styles_stay_inside(shown: str) -> None:
    read = Reader(shown)
    assert not read.named("html")
    assert not read.named("script")
    assert read.classed("protoattend") == ["div"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", shown, re.S))
    styles = re.sub(r"/\*.*?\*/", "", styles, flags=re.S)
    selectors = [part for rule in re.findall(r"([^{}]+)\{", styles) for part in rule.split(",") if part.strip()]
    assert all(".protoattend" in part or part.strip().startswith("@media") for part in selectors)
    assert '[data-jp-theme-light="false"] .protoattend' in styles


def test_a_classifier_tells_what_came_of_it(wine_classifier: ProtoAttendClassifier) -> None:
    text = Reader(wine_classifier._repr_html_()).text
    kept = wine_classifier.history_[wine_classifier.history_.best_epoch].metrics
    assert kept is not None
    assert "Candidates 178" in text
    assert f"{100 * kept.prototype_accuracy:.1f} %" in text
    assert "max_epochs 12" in text
    assert "d_att" not in text  # the default


def test_before_fit_it_is_scikit_learns_diagram() -> None:
    assert "sk-estimator" in ProtoAttendClassifier()._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in ProtoAttendClassifier()._repr_mimebundle_()


def test_a_plain_classifier_shows_itself_too(wine: Any) -> None:
    plain = PlainClassifier(max_epochs=1, validation_fraction=0, random_state=0, verbose=0).fit(*wine)
    text = Reader(plain._repr_html_()).text
    assert "PlainClassifier, fitted" in text
    assert "Candidates" not in text


def test_an_assessment_tells_its_metrics(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    assessment = wine_classifier.assess(*wine, name="<wine>")
    text = Reader(assessment._repr_html_()).text
    assert "Assessment of <wine>" in text
    assert f"Right {precise(assessment.metrics()['accuracy'])}" in text
    assert f"Calibration error {precise(assessment.metrics()['ece'])}" in text


def test_a_database_counts_its_classes_and_edits(wine_classifier: ProtoAttendClassifier) -> None:
    clf = copy.deepcopy(wine_classifier)
    clf.database_.relabel([0, 1], 2)
    clf.database_.remove([5])
    text = Reader(clf.database_._repr_html_()).text
    assert "Candidates 177 2 added or relabelled by hand" in text
    clf.database_.remove(clf.database_.indices[clf.database_.labels == 1])
    assert "1 0" in Reader(clf.database_._repr_html_()).text  # a class without candidates
