"""Whatever happens, in any order: nothing unsafe is published."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from rlstack.guard import CommonMode, Decision, Mode
from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.robots import frames
from tests.support import robots

NAN, INF = math.nan, math.inf
steps = st.one_of(
    st.sampled_from([0.0, 0.002, 0.01, 0.01, 0.01, 0.05, 0.3, 6.0, -0.001, -0.1, -50.0]),
    st.sampled_from([NAN, INF, -INF, 1e300, -1e300]),
    st.floats(-1.0, 1.0),
)
offsets = st.one_of(st.just(0.0), st.sampled_from([-0.005, -0.03, -1.0, 0.005, 0.5, NAN, INF]), st.floats(-0.1, 0.1))
anything = st.one_of(
    st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 1e308, -1e308, 5e-324]),
    st.floats(-10.0, 10.0),
    st.floats(allow_nan=True, allow_infinity=True),
)


def arrays(size: int, elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return st.lists(elements, min_size=size, max_size=size).map(np.array)


speeds = st.one_of(
    arrays(4, st.floats(-500.0, 3000.0)),
    arrays(4, st.floats(0.0, 2272.0)),
    arrays(4, anything),
    st.sampled_from([np.ones(3), np.ones((4, 1)), np.array(1.0), None, "full speed", np.array(["a"] * 4), [1, 2]]),
)
usual = st.fixed_dictionaries(
    {
        "position": arrays(3, st.floats(-0.5, 2.5)),
        "orientation": arrays(3, st.floats(-0.5, 0.5)).map(frames.from_rotation_vector),
        "linear_velocity": arrays(3, st.floats(-1.0, 1.0)),
        "angular_velocity": arrays(3, st.floats(-3.0, 3.0)),
    }
)
wild = st.fixed_dictionaries(
    {},
    optional={
        "position": arrays(3, anything),
        "orientation": arrays(4, anything),
        "linear_velocity": arrays(3, anything),
        "angular_velocity": st.one_of(arrays(3, anything), arrays(2, anything), st.none()),
    },
)


class AnySequence(RuleBasedStateMachine):
    robot = robots.large()  # its least rotor speed is not zero

    def __init__(self) -> None:
        super().__init__()
        self.config = QuadrotorGuardConfig.from_robot(self.robot, hover_before_landing_s=0.5, recover_after_s=0.05)
        self.guard = QuadrotorGuard(self.robot, self.config)
        self.time_s = 0.0
        self.newest_s = 0.0
        self.elapsed_s = 0.0  # an upper bound: all steps forward
        self.sent: np.ndarray | None = None
        self.sent_at_s = 0.0

    def pass_time(self, step: float) -> float:
        """Return the time to pass in; times that are no times are passed in once and forgotten."""
        time_s = self.time_s + step
        if not abs(time_s) < 1e11:
            return time_s
        self.time_s = time_s
        self.newest_s = max(self.newest_s, time_s)
        self.elapsed_s += max(0.0, step)
        return time_s

    def judge(self, before: Mode, decision: Decision) -> None:
        assert decision.mode is self.guard.mode
        assert decision.changed == (before is not decision.mode)
        assert decision.reason
        assert math.isfinite(decision.stamp_s)
        if before is CommonMode.ESTOP:
            assert decision.mode is CommonMode.ESTOP
        if decision.command is None:
            return
        command = decision.command
        assert command.shape == (4,)
        assert np.all(np.isfinite(command))
        if decision.mode in (CommonMode.DISARMED, CommonMode.ESTOP):
            assert np.all(command == 0.0)
            self.sent = None
            return
        low, high = map(np.array, command_range(self.robot, command_of(self.robot).name))
        assert np.all(command >= low)
        assert np.all(command <= high)
        if self.sent is not None:
            step = self.changes() * (self.elapsed_s - self.sent_at_s)
            assert np.all(np.abs(command - self.sent) <= step * (1.0 + 1e-6) + 1e-6)
        self.sent, self.sent_at_s = command, self.elapsed_s

    def changes(self) -> np.ndarray:
        """Return the fastest change of each element of a command, per second."""
        if (loop := self.robot.rate_loop) is None:
            return np.full(4, self.config.rotor_acceleration_rad_s2)
        return np.array([*[loop.rate_change_rad_s2] * 3, loop.thrust_change_m_s3])

    @rule(step=steps, offset=offsets, signals=st.one_of(usual, usual, usual, wild))
    def observation(self, step: float, offset: float, signals: dict[str, Any]) -> None:
        time_s, before = self.pass_time(step), self.guard.mode
        self.judge(before, self.guard.on_observation(time_s, time_s + offset, signals))

    @rule(step=steps, offset=offsets, command=speeds)
    def policy(self, step: float, offset: float, command: Any) -> None:
        time_s, before = self.pass_time(step), self.guard.mode
        self.judge(before, self.guard.on_policy_command(time_s, time_s + offset, command))

    @rule(signals=usual, command=arrays(4, st.floats(0.0, 2272.0)), count=st.integers(1, 30))
    def flight(self, signals: dict[str, Any], command: np.ndarray, count: int) -> None:
        """Fly a while as it should be, so that the later modes are reached."""
        for _ in range(count):
            time_s, before = self.pass_time(0.005), self.guard.mode
            self.judge(before, self.guard.on_observation(time_s, time_s, signals))
            before = self.guard.mode
            self.judge(before, self.guard.on_policy_command(time_s, time_s, command))

    @rule(step=steps)
    def tick(self, step: float) -> None:
        time_s, before = self.pass_time(step), self.guard.mode
        self.judge(before, self.guard.on_tick(time_s))

    @rule(step=steps)
    def missing(self, step: float) -> None:
        time_s, before = self.pass_time(step), self.guard.mode
        self.judge(before, self.guard.policy_missing(time_s))

    @rule(step=st.sampled_from([0.0, 0.001]), signals=usual)
    def arm(self, step: float, signals: dict[str, Any]) -> None:
        self.observation(0.01, 0.0, signals)
        before = self.guard.mode
        armed, why = self.guard.arm(self.pass_time(step))
        assert why
        if before is CommonMode.ESTOP:
            assert not armed
        if not armed:
            assert self.guard.mode is before
        elif before is CommonMode.DISARMED:
            assert self.guard.mode in (QuadrotorMode.TAKEOFF, CommonMode.POLICY)
            self.sent = None

    @rule()
    def disarm(self) -> None:
        before = self.guard.mode
        self.judge(before, self.guard.disarm("test"))
        assert self.guard.mode in (CommonMode.DISARMED, CommonMode.ESTOP)

    @rule()
    def estop(self) -> None:
        before = self.guard.mode
        self.judge(before, self.guard.estop("test"))
        assert self.guard.mode is CommonMode.ESTOP

    @precondition(lambda self: self.guard.mode is CommonMode.ESTOP)
    @rule()
    def clear(self) -> None:
        assert self.guard.clear_estop()[0]
        assert self.guard.mode is CommonMode.DISARMED


class AnySequenceByRates(AnySequence):
    robot = robots.under_an_autopilot("x500")


AnySequence.TestCase.settings = settings(deadline=None, max_examples=100, stateful_step_count=30)
AnySequenceByRates.TestCase.settings = settings(deadline=None, max_examples=50, stateful_step_count=30)
test_no_rates_are_unsafe_whatever_happens = AnySequenceByRates.TestCase
test_nothing_unsafe_is_published_whatever_happens = AnySequence.TestCase
