"""Eq. 1 and eq. 3, the regularisers and the counting of prototypes, on cases worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from protoattend.core.attention import (
    attention_scores,
    class_mass,
    confidence,
    confidence_loss,
    label_votes,
    prototype_counts,
    ragged_class_mass,
    ragged_prototype_counts,
    relational_attention,
    sparsity_loss,
)
from protoattend.errors import UserError


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("d_att", [1, 4, 16])
def test_scores_are_scaled_by_the_root_of_d_att(d_att: int) -> None:
    queries, keys = random(3, d_att), random(5, d_att, seed=1)
    expected = torch.einsum("id,jd->ij", queries, keys) / math.sqrt(d_att)
    torch.testing.assert_close(attention_scores(queries, keys), expected, atol=1e-12, rtol=0)


def test_ones_of_any_width_by_hand() -> None:
    assert attention_scores(torch.ones(1, 4), torch.ones(1, 4)).item() == pytest.approx(2.0)
    assert attention_scores(torch.ones(1, 16), torch.ones(1, 16)).item() == pytest.approx(4.0)


def test_attention_by_hand() -> None:
    """d_att = 4: scores 0.5 and 0 for the first query, 0 for the second; the last candidate is excluded."""
    queries = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0]])
    keys = torch.tensor([[1.0, 5, 5, 5], [0, 1, 2, 3], [0, 0, 0, 0]])
    exclude = torch.tensor([[False, False, True], [False, False, True]])
    sparse = relational_attention(queries, keys, normalize="sparsemax", exclude=exclude)
    torch.testing.assert_close(sparse, torch.tensor([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]]))
    soft = relational_attention(queries, keys, normalize="softmax", exclude=exclude)
    first = math.exp(0.5) / (math.exp(0.5) + 1)
    torch.testing.assert_close(soft, torch.tensor([[first, 1 - first, 0.0], [0.5, 0.5, 0.0]]))


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
def test_an_excluded_candidate_gives_and_takes_nothing(normalize: str) -> None:
    queries, keys = random(4, 3).requires_grad_(), random(6, 3, seed=1).requires_grad_()
    exclude = torch.zeros(4, 6, dtype=torch.bool)
    exclude[:, 2] = True
    weights = relational_attention(queries, keys, normalize=normalize, exclude=exclude)
    assert not weights[:, 2].any()
    (weights**2).sum().backward()
    assert keys.grad is not None
    assert not keys.grad[2].any()
    assert keys.grad.any()


def test_unknown_normalisation() -> None:
    with pytest.raises(UserError, match="normalize must be one of"):
        relational_attention(random(1, 2), random(3, 2), normalize="hardmax")


def test_class_mass_and_confidence_by_hand() -> None:
    weights = torch.tensor([[0.5, 0.2, 0.3, 0.0], [0.0, 0.0, 0.1, 0.9]])
    labels = torch.tensor([2, 0, 2, 3])
    mass = class_mass(weights, label_votes(labels, 5, weights.dtype))
    torch.testing.assert_close(mass, torch.tensor([[0.2, 0, 0.8, 0, 0], [0, 0, 0.1, 0.9, 0]]))
    # Eq. 3 takes the mass at the prediction, which need not be the largest mass.
    torch.testing.assert_close(confidence(mass, torch.tensor([0, 4])), torch.tensor([0.2, 0.0]))
    assert confidence(mass[:1], torch.tensor([2])).shape == (1,)


def test_class_mass_sums_to_one_and_leaves_its_input() -> None:
    weights = torch.softmax(random(6, 50), 1)
    before, labels = weights.clone(), torch.arange(50) % 3
    mass = class_mass(weights, label_votes(labels, 4, weights.dtype))
    torch.testing.assert_close(mass.sum(1), torch.ones(6, dtype=torch.float64))
    assert torch.equal(weights, before)


def test_class_mass_carries_gradient() -> None:
    weights, labels = torch.softmax(random(3, 6), 1).requires_grad_(), torch.tensor([0, 1, 1, 0, 2, 2])
    assert torch.autograd.gradcheck(lambda w: class_mass(w, label_votes(labels, 3, w.dtype)), (weights,))


def test_a_list_of_weights_has_the_class_mass_of_the_matrix() -> None:
    weights = torch.softmax(8 * random(6, 50), 1)
    weights[weights < 0.01] = 0
    rows, columns = weights.nonzero(as_tuple=True)
    labels = torch.arange(50) % 3
    found = ragged_class_mass(labels[columns], weights[rows, columns], 4, rows, 6)
    torch.testing.assert_close(found, class_mass(weights, label_votes(labels, 4, weights.dtype)))
    torch.testing.assert_close(ragged_class_mass(labels, weights[2], 4)[0], found[2])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.95, 1.0])
def test_a_list_of_weights_has_the_counts_of_the_matrix(share: float) -> None:
    weights = torch.softmax(8 * random(6, 50), 1)
    weights[weights < 0.01] = 0
    weights = (weights / weights.sum(1, keepdim=True)).sort(1, descending=True).values
    rows, columns = weights.nonzero(as_tuple=True)
    found = ragged_prototype_counts(weights[rows, columns], rows, 6, share)
    assert found.tolist() == prototype_counts(weights, share).tolist()


def test_sparsity_loss_is_the_mean_entropy() -> None:
    one, uniform = torch.eye(4)[:1], torch.full((1, 4), 0.25)
    assert sparsity_loss(one).item() == pytest.approx(0, abs=1e-6)
    assert sparsity_loss(uniform).item() == pytest.approx(math.log(4), abs=1e-6)
    assert sparsity_loss(torch.cat([one, uniform])).item() == pytest.approx(math.log(4) / 2, abs=1e-6)
    some = torch.tensor([[0.7, 0.2, 0.1, 0.0]])
    entropy = -sum(p * math.log(p) for p in (0.7, 0.2, 0.1))
    assert sparsity_loss(some).item() == pytest.approx(entropy, abs=1e-6)


def test_sparsity_loss_has_a_finite_gradient_at_zero_weights() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0]], requires_grad=True)
    sparsity_loss(weights).backward()
    assert weights.grad is not None
    assert bool(torch.isfinite(weights.grad).all())


def test_confidence_loss_by_hand() -> None:
    weights = torch.tensor([[0.5, 0.2, 0.3], [0.0, 0.9, 0.1]], requires_grad=True)
    labels, y = torch.tensor([1, 0, 1]), torch.tensor([1, 0])
    loss = confidence_loss(weights, labels, y)
    assert loss.item() == pytest.approx(-(0.8 + 0.9) / 2)
    loss.backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [[-0.5, 0, -0.5], [0, -0.5, 0]]


def test_confidence_loss_runs_from_minus_one_to_zero() -> None:
    weights = torch.softmax(random(3, 4), 1)
    ones = torch.ones(4, dtype=torch.long)
    assert confidence_loss(weights, ones, ones[:3]).item() == pytest.approx(-1)
    assert confidence_loss(weights, ones, torch.zeros(3, dtype=torch.long)).item() == 0


@pytest.mark.parametrize(
    ("weights", "share", "count"),
    [
        ([0.6, 0.1, 0.3], 0.5, 1),
        ([0.6, 0.1, 0.3], 0.6, 1),
        ([0.6, 0.1, 0.3], 0.61, 2),
        ([0.6, 0.1, 0.3], 0.9, 2),
        ([0.6, 0.1, 0.3], 0.95, 3),
        ([0.0, 1.0, 0.0], 1.0, 1),
        ([0.25, 0.25, 0.25, 0.25], 0.5, 2),
        ([0.25, 0.25, 0.25, 0.25], 1.0, 4),
        ([0.1] * 10, 0.9, 9),  # 0.1 nine times is 0.9000001 or 0.8999999 in floats: it must be nine
        ([0.1] * 10, 1.0, 10),
        ([1.0], 0.95, 1),
        ([0.5, 0.4999], 1.0, 2),  # rounding may leave the sum below the share: never more than there are
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prototype_counts(weights: list[float], share: float, count: int, dtype: torch.dtype) -> None:
    assert prototype_counts(torch.tensor([weights], dtype=dtype), share).tolist() == [count]


def test_prototype_counts_of_many_rows() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.3, 0.3]])
    assert prototype_counts(weights, 0.8).tolist() == [1, 3]
