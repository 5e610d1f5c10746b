"""What a person sees while a run learns."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from rlstack.training import progress as module
from rlstack.training.progress import ProgressDisplay, describe
from rlstack.training.run import Progress

HALF = Progress(
    steps=1_500_000,
    total_steps=3_000_000,
    steps_per_s=81_234.0,
    reward_per_s=1.234,
    lost_share=0.031,
    success=0.876,
    seconds=20.0,
    seconds_left=75.0,
)


def test_a_line_says_speed_return_success_and_time_left() -> None:
    line = describe(HALF)
    for part in ("1.50M steps", "81k/s", "return 1.23/s", "lost 3.1%", "success 87.6%", "1:15 left"):
        assert part in line
    assert "success -," in describe(replace(HALF, success=None))
    assert describe(replace(HALF, steps=3_000_000)).endswith("writing the policy")


def test_without_a_terminal_there_is_a_line_now_and_then_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINE_EVERY_S", 3600.0)
    with ProgressDisplay(Console(file=io.StringIO(), force_terminal=False)) as display:
        for _ in range(5):
            display(HALF)
        display(replace(HALF, steps=3_000_000))
    lines = capsys.readouterr().err.splitlines()
    assert [line[:4] for line in lines] == [" 50%", "100%"]


def test_on_a_terminal_there_is_a_bar() -> None:
    screen = io.StringIO()
    with ProgressDisplay(Console(file=screen, force_terminal=True, width=160)) as display:
        assert display(HALF) is None
    assert "50%" in screen.getvalue() and "return 1.23/s" in screen.getvalue()
