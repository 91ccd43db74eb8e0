"""Validation measures what is trained: weighted rows as copies, the rows held out as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from protoattend.data.inputs import fit_inputs
from protoattend.training import prepared as ready
from protoattend.training.batches import Labelled
from protoattend.training.evaluation import evaluate_plain, evaluate_with_prototypes

from .weighted import ALL, COPIES, COUNTS, WIDTH, C, N, generator, make_data, make_model


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_validation_measures_are_those_of_copies(normalize: str) -> None:
    data, model = make_data(), make_model(normalize)
    validation = Labelled(torch.randn(N, WIDTH, generator=generator(1), dtype=torch.float64), ALL.flip(0) % C)
    counts = COUNTS.flip(0)
    again = torch.repeat_interleave(ALL, counts)
    weighted = evaluate_with_prototypes(
        model,
        Labelled(validation.samples, validation.labels, counts.float()),
        Labelled(data.samples, data.labels, COUNTS.double()),
    )
    repeated = evaluate_with_prototypes(model, validation.at(again), data.at(COPIES))
    assert weighted.self_accuracy == pytest.approx(repeated.self_accuracy)
    assert weighted.prototype_accuracy == pytest.approx(repeated.prototype_accuracy)
    plain = evaluate_plain(model, Labelled(validation.samples, validation.labels, counts.float()))
    assert plain.self_accuracy == plain.prototype_accuracy == pytest.approx(repeated.self_accuracy)


def test_validation_attends_to_weighted_candidates() -> None:
    """One candidate of each label, equally near: the heavier one decides."""
    model = make_model("softmax")
    with torch.no_grad():
        model.query[0].weight.zero_()
        model.query[0].bias.zero_()  # all scores are 0
    candidates = make_data().at(torch.tensor([0, 1, 2]))
    values = model.decision(model.encode(candidates.samples).values)
    for heavy in range(3):
        weights = torch.ones(3, dtype=torch.float64)
        weights[heavy] = 1e6
        validation = Labelled(candidates.samples, values[heavy].argmax().expand(3))
        found = evaluate_with_prototypes(model, validation, Labelled(candidates.samples, candidates.labels, weights))
        assert found.prototype_accuracy == 1


def test_the_standard_error_is_that_of_weighted_samples() -> None:
    model = make_model()
    samples, labels = torch.zeros(4, WIDTH, dtype=torch.float64), torch.zeros(4, dtype=torch.long)
    for weights, n in ((None, 4), ([7.0] * 4, 4), ([1.0, 0.0, 0.0, 0.0], 1), ([3.0, 1.0, 1.0, 1.0], 3)):
        data = Labelled(samples, labels, None if weights is None else torch.tensor(weights))
        assert evaluate_plain(model, data).n_samples == n


def test_accuracy_never_rounds_above_one() -> None:
    """Above one, its standard error would be no real number."""
    model = make_model().float()
    ratios = []
    for n in range(2, 200):
        weights = 9 * torch.rand(n, generator=generator(n)) + 0.01
        x = torch.randn(n, WIDTH, generator=generator())
        metrics = evaluate_plain(model, Labelled(x, model.self_logits(x).argmax(1), weights))
        assert metrics.self_accuracy == pytest.approx(1)
        assert metrics.self_accuracy <= 1
        ratios.append(float(torch.ones(n) @ weights / weights.sum()))
    assert max(ratios) > 1, "which it would be"


def prepared(**params: Any) -> ready.Prepared:
    X, y = np.arange(300.0)[:, None], np.array(["rare"] * 50 + ["usual"] * 250)
    defaults = {"learn_inputs": fit_inputs, "validation_fraction": 0.2, "generator": generator()}
    return ready.prepare(X, y, **{**defaults, **params})


def test_validation_keeps_its_rows_and_the_database_is_undersampled() -> None:
    plain, under = prepared(), prepared(undersample={"usual": 0.4})
    assert plain.validation is not None
    assert under.validation is not None
    assert torch.equal(plain.validation.samples, under.validation.samples)
    assert torch.bincount(under.validation.labels).tolist() == [10, 50]
    assert (plain.sample_weight == 1).all()
    assert set(under.sample_weight.tolist()) == {0.0, 1.0}
    assert [int(under.sample_weight[:50].sum()), int(under.sample_weight[50:].sum())] == [50, 100]
    assert torch.bincount(under.validation_candidates(generator()).labels).tolist() == [40, 80]
    assert under.train.rows_of_an_epoch == 120
    again = prepared(undersample={"usual": 0.4}), prepared(undersample={"usual": 0.4}, generator=generator(1))
    assert [np.array_equal(under.sample_weight, other.sample_weight) for other in again] == [True, False]


def test_rows_of_weight_zero_are_nowhere() -> None:
    weights = np.tile([0.0, 2.0, 0.5], 100)
    found = prepared(sample_weight=weights, undersample={"usual": 0.5})
    assert found.validation is not None
    shown = found.inputs.columns[0]
    kept = [(part.samples[:, 0] * shown.scale + shown.mean).round() for part in (found.train, found.validation)]
    assert sorted(np.concatenate(kept).tolist()) == np.flatnonzero(weights).tolist()
    for part, rows in zip((found.train, found.validation), kept, strict=True):
        assert part.sample_weight is not None
        assert part.sample_weight.tolist() == weights[rows.numpy().astype(int)].tolist()
    chosen = found.sample_weight > 0
    assert np.array_equal(found.sample_weight[chosen], weights[chosen])
    assert int(chosen[50:].sum()) == round(0.5 * np.count_nonzero(weights[50:]))


def test_validation_weighs_as_training_does() -> None:
    """By weight, by the share of its class that is kept, and by the weight of its class."""
    assert prepared(validation_fraction=0.0).validation_rows(torch.ones(2)) is None
    plain = prepared().validation_rows(None)
    assert plain is not None
    assert plain.sample_weight is None
    weights = np.where(np.arange(300) < 50, 3.0, 2.0)
    everything = prepared(sample_weight=weights, undersample={"usual": 0.5}).validation_rows(torch.tensor([10.0, 0.1]))
    assert everything is not None
    assert everything.sample_weight is not None
    torch.testing.assert_close(everything.sample_weight, torch.where(everything.labels == 0, 30.0, 0.1))
    balanced = prepared().validation_rows(torch.tensor([2.0, 0.5]))
    assert balanced is not None
    assert balanced.sample_weight is not None
    torch.testing.assert_close(balanced.sample_weight, torch.where(balanced.labels == 0, 2.0, 0.5))
