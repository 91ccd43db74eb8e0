"""Progress where nobody watches a terminal: a line now and then, on standard error."""

from __future__ import annotations

import pytest

from protoattend.training import progress
from protoattend.training.progress import counting_bar


def test_a_line_every_half_minute_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with counting_bar(1, 100, "reading [files]") as show:
        for done in range(1, 101):
            now += 1.0
            show(done)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"reading [files]: {done}/100" for done in (30, 60, 90)]


def test_a_short_work_says_nothing_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose, expected in ((0, ""), (1, ""), (2, "fetching: 5/7\n")):
        with counting_bar(verbose, None, "fetching") as show:
            show(5, 7)
        assert capsys.readouterr().err == expected
