"""Whatever happens to a quadruped's guard, in any order: published targets keep every limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.guard import CommonMode
from rlstack.kinds.quadruped.guard import QuadrupedGuard, QuadrupedMode
from rlstack.robots import frames
from tests.kinds.quadruped.test_guard import go1

ROBOT = go1()
CONFIG = QuadrupedGuard(ROBOT).config
LOWER, UPPER = np.array([d.lower for d in ROBOT.drives]), np.array([d.upper for d in ROBOT.drives])
FASTEST = np.array([drive.velocity_max for drive in ROBOT.drives])

times = st.sampled_from([0.0, 0.02, 0.02, 0.02, 0.05, 0.3, -0.05, -5.0, 7.0, math.nan, math.inf])
anything = st.one_of(st.floats(-4.0, 4.0), st.floats(-4.0, 4.0), st.floats())
events = st.lists(
    st.tuples(
        st.sampled_from(["observe", "joints", "policy", "policy", "run", "tick", "missing", "battery", "estop", "arm"]),
        times,
        st.lists(anything, min_size=12, max_size=12).map(np.array),
    ),
    max_size=50,
)


def odometry(roll: float) -> dict[str, Any]:
    none = np.zeros(3)
    turned = frames.from_rotation_vector(np.array([roll, 0.0, 0.0])) if math.isfinite(roll) else np.full(4, roll)
    return {"position": none, "orientation": turned, "linear_velocity": none, "angular_velocity": none}


@settings(deadline=None, max_examples=100)
@given(events, st.booleans())
def test_nothing_unsafe_is_published_whatever_happens(events: list[Any], standing: bool) -> None:
    guard, now = QuadrupedGuard(ROBOT), 0.0
    measured = sent = ROBOT.standing if standing else ROBOT.crouching
    for name, step, numbers in events:
        now += step if math.isfinite(step) else 0.0
        time_s, before = now if math.isfinite(step) else step, guard.mode
        decisions = []
        if name == "observe":
            decisions = [guard.on_observation(time_s, now, odometry(0.3 * numbers[0]))]
        elif name == "joints":
            guard.on_joints(time_s, numbers if numbers[0] > 0.0 else measured)
        elif name == "policy":
            decisions = [guard.on_policy_command(time_s, now, numbers)]
        elif name == "run":
            for _ in range(10):
                now += 0.02
                guard.on_joints(now, measured)
                decisions += [guard.on_observation(now, now, odometry(0.0)), guard.on_policy_command(now, now, numbers)]
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
            guard.on_joints(now, measured)
            guard.on_observation(now, now, odometry(0.0))
            if guard.arm(now)[0] and before.role == "off":
                sent = np.clip(guard._joints, LOWER, UPPER)
                assert guard.mode in (CommonMode.POLICY, QuadrupedMode.RISE)
        for decision in decisions:
            if decision.command is None:
                continue
            command = decision.command
            assert command.shape == (12,) and np.isfinite(command).all()
            if decision.mode in (CommonMode.DISARMED, CommonMode.ESTOP):
                assert not command.any()
                continue
            assert (command >= LOWER - 1e-9).all() and (command <= UPPER + 1e-9).all()
            assert (np.abs(command - sent) <= FASTEST * CONFIG.staleness_s + 1e-4).all()
            sent = measured = command
