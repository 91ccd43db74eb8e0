"""Tables: how the features of prototypes differ from those of an input."""

from __future__ import annotations

from types import SimpleNamespace

from protoattend.viz.tables import compare


def table(own, *others):
    shown = [SimpleNamespace(preview=other, weight=1 / len(others)) for other in others]
    return [SimpleNamespace(preview=own, prototypes=shown)]


def test_cells_of_a_table_tell_how_they_differ():
    own = {"age": "40", "work": "State", "gain": "1,000", "seen": "(missing)", "same": "x"}
    [comparison] = compare(
        table(
            own,
            {"age": "60", "work": "Private", "gain": "1,000", "seen": "3", "same": "x"},
            {"age": "20", "work": "State", "gain": "900", "seen": "(missing)", "same": "x"},
        )
    )
    signs = {row.name: [cell.sign for cell in row.cells] for row in comparison.most}
    assert signs == {"age": ["▲", "▼"], "work": ["≠", ""], "gain": ["", "▼"], "seen": ["≠", ""]}
    assert [row.name for row in comparison.alike] == ["same"]


def test_close_numbers_count_as_alike_and_far_ones_are_shaded():
    own = {"height": "100"}
    [comparison] = compare(table(own, {"height": "101"}, {"height": "200"}, {"height": "130"}))
    [row] = comparison.most
    assert [(cell.sign, cell.far) for cell in row.cells] == [("", False), ("▲", True), ("▲", False)]


def test_many_features_are_folded_in_their_own_order():
    names = [f"feature {i:02d}" for i in range(60)]
    own = dict.fromkeys(names, "0")
    other = {name: "0" if i < 20 else str(i) for i, name in enumerate(names)}
    [comparison] = compare(table(own, other, own))
    assert [len(rows) for rows in (comparison.most, comparison.less, comparison.alike)] == [20, 20, 20]
    for rows in (comparison.most, comparison.less, comparison.alike):
        assert [row.name for row in rows] == sorted(row.name for row in rows)
