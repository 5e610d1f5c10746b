from __future__ import annotations

import io

import pytest
from rich.console import Console

from rlstack.training.progress import ProgressDisplay, describe
from rlstack.training.run_result import Progress

PROGRESS = Progress(
    steps=3_840_000,
    total_steps=7_680_000,
    steps_per_s=380_000.0,
    reward_per_s=-0.28,
    lost_share=0.016,
    success=0.9875,
    seconds=12.0,
    seconds_left=83.0,
)


@pytest.mark.parametrize("columns", [80, 100, 140, 200])
def test_bar_figures_and_estimate_fit_the_terminal(columns: int) -> None:
    shown = io.StringIO()
    with ProgressDisplay(Console(file=shown, force_terminal=True, width=columns)) as display:
        display(PROGRESS)
    lines = [line for line in shown.getvalue().replace("\r", "\n").split("\n") if "98.8%" in line]
    assert lines and "1:23 left" in lines[-1] and "50%" in lines[-1]
    assert "\u2501" in lines[-1]


def test_a_log_has_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay(Console(file=io.StringIO())) as display:
        display(PROGRESS)
    assert capsys.readouterr().err == f" 50%  {describe(PROGRESS)}\n"
    assert "380k/s, return -0.28/s, lost 1.6%, held-out success 98.8%, 1:23 left" in describe(PROGRESS)
