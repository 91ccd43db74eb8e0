"""Two readings of one set of scores: typical candidates decide, and all of them say how confident that is."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from protoattend import ProtoAttendClassifier
from protoattend.core.sparsemax import sparsemax
from protoattend.database import search
from protoattend.database.approximate import Approximation, FaissNeighbours
from protoattend.database.flat_mass import Flat
from protoattend.database.judges import Judges
from protoattend.database.readings import SAY, Readings, _choose_flat, choose_readings
from protoattend.database.search import attend
from protoattend.database.searchable import Searchable

FLAT = 3.0


def case(weighted: bool) -> tuple[torch.Tensor, Searchable]:
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.rand(9, 6, generator=generator) * 4, torch.rand(700, 6, generator=generator) * 4
    labels = torch.randint(3, (700,), generator=generator)
    scores = torch.randn(700, 3, generator=generator) + 2 * torch.nn.functional.one_hot(labels, 3)
    counts = torch.rand(700, generator=generator) * 2 + 0.1 if weighted else None
    return queries, Searchable(keys, scores, labels, counts, typical_only=True)


def naive(
    queries: torch.Tensor, candidates: Searchable, own: torch.Tensor | None, width: int | None = None
) -> tuple[torch.Tensor, ...]:
    """Return logits, shown class mass, flat class mass and the logarithm of its total by dense matrices."""
    scores = (queries.double() @ candidates.keys.double().T) / 6**0.5
    if own is not None:
        scores[torch.arange(len(own)), own] = -torch.inf
    counts = torch.ones(len(candidates.keys)) if candidates.sample_weight is None else candidates.sample_weight
    votes = torch.nn.functional.one_hot(candidates.labels, 3).double()
    atypical = candidates.class_scores.argmax(1) != candidates.labels
    sharp = sparsemax(scores.masked_fill(atypical, -torch.inf), sample_weight=counts.double())
    nearest = scores.masked_fill(atypical, -torch.inf).amax(1)
    scores = scores - (queries[:, width:].double() @ candidates.keys[:, width:].double().T if width else 0.0) / 6**0.5
    total = torch.logsumexp(scores / FLAT + counts.double().log(), 1)
    flat = torch.exp(scores / FLAT - total[:, None]) * counts
    total = total if width is None else nearest / FLAT
    return sharp @ candidates.class_scores.double(), sharp @ votes, flat @ votes, total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("chunk", [None, 64, 700])
@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("too_many", [False, True])
@pytest.mark.parametrize("width", [None, 4])
def test_both_readings_equal_dense_ones(
    weighted: bool,
    chunk: int | None,
    left_out: bool,
    too_many: bool,
    width: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if too_many:  # to be ordered by label, whose sums are then quicker
        monkeypatch.setattr("protoattend.database.searchable.WORTH_A_COPY", 0)
    queries, candidates = case(weighted)
    assert (candidates.by_label is None) == too_many
    own = torch.arange(len(queries)) if left_out else None
    logits, shown, flat, total = naive(queries, candidates, own, width)
    read = Flat(FLAT, width)
    found = attend(queries, candidates, normalize="sparsemax", own=own, flat=read, chunk=chunk)
    torch.testing.assert_close(found.logits.double(), logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.class_mass.double(), shown, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.flat_mass, flat, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.flat_total, total, atol=1e-5, rtol=0)
    assert torch.isin(found.positions, candidates.atypical).sum() == 0
    for i in range(3):
        one = attend(
            queries[i : i + 1],
            candidates,
            normalize="sparsemax",
            own=None if own is None else own[i : i + 1],
            flat=read,
        )
        torch.testing.assert_close(one.flat_mass, found.flat_mass[i : i + 1], atol=1e-6, rtol=0)
        torch.testing.assert_close(one.flat_total, found.flat_total[i : i + 1], atol=1e-5, rtol=0)
        torch.testing.assert_close(one.logits, found.logits[i : i + 1], atol=1e-5, rtol=0)


def test_candidates_ordered_by_label_are_named_by_their_positions() -> None:
    _, candidates = case(weighted=True)
    skipped = torch.where(candidates.labels == 1, 3, candidates.labels)  # no candidate has the label 1
    by_label = replace(candidates, labels=skipped, class_scores=torch.randn(700, 5)).by_label
    assert by_label is not None
    ordered = by_label.candidates
    torch.testing.assert_close(ordered.keys[by_label.places], candidates.keys)
    torch.testing.assert_close(ordered.sample_weight, candidates.sample_weight[by_label.positions])
    for start, count in ((0, 700), (0, 1), (100, 300), (690, 10)):
        found = [(label, own.start, own.stop) for label, own in ordered.of_labels(start, count)]
        here = ordered.labels[start : start + count]
        assert [label for label, _, _ in found] == here.unique().tolist()
        assert all((here[a:b] == label).all() for label, a, b in found)
        assert sum(b - a for _, a, b in found) == count


def test_a_decision_alone_makes_no_flat_reading() -> None:
    queries, candidates = case(weighted=False)
    assert attend(queries, candidates, normalize="sparsemax").flat_mass is None


def test_where_hardly_any_is_typical_all_decide() -> None:
    queries, candidates = case(weighted=False)
    wrong = Searchable(candidates.keys, -candidates.class_scores, candidates.labels, typical_only=True)
    few = Searchable(wrong.keys[:2], wrong.class_scores[:2], wrong.labels[:2], typical_only=True)
    assert len(few.atypical) == 0
    assert attend(queries, few, normalize="sparsemax").weights.sum() == pytest.approx(len(queries))


def test_unanimous_is_exactly_one(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    classifier = copy.deepcopy(wine_classifier)
    database = classifier.database_
    database.remove(database.indices[database.labels != 0])
    assert (classifier.class_mass(wine[0])[:, 0] == 1).all()
    assert (classifier.confidence(wine[0][wine[1] == 0]) == 1).mean() > 0.9, "but of those far from all others"
    assert classifier.confidence(wine[0][wine[1] == 2]).max() < 0.5, "no candidate is left that is like these"
    assert all(e.agreement == 1 for e in classifier.explain(wine[0]))


def test_confidence_is_the_flat_mass_at_the_prediction_of_what_is_familiar(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    mass, predicted = classifier.class_mass(X), classifier.predict(X)
    numbers = np.searchsorted(classifier.classes_, predicted)
    familiarity = classifier.database_.decide(classifier._encode(X).queries).familiarity.numpy()
    assert (familiarity == 1).mean() > 0.9
    expected = mass[np.arange(len(numbers)), numbers] * familiarity
    np.testing.assert_allclose(classifier.confidence(X), expected, atol=2e-6)
    flat = classifier.database_.flat_weights(classifier._encode(X).queries)
    of_first = flat[:, classifier.database_.rows.labels == 0].sum(1)
    np.testing.assert_allclose(mass[:, 0], of_first.numpy(), atol=1e-4)


def test_what_is_far_from_all_candidates_is_not_confident(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, _ = wine
    far = X + 20 * X.std(0)
    assert np.median(wine_classifier.confidence(far)) < 0.5 < np.median(wine_classifier.confidence(X))
    assert np.median(wine_classifier.class_mass(far).max(1)) > 0.5, "labels of those far away agree all the same"
    explanations = wine_classifier.explain(far[:1])
    assert explanations[0].familiarity < 0.5
    assert "Attention finds no candidate as near" in explanations[0].notes[-1]
    assert "Attention finds no candidate as near" in explanations._repr_html_()


def test_an_engine_that_finds_few_calls_no_input_less_familiar_than_it_is(
    wine_classifier: ProtoAttendClassifier,
) -> None:
    pytest.importorskip("faiss", reason="pip install 'protoattend-torch[ann]'")
    database = wine_classifier.database_
    engine = FaissNeighbours.build(database)
    exact = database.decide(database.rows.queries)
    for k in (3, 30, len(database)):
        found = database.approximate(engine, k=k).decide(database.rows.queries)
        assert (found.flat_total >= exact.flat_total - 1e-5).all()
    torch.testing.assert_close(found.flat_total, exact.flat_total, atol=1e-4, rtol=0)


def test_readings_are_saved_along(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    assert loaded.database_.readings == wine_classifier.database_.readings != Readings(1.0)
    np.testing.assert_array_equal(loaded.confidence(wine[0]), wine_classifier.confidence(wine[0]))


def test_a_condensed_database_has_readings_of_its_own_and_an_edited_one_keeps_them(
    wine_classifier: ProtoAttendClassifier,
) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    before = database.readings
    condensed = database.condense(20)
    assert condensed.readings == choose_readings(condensed, torch.arange(0))
    database.relabel([0], 2)
    database.remove([1])
    assert database.readings == before


def test_temperatures_are_the_most_likely_of_rows_decided_as_later_ones_are(
    wine_classifier: ProtoAttendClassifier,
) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    held_out = torch.arange(0, len(database), 9)
    chosen = choose_readings(database, held_out)
    everyone, counts = torch.arange(len(database)), torch.ones(len(database))
    seen = ~torch.isin(everyone, held_out)
    counts[seen] = SAY / int(seen.sum())  # all are asked: wine has fewer rows than that is limited to
    labels = database.rows.labels

    def loss(readings: Readings) -> tuple[float, float]:
        """Return those of the flat reading and of probabilities, every row decided by all but itself."""
        database.readings = readings
        found = database.decide(database.rows.queries, own=everyone)
        probabilities = (found.logits.double() / readings.probability_temperature).softmax(1)
        wrong = 1 / (float(counts.sum()) + 2)
        losses = []
        for shares in (found.flat_mass, probabilities):
            target = torch.full_like(shares, wrong / (shares.shape[1] - 1))
            target[everyone, labels] = 1 - wrong
            losses.append(float(-(target * shares.clamp(min=1e-9).log()).sum(1) @ counts.double()))
        return losses[0], losses[1]

    least = loss(chosen)
    for factor in (0.5, 0.9, 1.1, 2.0):
        others = loss(Readings(chosen.flat_temperature * factor**3, chosen.probability_temperature * factor))
        assert least[0] <= others[0] + 1e-6
        assert least[1] <= others[1] + 1e-6


@pytest.mark.parametrize("helps", [True, False])
def test_likeness_counts_for_confidence_where_it_says_more(helps: bool) -> None:
    """Four learned numbers say something of the label; six of likeness say all, or what is of another row."""
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (300,), generator=g)
    centres = torch.eye(3, 4), 2 * torch.eye(3, 6)
    of_likeness = labels if helps else labels[torch.randperm(300, generator=g)]
    rows = [each[which] for each, which in zip(centres, (labels, of_likeness), strict=True)]
    keys = torch.cat([part + 0.3 * torch.randn(part.shape, generator=g) for part in rows], dim=1)
    database: Any = SimpleNamespace(
        keys=keys,
        rows=SimpleNamespace(labels=labels, sample_weight=torch.ones(300)),
        classes=range(3),
        temperature=0.5,
    )
    judges = Judges(labels, torch.ones(300))
    assert _choose_flat(database, keys, torch.arange(300), judges, judges, (None, 4)).width == (None if helps else 4)


def test_an_engine_reads_as_exact_search_does_where_not_all_decide() -> None:
    queries, candidates = case(weighted=False)
    everyone = Approximation(Everyone(candidates.keys), len(candidates.keys), np.arange(len(candidates.keys)))
    for read in (Flat(FLAT), Flat(FLAT, 4)):
        exact, found = (
            ways.attend(queries, candidates, normalize="sparsemax", flat=read) for ways in (search, everyone)
        )
        torch.testing.assert_close(found.flat_mass.float(), exact.flat_mass.float(), atol=1e-5, rtol=0)
        torch.testing.assert_close(found.flat_total.float(), exact.flat_total.float(), atol=1e-4, rtol=0)


class Everyone:
    """An engine that finds all candidates."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.keys = keys.numpy()

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = queries @ self.keys.T
        order = (-scores).argsort(1)
        return order, np.take_along_axis(scores, order, axis=1)


@pytest.mark.parametrize("likeness", [True, False])
def test_without_held_out_rows_likeness_counts_as_it_did(
    wine_classifier: ProtoAttendClassifier, likeness: bool
) -> None:
    database = wine_classifier.database_.snapshot()
    database.readings = replace(database.readings, flat_likeness=likeness)
    assert database.condense(20).readings.flat_likeness == likeness


def test_all_ways_read_learned_scores_alone(wine_classifier: ProtoAttendClassifier) -> None:
    database = wine_classifier.database_.snapshot()
    database.readings = replace(database.readings, flat_likeness=False)
    queries = database.rows.queries[::7]
    found = database.decide(queries)
    weights = database.flat_weights(queries)
    votes = torch.nn.functional.one_hot(database.rows.labels, 3).float()
    torch.testing.assert_close(found.flat_mass.float(), weights @ votes, atol=1e-5, rtol=0)
    changed = queries.clone()
    changed[:, wine_classifier.d_att :] = 0
    others = database.decide(changed)
    torch.testing.assert_close(others.flat_mass, found.flat_mass, atol=1e-6, rtol=0)
    assert not torch.allclose(others.logits, found.logits, atol=1e-3), "decisions go by likeness too"
    pytest.importorskip("faiss", reason="pip install 'protoattend-torch[ann]'")
    engine = FaissNeighbours.build(database)
    near = database.approximate(engine, k=len(database)).decide(queries)
    torch.testing.assert_close(near.flat_mass, found.flat_mass, atol=1e-5, rtol=0)
    torch.testing.assert_close(near.flat_total, found.flat_total, atol=1e-4, rtol=0)


def test_a_person_makes_a_candidate_typical(wine_classifier: ProtoAttendClassifier) -> None:
    database = copy.deepcopy(wine_classifier.database_)
    row = int(database.rows.class_scores[:, 0].argmax())
    database.relabel([int(database.indices[row])], 1)
    assert bool(database.deciding[row])


def test_an_explanation_says_what_speaks_against_and_where_it_contradicts_itself(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    for e, shares in zip(classifier.explain(X[:20]), classifier.class_mass(X[:20]), strict=True):
        assert all(p.label != e.prediction for p in e.against)
        mass = dict(zip(classifier.classes_.tolist(), shares, strict=True))
        del mass[e.prediction]
        assert {p.label for p in e.against} <= {max(mass, key=mass.get)}, "of the runner-up alone"
        assert [p.weight for p in e.against] == sorted((p.weight for p in e.against), reverse=True)
        assert (e.note == "") == (e.heaviest_label == e.prediction)
        assert all(p.argues_for == p.label for p in e.prototypes), "only typical candidates decide"
        assert sum(e.weights) == pytest.approx(1, abs=1e-5)
