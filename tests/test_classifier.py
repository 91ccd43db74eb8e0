"""How ProtoAttendClassifier behaves, on every kind of input."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from torch import nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.data.tables import TableInputs
from protoattend.errors import UserError

Kind = tuple[ProtoAttendClassifier, Any, np.ndarray]


def test_learns_every_kind(any_kind: Kind) -> None:
    classifier, X, y = any_kind
    assert classifier.score(X, y) > 0.9
    assert list(classifier.classes_) == sorted(set(y.tolist()))


def test_probabilities_and_predictions_agree(any_kind: Kind) -> None:
    classifier, X, _ = any_kind
    proba = classifier.predict_proba(X)
    assert proba.shape == (len(X), len(classifier.classes_))
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-9)
    np.testing.assert_array_equal(classifier.classes_[proba.argmax(1)], classifier.predict(X))


def test_agreement_is_the_prototype_weight_on_the_prediction(any_kind: Kind) -> None:
    classifier, X, _ = any_kind
    some = X[:30]
    explanations = classifier.explain(some, top=10_000)
    for e, c, p in zip(explanations, classifier.confidence(some), classifier.predict(some), strict=True):
        assert (e.prediction, e.confidence) == (p, pytest.approx(c))
        by_hand = sum(prototype.weight for prototype in e.prototypes if prototype.label == p)
        assert by_hand == pytest.approx(e.agreement, abs=1e-5)
        assert sum(prototype.weight for prototype in e.prototypes) == pytest.approx(1, abs=1e-4)


def test_prototypes_are_rows_of_the_training_set(any_kind: Kind) -> None:
    classifier, X, y = any_kind
    for e in classifier.explain(X[:20]):
        for p in e.prototypes:
            assert p.label == y[p.index]
            preview = classifier.inputs_.preview(classifier.inputs_.source(X[p.index : p.index + 1])[0])
            np.testing.assert_array_equal(preview, p.preview)


def test_decision_is_the_weighted_sum_of_prototype_scores(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, _ = wine
    rows = wine_classifier.database_.rows
    W = wine_classifier.model_.decision.weight.detach()
    for e, logits in zip(
        wine_classifier.explain(X[:10], top=500), wine_classifier.decision_function(X[:10]), strict=True
    ):
        index = [p.index for p in e.prototypes]
        weights = torch.tensor([p.weight for p in e.prototypes])
        np.testing.assert_allclose(W @ (weights @ rows.values[index]), logits, atol=1e-4)


def test_rows_do_not_depend_on_their_batch(any_kind: Kind) -> None:
    classifier, X, _ = any_kind
    together = classifier.predict_proba(X[:7])
    alone = np.concatenate([classifier.predict_proba(X[i : i + 1]) for i in range(7)])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_leave_one_out_never_uses_the_row_itself(any_kind: Kind) -> None:
    classifier, X, y = any_kind
    explanations = classifier.explain(None, top=10_000)
    assert len(explanations) == len(X)
    for i, e in enumerate(explanations):
        assert e.label == y[i]
        assert i not in [p.index for p in e.prototypes]


def test_same_seed_same_model_and_global_state_untouched(wine: Any) -> None:
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002 the global state is what must stay untouched
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, second, other = (
        ProtoAttendClassifier(max_epochs=2, random_state=seed, verbose=0).fit(*wine) for seed in (3, 3, 4)
    )
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    np.testing.assert_array_equal(first.predict_proba(wine[0]), second.predict_proba(wine[0]))
    assert not np.array_equal(first.predict_proba(wine[0]), other.predict_proba(wine[0]))


@pytest.mark.parametrize("candidates", ["in-batch", "sampled", "bank"])
@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_every_strategy_learns(candidates: str, normalize: str, wine: Any) -> None:
    classifier = ProtoAttendClassifier(
        candidates=candidates,
        normalize=normalize,
        n_candidates=None,
        max_epochs=8,
        random_state=0,
        verbose=0,
    ).fit(*wine)
    assert classifier.score(*wine) > 0.9


@pytest.mark.parametrize("objective", ["joint", "self+prototype", "annealed", "prototype"])
def test_objectives_and_regularisers_train(objective: str, wine: Any) -> None:
    classifier = ProtoAttendClassifier(
        objective=objective, lambda_sparse=1e-3, lambda_conf=0.1, max_epochs=8, random_state=0, verbose=0
    ).fit(*wine)
    assert classifier.score(*wine) > 0.85
    assert {"sparse", "conf"} <= set(classifier.history_[0].losses)


def test_any_module_is_an_encoder(few_digits: Any, tmp_path: Any) -> None:
    X, y = few_digits
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
    weights = module[1].weight.detach().clone()
    classifier = ProtoAttendClassifier(
        module, max_epochs=20, recipe=Recipe(mixup=0.0), augment=None, random_state=0, verbose=0
    ).fit(X / 16, y)
    assert classifier.score(X / 16, y) > 0.8
    assert torch.equal(module[1].weight, weights), "fit must train a copy of the user's module"
    classifier.save(tmp_path / "model")
    with pytest.raises(UserError, match="encoder=module"):
        ProtoAttendClassifier.load(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model", encoder=copy.deepcopy(module))
    np.testing.assert_array_equal(loaded.predict_proba(X / 16), classifier.predict_proba(X / 16))


def test_fit_reads_its_rows_once(wine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training and the database are made of the same reading, rows left out or not."""
    X, y = wine
    read, lengths = TableInputs.source, []
    monkeypatch.setattr(TableInputs, "source", lambda self, X: lengths.append(len(X)) or read(self, X))
    clf = ProtoAttendClassifier(max_epochs=1, undersample={1: 0.5}, random_state=0, verbose=0)
    clf.fit(X, y, sample_weight=np.arange(len(y)) % 4)
    assert lengths == [np.count_nonzero(np.arange(len(y)) % 4)]
    kept = clf.database_.indices
    assert 0 < len(kept) < lengths[0]
    np.testing.assert_array_equal(clf.database_.rows.source, read(clf.inputs_, X[kept]))
    np.testing.assert_array_equal(clf.database_.labels, y[kept])


def test_torch_dataset(few_digits: Any) -> None:
    X, y = few_digits
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X[:100]).float(), torch.from_numpy(y[:100]))
    classifier = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(dataset)
    assert classifier.inputs_.kind == "images"
    assert len(classifier.predict(X[:5])) == 5


def test_labels_of_any_hashable_kind(wine: Any) -> None:
    X, y = wine
    labels = [("a", 1), ("b", 2), ("c", 3)]
    classifier = ProtoAttendClassifier(max_epochs=8, random_state=0, verbose=0).fit(X, [labels[c] for c in y])
    assert set(classifier.predict(X)) <= set(labels)
    mixed = [1, "one", 2.5]
    classifier = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, [mixed[c] for c in y])
    assert set(classifier.classes_.tolist()) == set(mixed)


def test_clone_and_params() -> None:
    classifier = ProtoAttendClassifier(lambda_conf=0.3, d_att=8)
    assert clone(classifier).get_params() == classifier.get_params()


def test_abstaining_and_threshold(digit_classifier: ProtoAttendClassifier, few_digits: Any) -> None:
    X, y = few_digits
    labels, answered = digit_classifier.predict_or_abstain(X, min_confidence=0.8)
    np.testing.assert_array_equal(labels, digit_classifier.predict(X))
    np.testing.assert_array_equal(answered, digit_classifier.confidence(X) >= 0.8)
    threshold = digit_classifier.threshold_for(X, y, accuracy=0.97)
    labels, answered = digit_classifier.predict_or_abstain(X, min_confidence=threshold)
    assert (labels[answered] == y[answered]).mean() >= 0.97


def test_prediction_sets_cover(few_digits: Any) -> None:
    X, y = few_digits
    X_fit, X_rest, y_fit, y_rest = train_test_split(X, y, test_size=0.5, random_state=0)
    classifier = ProtoAttendClassifier(max_epochs=4, random_state=0, verbose=0).fit(X_fit, y_fit)
    with pytest.raises(UserError, match="calibrate"):
        classifier.prediction_set(X_rest)
    classifier.calibrate(X_rest[:100], y_rest[:100])
    sets = classifier.prediction_set(X_rest[100:], coverage=0.9)
    covered = np.mean([label in some for label, some in zip(y_rest[100:], sets, strict=True)])
    assert covered >= 0.8  # 0.9 less three standard errors of 100 samples


def test_ood_score_is_higher_for_noise(digit_classifier: ProtoAttendClassifier, few_digits: Any) -> None:
    noise = np.random.default_rng(0).uniform(0, 16, (100, 8, 8))
    assert digit_classifier.ood_score(noise).mean() > digit_classifier.ood_score(few_digits[0]).mean()


def test_label_issues_find_flipped_labels(wine: Any) -> None:
    X, y = wine
    flipped = y.copy()
    wrong = np.arange(0, len(y), 20)
    flipped[wrong] = (y[wrong] + 1) % 3
    classifier = ProtoAttendClassifier(max_epochs=6, random_state=0, verbose=0).fit(X, flipped)
    issues = classifier.find_label_issues()
    assert len(set(issues.indices[: len(wrong)]) & set(wrong)) >= len(wrong) // 2
    for issue in issues:
        assert issue.given_label == flipped[issue.index]
        assert issue.suggested_label != issue.given_label
    scores = [issue.score for issue in issues]
    assert scores == sorted(scores, reverse=True)
    assert list(issues.to_frame().columns) == ["index", "given_label", "suggested_label", "score", "odds"]


def test_removing_the_prototypes_changes_the_explanation_at_once(few_digits: Any) -> None:
    X, y = few_digits
    classifier = ProtoAttendClassifier(max_epochs=4, random_state=0, verbose=0).fit(X[:300], y[:300])
    before = classifier.explain(X[300:301], top=1000)[0]
    classifier.database_.remove([p.index for p in before.prototypes if p.label == before.prediction])
    after = classifier.explain(X[300:301], top=1000)[0]
    gone = {p.index for p in before.prototypes if p.label == before.prediction}
    assert not gone & {p.index for p in after.prototypes}


def test_predicting_before_fit() -> None:
    for verb in ("predict", "predict_proba", "confidence", "explain", "ood_score"):
        with pytest.raises(NotFittedError):
            getattr(ProtoAttendClassifier(), verb)(np.zeros((2, 3)))
