"""Charts of reports: what is drawn lies where the data says, and the sentence tells the same numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from protoattend.uncertainty.calibration import reliability
from protoattend.viz import svg
from protoattend.viz.svg import Frame
from protoattend.viz.svg_charts import (
    Operating,
    concentration_chart,
    histogram_chart,
    interval,
    learning_charts,
    reliability_chart,
    risk_coverage_chart,
)

from .pages import Reader


def numbers(text: str, attribute: str) -> list[float]:
    return [float(value) for value in re.findall(rf'{attribute}="([-\d.]+)"', text)]


def test_a_frame_maps_its_corners() -> None:
    frame = Frame((0, 2), (10, 20), left=50, right=10, top=20, bottom=40, height=200)
    assert (frame.at_x(0), frame.at_x(2)) == (50, svg.WIDTH - 10)
    assert (frame.at_y(10), frame.at_y(20)) == (160, 20)


@pytest.mark.parametrize(
    ("low", "high", "percent", "texts"),
    [
        (0, 1, True, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (0, 0.011, True, ["0.00 %", "0.25 %", "0.50 %", "0.75 %", "1.00 %"]),
        (0, 3, False, ["0", "1", "2", "3"]),
        (0, 0, False, ["0.0"]),
        (1, 1200, False, ["250", "500", "750", "1,000"]),
    ],
)
def test_ticks_are_round(low: float, high: float, percent: bool, texts: list[str]) -> None:
    written = [text for _, text in svg.ticks(low, high, percent=percent)]
    assert written == texts or len(written) <= 6
    assert all(low - 1e-9 <= value <= high + 1e-9 for value, _ in svg.ticks(low, high, percent=percent))
    assert len(set(written)) == len(written)
    assert not any(text.startswith("-0") for text in written)


def test_labels_are_moved_apart_and_stay_inside() -> None:
    moved = svg.spread([50, 51, 49, 200], (0, 205), least=14)
    assert min(np.diff(sorted(moved))) >= 14
    assert max(svg.spread([98, 99, 100], (0, 100), least=10)) <= 100


def test_risk_and_coverage() -> None:
    risk = np.array([0, 0, 1 / 3, 0.25])
    chart = risk_coverage_chart(risk, aurc=float(risk.mean()), chosen=Operating(0.8, 0.5, 0.0))
    assert "25.0 % of the answers are wrong" in chart.sentence
    assert "threshold 0.800: it answers 50 % of the rows" in chart.sentence
    points = re.findall(r'points="([^"]+)"', chart.drawing)[0].split()
    assert len(points) == 4
    x = [float(point.split(",")[0]) for point in points]
    assert x == sorted(x)
    dot = numbers(re.findall("<circle[^>]+>", chart.drawing)[0], "cx")[0]
    assert dot == pytest.approx(x[1])
    assert "threshold" not in risk_coverage_chart(risk, aurc=0.1, chosen=None).sentence


def test_reliability_tells_its_worst_bin() -> None:
    found = reliability([0.95] * 30 + [0.55] * 10, [True] * 28 + [False] * 2 + [True] * 1 + [False] * 9)
    chart = found.chart()
    assert chart == reliability_chart(
        found.edges, counts=found.counts, confidence=found.confidence, accuracy=found.accuracy, ece=found.ece
    )
    assert "the 10 rows between 50 % and 60 %: confidence 55.0 %, right 10.0 %" in chart.sentence
    assert f"differ by {100 * found.ece:.1f} %" in chart.sentence
    assert len(re.findall("<circle", chart.drawing)) == 2


def test_learning_curves_of_one_epoch_and_of_none_held_out() -> None:
    one = learning_charts([0], {"self": [1.2]}, validated=[], accuracies={"a": [], "b": []}, best_epoch=0)
    assert len(one) == 1
    assert "One epoch was trained; self loss 1.20." in one[0].sentence
    both = learning_charts(
        [0, 1, 2], {"self": [2.0, 1.5, 1.0]}, validated=[0, 2], accuracies={"own value": [0.5, 0.9]}, best_epoch=2
    )
    assert "self 2.00 to 1.00" in both[0].sentence
    assert "Epoch 3 was the best, where 90.0 % by own value" in both[1].sentence


def test_histogram_and_concentration() -> None:
    counts = np.array([1, 2, 2, 3, 200])
    chart = histogram_chart("Prototypes", counts, xlabel="prototypes", sentence="")
    assert 0 < len(re.findall("<rect", chart.drawing)) <= 41
    assert len(re.findall('class="first"', chart.drawing)) == 1
    Reader(str(concentration_chart(np.array([0.5, 0.5, 0.0]), sentence="").drawing))


def test_drawings_escape_what_is_written() -> None:
    assert "<script>" not in svg.words(0, 0, "<script>", "tick")
    assert "<script>" not in svg.drawing('"<script>', [])


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    right = generator.binomial(60, 0.9, size=2000)
    inside = [low <= 0.9 <= high for low, high in (interval(int(k), 60) for k in right)]
    assert 0.92 < np.mean(inside) < 0.98
    assert interval(60, 60)[1] == pytest.approx(1.0)
    assert interval(0, 60)[0] == pytest.approx(0.0)
