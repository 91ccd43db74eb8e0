"""Keys are laid out by columns for single queries: databases made of others keep that, and search as if made new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from protoattend.database.state import State


def made_new(database: Any) -> Any:
    """Return the same database with its keys laid out once more, from rows."""
    other, state = database.snapshot(), database._state
    rows = replace(state.rows, keys=state.rows.keys.contiguous())
    other._state = State.of(rows, state.readings, state.rounding, state.next_id)
    return other


def test_other_labels_share_the_keys(wine_classifier: Any) -> None:
    database = wine_classifier.database_
    relabelled = database.with_labels({3: 2}).with_labels({5: 1})
    assert relabelled._state.searchable.keys.data_ptr() == database._state.searchable.keys.data_ptr()


def test_fewer_rows_and_other_labels_search_as_if_made_new(wine_classifier: Any) -> None:
    database = wine_classifier.database_
    supposed = database.with_labels({3: 2, 9: 1}).without([0, 7, 177])
    assert supposed.rows.keys.T.is_contiguous()
    torch.testing.assert_close(supposed.rows.keys, database.rows.keys[torch.tensor(supposed.indices)])
    queries = database.rows.queries[:4]
    for asked in (queries, queries[:1]):
        found, new = supposed.attend(asked), made_new(supposed).attend(asked)
        torch.testing.assert_close(found.logits, new.logits)
        torch.testing.assert_close(found.support, new.support)
        assert found.positions.tolist() == new.positions.tolist()


def test_the_flat_reading_of_one_query_is_that_of_several(wine_classifier: Any) -> None:
    database = wine_classifier.database_
    queries = database.rows.queries[:5]
    together = database.attend(queries).support
    alone = torch.cat([database.attend(query[None]).support for query in queries])
    torch.testing.assert_close(alone, together, check_dtype=False)


def test_a_relabelled_row_decides_also_where_two_classes_score_alike(wine_classifier: Any) -> None:
    database = wine_classifier.database_.snapshot()
    rows = database.rows
    scores = rows.class_scores.clone()
    scores[3] = 1.0
    database._become(replace(rows, class_scores=scores), database._next_id)
    assert bool(database.with_labels({3: 2}).deciding[3])
