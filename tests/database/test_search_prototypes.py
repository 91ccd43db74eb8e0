"""The prototypes that a search finds: the heaviest, in order, and those that the decision is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from protoattend.core.attention import ragged_class_mass
from protoattend.database import search

from .searches import CHUNKS, N_CLASSES, D, decide, dense, make_case, normalizations, prototypes, searchable


@normalizations
def test_a_candidate_without_weight_is_no_prototype(normalize: str) -> None:
    """Neither the row left out nor one whose softmax weight is too small for a float."""
    queries, keys = make_case("far apart")
    own = torch.arange(D)
    for one, j in zip(prototypes(queries, searchable(keys), normalize=normalize, own=own), own.tolist(), strict=True):
        assert bool((one.weights > 0).all())
        assert j not in one.positions.tolist()


@normalizations
@pytest.mark.parametrize("top", [0, 1, 3, D, D + 5])
@pytest.mark.parametrize("counted", [False, True])
def test_the_heaviest_are_kept_and_decisions_are_by_all(normalize: str, top: int, counted: bool) -> None:
    queries, keys = make_case("random")
    sample_weight = torch.arange(1, D + 1).double() / 4 if counted else None
    candidates = replace(searchable(keys), sample_weight=sample_weight)
    for own in (None, torch.arange(D)):
        whole = search.attend(queries, candidates, normalize=normalize, own=own)
        for chunk in (1, 7, 4096):
            found = search.attend(queries, candidates, normalize=normalize, own=own, top=top, chunk=chunk)
            for name in ("logits", "class_mass", "largest_score"):
                torch.testing.assert_close(getattr(found, name), getattr(whole, name))
            assert bool((found.rows.diff() >= 0).all()), "rows ascending"
            assert found.sizes.tolist() == whole.sizes.clamp(max=top).tolist()
            for (ours, weights), (theirs, expected) in zip(found.per_query(), whole.per_query(), strict=True):
                assert ours.tolist() == theirs[:top].tolist()
                torch.testing.assert_close(weights, expected[:top])


@normalizations
def test_fewer_prototypes_than_asked_for_are_filled_up_with_weight_0(normalize: str) -> None:
    queries, keys = make_case("far apart")
    found = search.attend(queries, searchable(keys), normalize=normalize, top=D)
    positions, weights = found.heaviest(D)
    assert positions.shape == weights.shape == (D, D)
    assert (weights > 0).sum(1).tolist() == found.sizes.tolist()
    assert bool((weights.diff(dim=1) <= 0).all())
    torch.testing.assert_close(
        weights, dense(queries, searchable(keys), normalize)[0].gather(1, positions) * (weights > 0)
    )
    assert found.counts(1.0).max() <= found.sizes.max()


@normalizations
def test_prototypes_explain_the_decision(normalize: str) -> None:
    queries, keys = make_case("after relu")
    candidates = searchable(keys)
    decisions = decide(queries, candidates, normalize=normalize)
    for i, one in enumerate(prototypes(queries, candidates, normalize=normalize)):
        logits = one.weights @ candidates.class_scores[one.positions]
        torch.testing.assert_close(logits, decisions.logits[i], atol=1e-9, rtol=0)
        mass = ragged_class_mass(candidates.labels[one.positions], one.weights, N_CLASSES)[0]
        torch.testing.assert_close(mass, decisions.class_mass[i], atol=1e-9, rtol=0)


def test_equal_prototypes_come_in_the_order_of_the_database() -> None:
    """So that an explanation does not depend on the chunk or on how many were asked about."""
    candidates = searchable(torch.zeros(D, 4))
    for chunk in CHUNKS:
        (one,) = prototypes(torch.ones(1, 4), candidates, normalize="sparsemax", chunk=chunk)
        assert one.positions.tolist() == list(range(D))
