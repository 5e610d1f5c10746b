"""Whatever happens to an arm's guard, in any order: published targets keep every limit."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.guard import CommonMode
from rlstack.kinds.manipulator.guard import ManipulatorGuard
from tests.kinds.manipulator.guard_loop import panda

ROBOT = panda()
GUARD = ManipulatorGuard(ROBOT)
CONFIG, BODY = GUARD.config, GUARD.body
REST = np.array([drive.rest for drive in ROBOT.drives])
LOWER, UPPER = np.array([d.lower for d in ROBOT.drives]), np.array([d.upper for d in ROBOT.drives])
FASTEST = np.array([drive.velocity_max for drive in ROBOT.drives])

times = st.sampled_from([0.0, 0.01, 0.01, 0.01, 0.03, 0.05, 0.3, -0.05, -5.0, 12.0, math.nan, math.inf])
anything = st.one_of(st.floats(-4.0, 4.0), st.floats(-4.0, 4.0), st.floats())
events = st.lists(
    st.tuples(
        st.sampled_from(
            ["observe", "observe", "policy", "policy", "run", "tick", "missing", "battery", "estop", "arm"]
        ),
        times,
        st.lists(anything, min_size=9, max_size=9).map(np.array),
        st.sampled_from(["near", "near", "near", "anything", "short", "empty"]),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(events)
def test_nothing_unsafe_is_published_whatever_happens(events: list[Any]) -> None:
    guard, now, sent = copy.deepcopy(GUARD), 0.0, REST  # a new one takes its time to fit capsules
    measured = REST.copy()
    path = []
    for name, step, numbers, what in events:
        now += step if math.isfinite(step) else 0.0
        time_s = now if math.isfinite(step) else step
        given = {"near": measured + 0.02 * np.tanh(np.nan_to_num(numbers)), "short": numbers[:3], "empty": np.array([])}
        values, before, decisions = given.get(what, numbers), guard.mode, []
        seen = {"joint_position": values, "joint_velocity": np.zeros(len(values))}
        if name == "observe":
            decisions = [guard.on_observation(time_s, now, seen)]
        elif name == "policy":
            decisions = [guard.on_policy_command(time_s, now, values)]
        elif name == "run":  # as it should be, so that the policy's mode is reached and lasts
            for _ in range(8):
                now += 0.01
                good = {"joint_position": measured, "joint_velocity": np.zeros(9)}
                decisions += [guard.on_observation(now, now, good), guard.on_policy_command(now, now, numbers)]
        elif name == "tick":
            decisions = [guard.on_tick(time_s)]
        elif name == "missing":
            decisions = [guard.policy_missing(time_s)]
        elif name == "battery":
            guard.on_battery(time_s, *numbers[:2])
        elif name == "estop":
            decisions = [guard.estop("test")]
        else:
            guard.clear_estop()
            guard.on_observation(now, now, {"joint_position": measured, "joint_velocity": np.zeros(9)})
            if guard.arm(now)[0] and before.role == "off":
                sent = np.clip(guard._newest.position, LOWER, UPPER)
        for decision in decisions:
            if decision.command is None:
                continue
            command = decision.command
            assert command.shape == (9,) and np.isfinite(command).all()
            if decision.mode in (CommonMode.DISARMED, CommonMode.ESTOP):
                assert not command.any()
                continue
            assert (command >= LOWER - 1e-9).all() and (command <= UPPER + 1e-9).all()
            assert (np.abs(command - sent) <= 1.01 * FASTEST * CONFIG.window_s + 1e-6).all()
            measured = np.clip(0.5 * (measured + command), LOWER, UPPER)
            sent = command
            path.append(command)
    if path:  # it began inside of the workspace and clear of itself
        tools, gap = BODY.place(np.array(path))
        assert (tools >= np.array(CONFIG.workspace_min_m) - 1e-6).all()
        assert (tools <= np.array(CONFIG.workspace_max_m) + 1e-6).all()
        assert gap.min() >= CONFIG.apart_m - 1e-6


def test_the_guard_commands_in_such_sequences() -> None:
    """The property above would hold of a guard that never publishes."""
    guard, now = copy.deepcopy(GUARD), 0.0
    good = {"joint_position": REST, "joint_velocity": np.zeros(9)}
    guard.on_observation(now, now, good)
    assert guard.arm(now)[0]
    for _ in range(8):
        now += 0.01
        guard.on_observation(now, now, good)
        assert guard.on_policy_command(now, now, np.full(9, 4.0)).command is not None
