"""Drift: the test's false alarms are as rare as promised, real changes are found and named, and the state is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.errors import BadFile, UserError
from protoattend.monitoring.change_test import ChangeTest, bets, rank_p_values
from protoattend.monitoring.drift import DriftMonitor, familiarity
from protoattend.monitoring.usage import PrototypeUsage


def drawn(rng: np.random.Generator, n: int, *, uncertain: float = 0.2, first: float = 0.5) -> PrototypeUsage:
    """Draw decisions as sparsemax makes them: mostly of confidence exactly 1, on prototypes of their own class."""
    label = (rng.uniform(size=n) >= first).astype(int)
    confidence = np.where(rng.uniform(size=n) < uncertain, rng.uniform(0.5, 1, n), 1.0)
    mass = np.stack([np.where(label == c, confidence, 1 - confidence) for c in (0, 1)], axis=1)
    own = rng.geometric(0.2, n).clip(max=20) + 100 * label
    other = rng.integers(1, 21, n) + 100 * (1 - label)
    return PrototypeUsage(
        confidence=confidence,
        class_mass=mass,
        indices=np.stack([own, other], axis=1),
        labels=np.stack([label, 1 - label], axis=1),
        weights=np.stack([confidence, 1 - confidence], axis=1),
        classes=("a", "b"),
    )


def test_p_values_are_ranks_by_definition() -> None:
    rng = np.random.default_rng(0)
    seen, scores = np.sort(rng.integers(0, 5, (2, 7)), axis=1).astype(float), rng.integers(0, 5, (9, 2)).astype(float)
    uniforms = rng.uniform(size=(9, 2))
    expected = np.empty((9, 2))
    for s in range(2):
        known = seen[s].tolist()
        for i, score in enumerate(scores[:, s]):
            known.append(score)
            below, equal = sum(k < score for k in known), sum(k == score for k in known)
            expected[i, s] = (below + uniforms[i, s] * equal) / len(known)
    np.testing.assert_allclose(rank_p_values(seen, scores, uniforms), expected)


def test_bets_are_fair_and_never_ruin() -> None:
    p = (np.arange(1_000_000) + 0.5) / 1_000_000
    won = bets(p)
    np.testing.assert_allclose(won.mean(0), 1, atol=2e-3)
    assert won.min() > 0
    assert np.isfinite(bets(np.array([0.0, 1.0]))).all()


def test_capital_is_the_mean_over_ways_and_beginnings_and_the_largest_of_scores() -> None:
    """Compare the running sums with the definition: a bet for each score, way and time of the change."""
    rng = np.random.default_rng(0)
    reference, scores = rng.normal(size=(6, 2)), rng.normal(size=(12, 2))
    shares = np.array([0.75, 0.25])
    _, evidence, alone = ChangeTest.start(reference, shares).after(scores, np.random.default_rng(1))
    uniforms = np.random.default_rng(1).uniform(size=(12, 2))
    won = bets(rank_p_values(np.sort(reference.T, axis=1), scores, uniforms))
    for n in range(1, 13):
        by_score = np.full(2, 1 / (n + 1))
        for begin in range(1, n + 1):
            by_score += won[begin - 1 : n].prod(0).mean(1) / (begin * (begin + 1))
        np.testing.assert_allclose(np.exp(alone[n - 1]), by_score)
        assert np.exp(evidence[n - 1]) == pytest.approx((by_score * shares).max())


def test_batches_make_no_difference() -> None:
    rng = np.random.default_rng(0)
    reference, scores = rng.normal(size=(50, 3)), rng.normal(size=(700, 3)).round(1)
    start = ChangeTest.start(reference, np.full(3, 1 / 3))
    whole, at_once, _ = start.after(scores, np.random.default_rng(1))
    generator, test, parts = np.random.default_rng(1), start, []
    for some in np.array_split(scores, 23):
        test, evidence, _ = test.after(some, generator)
        parts.append(evidence)
    np.testing.assert_allclose(np.concatenate(parts), at_once)
    np.testing.assert_array_equal(test.seen, whole.seen)


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_promised() -> None:
    rng = np.random.default_rng(0)
    runs, alarms = 200, 0
    for seed in range(runs):
        monitor = DriftMonitor(drawn(rng, 60), false_alarm=0.2, seed=seed)
        alarms += monitor.update(drawn(rng, 300)).alarm
    assert alarms / runs <= 0.2
    assert alarms > 0  # or else the test would have no power to fail


def test_evidence_is_a_third_of_the_strongest_sign() -> None:
    rng = np.random.default_rng(0)
    monitor = DriftMonitor(drawn(rng, 100))
    for uncertain, first in ((0.2, 0.5), (0.9, 0.5), (0.2, 0.9)):
        report = monitor.update(drawn(rng, 50, uncertain=uncertain, first=first))
        assert report.evidence == pytest.approx(max(report.signs.values()) - np.log10(3))


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ({"uncertain": 0.9}, "confidence"),
        ({"first": 0.95}, "classes of prototypes"),
    ],
)
def test_changes_are_found_after_a_long_quiet_time(change: dict[str, float], sign: str) -> None:
    rng = np.random.default_rng(0)
    monitor = DriftMonitor(drawn(rng, 400))
    for _ in range(10):
        assert not monitor.update(drawn(rng, 100)).alarm
    for _ in range(4):
        report = monitor.update(drawn(rng, 100, **change))
    assert report.alarm
    assert 1000 < report.alarm_at <= 1300
    assert max(report.signs, key=lambda name: report.signs[name]) == sign
    assert monitor.alarm
    assert monitor.update(drawn(rng, 500)).alarm_at == report.alarm_at  # it stays
    assert "alarm at sample" in str(report)


def test_prototypes_that_took_over_are_named() -> None:
    rng = np.random.default_rng(0)
    monitor = DriftMonitor(drawn(rng, 400), recent=100)
    familiar = drawn(rng, 300)
    unfamiliar = replace(familiar, indices=np.where(familiar.labels == 0, 7777, familiar.indices))
    report = monitor.update(unfamiliar)
    assert report.alarm
    assert report.signs["familiarity of prototypes"] > report.signs["confidence"]
    assert report.prototypes[0].name == "#7777 (a)"
    assert report.prototypes[0].before == 0
    last = unfamiliar.at(slice(-100, None))
    assert report.prototypes[0].now == pytest.approx(last.weights[last.indices == 7777].sum() / 100)
    assert all(change.now > change.before for change in report.prototypes)
    assert report.n_recent == 100
    assert report.classes[0].now == pytest.approx(last.class_mass[:, 0].mean())
    ax = report.plot()
    assert ax.get_yticklabels()[-1].get_text() == "#7777 (a)"


def test_shares_and_familiarity_by_hand() -> None:
    usage = PrototypeUsage(
        confidence=np.array([1.0, 0.75]),
        class_mass=np.array([[1.0, 0.0], [0.75, 0.25]]),
        indices=np.array([[3, 0], [3, 9]]),
        labels=np.array([[0, 0], [0, 1]]),
        weights=np.array([[1.0, 0.0], [0.75, 0.25]]),
        classes=("a", "b"),
    )
    indices, shares = usage.shares()
    assert indices.tolist() == [3, 9]
    assert shares.tolist() == [0.875, 0.125]
    assert usage.label_of(9) == "b"
    only = familiarity(usage, np.array([3]), np.array([0.5]))
    np.testing.assert_allclose(only, [np.log(0.5), 0.75 * np.log(0.5) + 0.25 * np.log(0.25)])
    wider = usage.followed_by(drawn(np.random.default_rng(0), 3))
    assert len(wider) == 5
    narrow = replace(usage, indices=usage.indices[:1, :1], labels=usage.labels[:1, :1], weights=usage.weights[:1, :1],
                     confidence=usage.confidence[:1], class_mass=usage.class_mass[:1])  # fmt: skip
    assert narrow.followed_by(usage).indices.tolist() == [[3, 0], [3, 0], [3, 9]]


def test_a_saved_monitor_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    monitor = DriftMonitor(drawn(rng, 100), seed=3)
    monitor.save(tmp_path / "fresh")
    assert DriftMonitor.load(tmp_path / "fresh").n_seen == 0
    batches = [drawn(rng, 40, uncertain=0.2 + 0.2 * i) for i in range(4)]
    monitor.update(batches[0])
    monitor.save(tmp_path / "monitor")
    monitor.save(tmp_path / "monitor")  # again, over itself
    loaded = DriftMonitor.load(tmp_path / "monitor")
    assert loaded.report() == monitor.report()
    for batch in batches[1:]:
        assert loaded.update(batch) == monitor.update(batch)
    np.testing.assert_array_equal(loaded.trail["evidence"], monitor.trail["evidence"])
    assert {path.suffix for path in (tmp_path / "monitor").iterdir()} == {".json", ".safetensors"}
    (tmp_path / "monitor" / "state.safetensors").write_bytes(b"cut")
    with pytest.raises(BadFile, match=r"state\.safetensors does not match its checksum"):
        DriftMonitor.load(tmp_path / "monitor")
    with pytest.raises(BadFile, match=r"no meta\.json"):
        DriftMonitor.load(tmp_path / "nothing")


def test_bad_input() -> None:
    usage = drawn(np.random.default_rng(0), 40)
    monitor = DriftMonitor(usage)
    with pytest.raises(UserError, match="seen none"):
        monitor.report()
    with pytest.raises(UserError, match="at least one sample"):
        monitor.update(usage.at(slice(0, 0)))
    with pytest.raises(UserError, match="of the classifier that made the reference"):
        monitor.update(replace(usage, classes=("a", "c")))
    with pytest.raises(UserError, match="at least 20 samples, but has 19"):
        DriftMonitor(usage.at(slice(0, 19)))
    with pytest.raises(UserError, match="NaN"):
        replace(usage, confidence=np.full(40, np.nan))
    with pytest.raises(UserError, match="one row for each decision"):
        replace(usage, confidence=np.ones(3))
    with pytest.raises(UserError, match="no weight"):
        replace(usage, weights=np.zeros((40, 2)))
    for wrong in (0, 1, -1):
        with pytest.raises(UserError, match="false_alarm"):
            DriftMonitor(usage, false_alarm=wrong)
    with pytest.raises(UserError, match="recent"):
        DriftMonitor(usage, recent=0)


def test_constant_scores_raise_no_alarm() -> None:
    usage = drawn(np.random.default_rng(0), 100).at(np.zeros(100, dtype=int))
    monitor = DriftMonitor(usage)
    for _ in range(5):
        report = monitor.update(usage)
    assert not report.alarm
    assert report.prototypes == ()
    report.plot()


def test_usage_is_that_of_the_explanations(any_kind: Any) -> None:
    classifier, X, _ = any_kind
    usage = classifier.prototype_usage(X[:5])
    np.testing.assert_allclose(usage.confidence, classifier.confidence(X[:5]))
    np.testing.assert_allclose(usage.class_mass, classifier.class_mass(X[:5]))
    for i, explanation in enumerate(classifier.explain(X[:5], top=20)):
        assert usage.indices[i, : len(explanation.prototypes)].tolist() == [p.index for p in explanation.prototypes]
        np.testing.assert_allclose(usage.weights[i, : len(explanation.weights)], explanation.weights[:20])
        assert usage.label_of(explanation.prototypes[0].index) == str(explanation.prototypes[0].label)


def test_noise_among_digits_is_noticed(digit_classifier: ProtoAttendClassifier) -> None:
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    X = rng.permutation(load_digits().images[400:])
    monitor = digit_classifier.drift_monitor(X[:500])
    for batch in np.array_split(X[500:1200], 7):
        assert not monitor.update(digit_classifier.prototype_usage(batch)).alarm
    turned = np.rot90(X[1200:], axes=(1, 2))
    report = monitor.update(digit_classifier.prototype_usage(turned))
    assert report.alarm
    assert monitor.plot().get_title(loc="left") == "Evidence of drift"
