"""Limits of an arm that are tightened while it moves, beyond where it is: it slows down and only moves back."""

from __future__ import annotations

import numpy as np

from rlstack.guard import CommonMode
from rlstack.guard.tightening import LiveLimits
from tests.kinds.manipulator.test_guard import BODY, FASTEST, REST, armed, moved


def test_lower_speeds_of_joints_and_tool_apply_at_once() -> None:
    loop = armed()
    limits = LiveLimits(loop.guard)
    loop.run(0.5, lambda seen: moved(j1=1.5))
    limits.change({"joint_speed": 0.1})
    slow = len(loop.sent)
    loop.run(0.5, lambda seen: moved(j1=1.5))
    gone = np.diff([target[0] for target in loop.sent[slow - 1 :]])
    assert gone.sum() <= 0.1 * FASTEST[0] * (0.5 + loop.guard.config.window_s) + 1e-6 and gone.sum() > 0.05
    limits.change({"tool_velocity_m_s": 0.05, "joint_speed": 1.0})
    slow = len(loop.sent)
    loop.run(0.5, lambda seen: moved(j1=1.5))
    tools = BODY.place(np.array(loop.sent[slow - 1 :]))[0][:, 0]
    way_m = float(np.linalg.norm(np.diff(tools, axis=0), axis=1).sum())
    assert 0.01 < way_m <= 0.05 * (0.5 + loop.guard.config.window_s) * 1.01
    assert loop.guard.mode is CommonMode.POLICY and loop.guard.interventions == 0


def test_a_longer_time_to_speed_up_makes_it_gentler() -> None:
    def first_step(speed_up_s: float) -> float:
        loop = armed()
        LiveLimits(loop.guard).change({"speed_up_s": speed_up_s})
        loop.run(0.05, lambda seen: moved(j1=1.5))
        return float(loop.sent[-1][0] - REST[0])

    assert first_step(0.6) < 0.5 * first_step(0.15)


def test_a_tool_outside_a_smaller_workspace_only_moves_back_in() -> None:
    loop = armed()
    loop.run(1.0, lambda seen: moved(j1=0.8))
    tool = BODY.place(loop.sent[-1][None])[0][0, 0]
    low, high = loop.guard.config.workspace_min_m, loop.guard.config.workspace_max_m
    top = (high[0], float(tool[1]) - 0.15, high[2])
    LiveLimits(loop.guard).change({"workspace_max_m": top})
    assert low[1] < top[1]
    outside = len(loop.sent)
    loop.run(0.5, lambda seen: moved(j1=1.2))
    ys = BODY.place(np.array(loop.sent[outside:]))[0][:, 0, 1]
    assert ys.max() <= tool[1] + 1e-6  # no further out
    loop.run(2.0, lambda seen: REST)
    assert loop.guard.mode is CommonMode.POLICY and loop.guard.interventions == 0
    loop.run(2.0, lambda seen: moved(j1=0.8))
    assert BODY.place(loop.sent[-1][None])[0][0, 0, 1] <= top[1] + 1e-6
