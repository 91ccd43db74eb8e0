"""The six rows of Table 1."""

from __future__ import annotations

import pytest

from protoattend.core.objectives import OBJECTIVES, TERM_NAMES, objective
from protoattend.errors import UserError

# Alpha -> weight at progress 0, 1/4 and 1, copied from the table.
TABLE_1 = {
    "self": {0.0: (1, 1, 1)},
    "prototype": {1.0: (1, 1, 1)},
    "joint": {0.5: (1, 1, 1)},
    "self+prototype": {0.0: (1, 1, 1), 1.0: (1, 1, 1)},
    "annealed": {0.0: (1, 0.75, 0), 1.0: (0, 0.25, 1)},
    "self+prototype+joint": {0.0: (1, 1, 1), 1.0: (1, 1, 1), 0.5: (1, 1, 1)},
}


def test_there_are_exactly_the_rows_of_the_table() -> None:
    assert set(OBJECTIVES) == set(TABLE_1)


@pytest.mark.parametrize("name", sorted(TABLE_1))
def test_row(name: str) -> None:
    row = objective(name)
    at = {alpha: tuple(weight(progress) for progress in (0.0, 0.25, 1.0)) for alpha, weight in row.items()}
    assert at == TABLE_1[name]


def test_every_alpha_has_a_name() -> None:
    assert TERM_NAMES == {0.0: "self", 0.5: "joint", 1.0: "prototype"}
    assert {alpha for row in OBJECTIVES.values() for alpha in row} == set(TERM_NAMES)


def test_the_names_say_which_alphas_are_in() -> None:
    for name, row in OBJECTIVES.items():
        if name != "annealed":
            assert set(name.split("+")) == {TERM_NAMES[alpha] for alpha in row}


def test_unknown_objective() -> None:
    with pytest.raises(UserError, match=r"objective must be one of .* but got 'self-prototype'; did you mean 'self"):
        objective("self-prototype")


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        OBJECTIVES["mine"] = {}
