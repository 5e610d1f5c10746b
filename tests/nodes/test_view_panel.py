from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rlstack.nodes.view_panel import state_html


def robot(**more: Any) -> Any:
    usual = {
        "mode": "policy",
        "reason": "armed",
        "distance_m": 0.25,
        "reached": False,
        "command": {"m1": 1000.0, "m2": 500.0},
        "missing": [],
        "seen_at": 99.5,
    }
    return SimpleNamespace(**{**usual, **more})


def test_it_shows_mode_reason_distance_and_commands() -> None:
    shown = state_html(robot(), 100.0)
    assert ">policy</span>" in shown and "armed" in shown and "0.250 m from the goal" in shown
    assert "width:100%;height" in shown and "width:50%;height" in shown
    assert "silent" not in shown and "reached" not in shown


def test_a_robot_that_is_not_heard_any_more_is_silent() -> None:
    assert "silent" in state_html(robot(), 101.0)


def test_nothing_that_others_send_becomes_part_of_the_page() -> None:
    shown = state_html(robot(mode="<b>", reason="<script>", command={"<i>": 1.0}, missing=["<u>"]), 100.0)
    assert not any(tag in shown for tag in ("<b>", "<script>", "<i>", "<u>"))


def test_without_goal_commands_and_guard_there_is_little_to_say() -> None:
    shown = state_html(robot(mode="", reason="", distance_m=float("nan"), command={}), 100.0)
    assert "no guard" in shown and "goal" not in shown
