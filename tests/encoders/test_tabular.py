"""The fronts and the network for tables, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from protoattend.encoders.build import build_encoder
from protoattend.encoders.tabular import BinnedTable, PlainTable, bin_edges, bin_positions

NAN = float("nan")


def samples(n: int = 200, seed: int = 0) -> Tensor:
    """Three numbers (smooth, nearly all zero, sometimes missing) and two categories with 4 and 3 codes."""
    g = torch.Generator().manual_seed(seed)
    smooth = torch.randn(n, generator=g)
    spiked = torch.where(torch.rand(n, generator=g) < 0.9, 0.0, torch.randint(1, 9, (n,), generator=g).float())
    gappy = torch.where(torch.rand(n, generator=g) < 0.2, NAN, torch.rand(n, generator=g))
    codes = [torch.randint(0, size, (n,), generator=g).float() for size in (4, 3)]
    return torch.stack([smooth, spiked, gappy, *codes], dim=1)


def position_by_hand(value: float, low: float, high: float) -> float:
    if low == high or value <= low:
        return 0.0
    return 1.0 if value >= high else (value - low) / (high - low)


def binned(n_numbers: int = 3, cardinalities: tuple[int, ...] = (4, 3)) -> BinnedTable:
    torch.manual_seed(0)
    table = BinnedTable(n_numbers, cardinalities, width=5)
    table.learn_from(samples())
    return table


def test_binned_table_equals_plain_loops() -> None:
    table, x = binned(), samples(20, seed=1)
    weight, bias, edges = (t.detach().tolist() for t in (table.weight, table.bias, table.edges))
    out = table(x)
    assert out.shape == (20, table.out_features)
    for i, row in enumerate(x.tolist()):
        expected: list[float] = []
        values = [0.0 if math.isnan(value) else value for value in row[:3]]
        for j, value in enumerate(values):
            missing = math.isnan(row[j])
            inputs = [position_by_hand(value, low, high) for low, high in zip(edges[j], edges[j][1:], strict=False)]
            inputs += [value, float(missing and j == 2)]
            for unit in range(5):
                total = bias[j][0][unit] + sum(a * w[unit] for a, w in zip(inputs, weight[j], strict=True))
                expected.append(max(0.0, total))
        expected += values
        for k, code in enumerate(row[3:]):
            expected += table.embeddings[k].weight[int(code)].tolist()
        torch.testing.assert_close(out[i], torch.tensor(expected), atol=1e-4, rtol=1e-4)


def test_a_missing_value_is_marked_only_where_training_saw_one() -> None:
    table = binned()
    x = samples(2, seed=1)
    x[1] = x[0]
    for column, marked in ((0, False), (2, True)):
        gap = x.clone()
        gap[0, column], gap[1, column] = NAN, 0.0
        first, second = table(gap)
        assert torch.equal(first, second) != marked


def test_an_unknown_category_is_all_zeros_and_stays_so() -> None:
    table, x = binned(), samples(2, seed=1)
    x[:, 3:] = 0.0
    assert not table(x)[:, 18:].any()
    assert not PlainTable(3, (4, 3))(x)[:, 3:].any()
    table(x).sum().backward()
    assert not table.embeddings[0].weight.grad.any()


def test_plain_table_is_numbers_and_multi_hot() -> None:
    x = samples(50)
    out = PlainTable(3, (4, 3))(x)
    assert out.shape == (50, 3 + 3 + 2) == (50, PlainTable(3, (4, 3)).out_features)
    for row, given in zip(out.tolist(), x.tolist(), strict=True):
        hot = [[float(code == c) for c in range(1, size)] for code, size in zip(given[3:], (4, 3), strict=True)]
        assert row[3:] == [*hot[0], *hot[1]]
        assert row[:3] == [0.0 if math.isnan(v) else v for v in given[:3]]


def test_edges_are_quantiles_where_values_are_many() -> None:
    values = torch.randn(1001, generator=torch.Generator().manual_seed(0))
    expected = np.quantile(values.numpy(), np.linspace(0, 1, 11), method="nearest")
    np.testing.assert_array_equal(bin_edges(values, 10), expected)


def test_edges_reach_the_rare_values_of_a_column_that_is_nearly_constant() -> None:
    values = torch.cat([torch.zeros(980), torch.arange(1.0, 21.0)])
    edges = bin_edges(values, 8)
    assert len(edges.unique()) == 9
    assert edges[0] == 0
    assert edges[-1] == 20
    assert (edges[1:] >= edges[:-1]).all()


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0, 3.0], [1.0, 2.0], list(range(9)), list(range(10))])
def test_edges_of_few_values(values: list[float]) -> None:
    edges = bin_edges(torch.tensor(values), 8)
    assert len(edges) == min(9, len(set(values)))
    assert (edges.diff() > 0).all()
    assert (edges[0], edges[-1]) == (min(values), max(values))
    if len(set(values)) <= 9:
        assert set(edges.tolist()) == set(values)


def test_positions_are_monotone_and_tell_bins_apart() -> None:
    edges = torch.tensor([0.0, 1.0, 3.0, 3.0])
    numbers = torch.linspace(-1, 4, 101)[:, None]
    positions = bin_positions(numbers, edges)
    assert positions.isfinite().all()
    assert (positions.diff(dim=0) >= 0).all()
    assert not positions[:, 2].any()  # an empty bin says nothing
    torch.testing.assert_close((positions * edges.diff()).sum(1), numbers[:, 0].clamp(0, 3))


def test_no_more_bins_than_distinct_values_and_none_for_constant_columns() -> None:
    table = BinnedTable(2, ())
    for n_rows, n_bins in ((50, 49), (320, 128), (5000, 128)):
        table.learn_from(torch.stack([torch.linspace(0, 1, n_rows), torch.full((n_rows,), 3.0)], dim=1))
        assert [len(edges.unique()) - 1 for edges in table.edges] == [n_bins, 0]
        assert table.edges[0, -1] == 1


@pytest.mark.parametrize("n_numbers", [0, 1, 14, 64, 5000])
def test_a_wide_table_gets_fewer_bins_a_column(n_numbers: int) -> None:
    n_bins = BinnedTable(n_numbers, ()).edges.shape[1] - 1
    assert n_bins == {0: 128, 1: 128, 14: 128, 64: 32, 5000: 8}[n_numbers]


@pytest.mark.parametrize("name", ["mlp", "lstm", "features"])
def test_state_comes_back_and_rows_do_not_depend_on_their_batch(name: str) -> None:
    form = {"n_numbers": 3, "cardinalities": [4, 3], "means": [0.0] * 3, "scales": [1.0] * 3}
    first, second = (build_encoder(name, "table", form).eval() for _ in range(2))
    first.learn_from(samples())
    second.load_state_dict(first.state_dict())
    x = samples(9, seed=1)
    assert torch.equal(first(x), second(x))
    torch.testing.assert_close(torch.cat([first(row[None]) for row in x]), first(x))


def test_only_categories_or_only_numbers() -> None:
    for n_numbers, cardinalities in ((0, (4, 3)), (3, ())):
        table = BinnedTable(n_numbers, cardinalities)
        x = samples()[:, 3:] if n_numbers == 0 else samples()[:, :3]
        table.learn_from(x)
        assert table(x).shape == (200, table.out_features)
        assert table(x).isfinite().all()
