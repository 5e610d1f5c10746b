"""Lines about what comes before learning."""

from __future__ import annotations

import pytest

from rlstack.training import counting
from rlstack.training.counting import Counting


def test_says_now_and_then_how_many_are_done_and_when_the_rest_will_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(counting.time, "monotonic", lambda: now[0])
    count = Counting("demonstrations", 3000, held=500)
    count(500)
    now[0] += 9.0
    count(600)
    now[0] += 11.0  # 500 in 20 s, and 2,000 are left
    count(1000)
    now[0] += 1.0
    count(1100)
    assert capsys.readouterr().err == "demonstrations: 1,000 of 3,000, 1:20 left\n"
