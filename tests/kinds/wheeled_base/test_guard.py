"""The rules of the wheeled base's guard."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError
from rlstack.guard import CommonMode
from rlstack.kinds import find_kind
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard, WheeledBaseMode
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from tests.kinds.wheeled_base.guard_loop import Rolling, signals, turtlebot, wall_scan

ROBOT = turtlebot()
CONFIG = WheeledBaseGuardConfig.from_robot(ROBOT)
LIDAR = ROBOT.lidars["scan"]
FREE = np.full(LIDAR.rays, LIDAR.range_max_m)
FORWARD = np.array([0.22, 0.0])
FRONT_M = float(ROBOT.corners_m[:, 0].max())


def rolling(wall_x: float = 1e3, seconds: float = 1.0, **changes: Any) -> Rolling:
    """Return a base that has driven forward for a while under its policy."""
    loop = Rolling(WheeledBaseGuard(ROBOT, WheeledBaseGuardConfig.from_robot(ROBOT, **changes)), wall_x)
    loop.arm()
    loop.run(seconds, lambda seen: FORWARD)
    return loop


def test_the_guard_is_found_by_the_kind_of_robot() -> None:
    assert find_kind(ROBOT.kind).load("guard") is WheeledBaseGuard


def test_limits_are_the_robots_own_and_only_tightened() -> None:
    assert CONFIG.linear_velocity_m_s == ROBOT.limits.linear_velocity_m_s
    assert CONFIG.scan_timeout_s == pytest.approx(2.5 / LIDAR.rate_hz)
    with pytest.raises(UserError, match=r"linear_velocity_m_s: 1\.0 is wider than robot 'turtlebot3_burger' allows"):
        WheeledBaseGuardConfig.from_robot(ROBOT, linear_velocity_m_s=1.0)
    with pytest.raises(UserError, match="every number must be above geofence_min_m"):
        WheeledBaseGuardConfig.from_robot(ROBOT, geofence_min_m=(1.0, 1.0), geofence_max_m=(1.0, 2.0))


def test_a_policy_drives_within_the_acceleration_limits() -> None:
    loop = Rolling(WheeledBaseGuard(ROBOT))
    loop.arm()
    loop.run(1.0, lambda seen: [0.22, 2.0])
    steps = np.abs(np.diff([[0.0, 0.0], *loop.commands], axis=0))
    assert loop.guard.mode is CommonMode.POLICY
    assert steps[:, 0].max() == pytest.approx(0.1)  # 1 m/s^2 for 0.1 s
    assert steps[:, 1].max() == pytest.approx(0.6)
    np.testing.assert_allclose(loop.commands[-1], [0.22, 2.0])


def test_commands_beyond_the_limits_are_held_to_them() -> None:
    loop = Rolling(WheeledBaseGuard(ROBOT))
    loop.arm()
    loop.run(1.0, lambda seen: [-5.0, 50.0])
    np.testing.assert_allclose(loop.commands[-1], [-0.22, 2.84])
    assert loop.guard.mode is CommonMode.POLICY


@pytest.mark.parametrize("bad", [[math.nan, 0.0], [0.1], [0.1, 0.0, 0.0], ["fast", 1], [math.inf, 0.0]])
def test_a_malformed_command_stops_the_robot_for_good(bad: Any) -> None:
    loop = rolling()
    loop.run(0.1, lambda seen: bad)
    assert loop.guard.mode is WheeledBaseMode.STOP
    loop.run(3.0, lambda seen: FORWARD)
    assert loop.guard.mode is CommonMode.DISARMED
    assert not loop.command.any()


def test_a_late_policy_is_stopped_for_gently_and_drives_again_once_it_is_in_time() -> None:
    loop = rolling()
    loop.run(1.0, None)
    assert loop.guard.mode is WheeledBaseMode.STOP
    steps = np.abs(np.diff(loop.commands, axis=0))
    assert steps[:, 0].max() <= 0.1 + 1e-9
    assert not loop.command.any()
    loop.run(1.0, lambda seen: FORWARD)
    assert loop.guard.mode is WheeledBaseMode.STOP
    loop.run(0.5, lambda seen: FORWARD)
    assert loop.guard.mode is CommonMode.POLICY
    assert loop.guard.interventions == 1


def test_a_policy_that_stays_away_is_waited_for_only_so_long() -> None:
    loop = rolling(stand_before_disarming_s=2.0)
    loop.run(4.0, None)
    assert loop.guard.mode is CommonMode.DISARMED
    loop.run(2.0, lambda seen: FORWARD)
    assert loop.guard.mode is CommonMode.DISARMED


def test_asked_to_end_it_brakes_as_it_may_and_is_off_once_it_stands() -> None:
    loop = rolling()
    began_s, guard = loop.time_s, loop.guard
    decision = guard.end(loop.time_s, "asked to end by SIGTERM")
    assert decision.mode is WheeledBaseMode.STOP and decision.command is not None and decision.command[0] > 0.0
    while guard.mode is not CommonMode.DISARMED and not guard.rest_is_late(loop.time_s):
        loop.run(0.1, lambda seen: np.array([0.2, 0.0]))
    assert guard.mode is CommonMode.DISARMED and guard.reason == "asked to end by SIGTERM"
    assert loop.time_s - began_s < guard.config.rest_within_s and not loop.motion.any()


def test_a_command_for_an_old_observation_is_dropped() -> None:
    loop = rolling()
    old = loop.time_s - 0.3
    decision = loop.guard.on_policy_command(loop.time_s, old, FORWARD)
    assert decision.command is None and "goes back" in decision.reason


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"x": 0.7}, "odometry jumped by 0.[45]. m in 0.100 s"),
        ({"yaw": 1.0}, "odometry jumped by 1.00 rad"),
        ({"speed": 0.5}, "speed 0.50 m/s is over 0.33 m/s"),
        ({"turning": -5.0}, "angular velocity 5.00 rad/s is over 4.26 rad/s"),
        ({"tilt": 0.5}, "tilt 0.50 rad is over 0.35 rad"),
    ],
)
def test_what_cannot_be_or_may_not_be_stops_the_robot_for_good(seen: dict[str, float], words: str) -> None:
    loop = rolling()
    now = loop.time_s
    at = {"x": loop.pose[0], "speed": 0.22, **seen}
    decision = loop.guard.on_observation(now, now, signals(**at))
    assert loop.guard.mode is WheeledBaseMode.STOP
    assert re.search(words, decision.reason), decision.reason
    assert decision.command is not None and decision.command[0] < 0.22
    loop.pose[0] = at["x"]
    loop.time_s += 0.1
    loop.run(3.0, lambda seen: FORWARD)
    assert loop.guard.mode is CommonMode.DISARMED


def test_odometry_that_goes_as_fast_as_it_says_has_not_jumped() -> None:
    loop = rolling(seconds=5.0)
    assert loop.guard.mode is CommonMode.POLICY and loop.pose[0] > 0.9


def test_a_stop_needs_no_odometry() -> None:
    loop = rolling()
    loop.mute_odometry = True
    loop.run(1.0, lambda seen: FORWARD)
    assert loop.guard.mode is WheeledBaseMode.STOP and "no valid observation" in loop.guard.reason
    assert not loop.command.any()


def test_without_scans_the_robot_stops_and_says_so_and_is_not_armed() -> None:
    loop = rolling()
    loop.mute_scan = True
    loop.run(1.5, lambda seen: FORWARD)
    assert loop.guard.mode is WheeledBaseMode.STOP and "no valid scan" in loop.guard.reason
    loop.guard.disarm("test")
    assert loop.guard.arm(loop.time_s)[1].startswith("no valid scan within")
    loop.mute_scan = False
    loop.arm()


@pytest.mark.parametrize("bad", [FREE[:100], np.full(LIDAR.rays, np.nan), "scan", None])
def test_a_malformed_scan_is_none(bad: Any) -> None:
    guard = WheeledBaseGuard(ROBOT)
    guard.on_observation(0.0, 0.0, signals())
    guard.on_scan(0.0, 0.0, bad)
    armed, why = guard.arm(0.0)
    assert not armed and re.search(r"the scan (has|is)", why)


def test_the_robot_brakes_before_a_wall_whatever_the_policy_says() -> None:
    loop = rolling(wall_x=0.8, seconds=8.0)
    gap = 0.8 - loop.pose[0] - FRONT_M
    assert loop.guard.mode is CommonMode.POLICY  # it still drives, away from there if it likes
    assert ROBOT.radius_m - FRONT_M < gap < 0.2  # room to turn
    assert not loop.command.any()
    assert any("something is" in decision.blocked for decision in loop.decisions)
    assert np.abs(np.diff(loop.commands, axis=0))[:, 0].max() <= 0.1 + 1e-9


def test_backing_off_and_turning_away_are_never_blocked() -> None:
    loop = rolling(wall_x=0.8, seconds=8.0)
    x = loop.pose[0]
    loop.run(1.0, lambda seen: [0.0, 2.0])
    assert loop.commands[-1][1] == pytest.approx(2.0)
    loop = rolling(wall_x=0.8, seconds=8.0)
    loop.run(1.0, lambda seen: [-0.2, 0.0])
    assert loop.pose[0] < x - 0.1


def test_something_that_steps_in_the_way_is_braked_for_between_two_commands() -> None:
    loop = rolling()
    now = loop.time_s - 0.04
    decision = loop.guard.on_scan(now, now, wall_scan(LIDAR, *loop.pose, loop.pose[0] + FRONT_M + 0.05))
    assert decision.command is not None and decision.command[0] < 0.2 and decision.clipped
    assert loop.guard.mode is CommonMode.POLICY


def test_a_scan_that_shows_nothing_near_leaves_the_rate_limit_alone() -> None:
    """Looking again at each scan must not eat up the acceleration that the next command may use."""
    loop = Rolling(WheeledBaseGuard(ROBOT))
    loop.arm()
    guard = loop.guard
    guard.on_policy_command(0.0, 0.0, FORWARD)
    guard.on_observation(0.05, 0.05, signals())
    guard.on_scan(0.09, 0.09, FREE)
    guard.on_observation(0.1, 0.1, signals())
    first, second = 0.05, guard.on_policy_command(0.1, 0.1, FORWARD).command
    assert second is not None and second[0] >= first + 0.1 - 1e-9


def test_stops_are_at_once_and_last() -> None:
    loop = rolling()
    decision = loop.guard.estop("asked to")
    assert decision.command is not None and not decision.command.any()
    assert not loop.guard.arm(loop.time_s)[0]
    loop.run(0.5, lambda seen: FORWARD)
    assert not loop.command.any()
    assert loop.guard.clear_estop()[0] and loop.guard.mode is CommonMode.DISARMED
    loop.arm()


class Fixed:
    """A planner that always says the same."""

    inputs = ("position", "scan", "goal_position")
    outputs = ("twist",)

    def __init__(self, twist: Any) -> None:
        self.twist, self.resets = twist, 0

    def reset(self, batch: int = 1) -> None:
        self.resets += 1

    def step(self, inputs: dict[str, Any]) -> dict[str, Any]:
        assert inputs["scan"].shape == (1, LIDAR.rays) and inputs["goal_position"].shape == (1, 3)
        return {"twist": np.array(self.twist)}


def driven_by(driver: Fixed, *, goal: bool = True) -> Rolling:
    loop = Rolling(WheeledBaseGuard(ROBOT, planner=driver))
    loop.arm()
    if goal:
        loop.guard.on_signals({"goal_position": np.array([3.0, 0.0, 0.0])})
    loop.run(1.0, lambda seen: FORWARD)
    return loop


def test_a_planner_drives_while_the_policy_is_late() -> None:
    driver = Fixed([[0.1, 0.5]])
    loop = driven_by(driver)
    loop.run(1.0, None)
    assert loop.guard.mode is WheeledBaseMode.FALLBACK and driver.resets == 1
    np.testing.assert_allclose(loop.command, [0.1, 0.5])
    loop.run(1.5, lambda seen: FORWARD)
    assert loop.guard.mode is CommonMode.POLICY


def test_the_dynamic_window_takes_the_robot_to_its_goal_where_the_policy_has_failed() -> None:
    loop = Rolling(WheeledBaseGuard(ROBOT, planner=PLANNERS.load("dwa")(ROBOT)))
    loop.arm()
    loop.guard.on_signals({"goal_position": np.array([0.6, 0.3, 0.0])})
    loop.run(0.3, lambda seen: FORWARD)
    loop.run(10.0, lambda seen: [math.nan, 0.0])
    assert loop.guard.mode is WheeledBaseMode.FALLBACK and loop.guard.interventions == 1
    assert math.dist(loop.pose[:2], (0.6, 0.3)) < 0.12
    steps = np.abs(np.diff(loop.commands, axis=0)).max(axis=0)
    assert steps[0] <= 0.1 + 1e-9 and steps[1] <= 0.6 + 1e-9


@pytest.mark.parametrize(
    ("twist", "goal", "words"),
    [
        ([[0.1, 0.5]], False, "lacks goal_position"),
        ([[math.nan, 0.0]], True, "not two finite"),
        ([0.1], True, "not two"),
    ],
)
def test_a_planner_that_cannot_leaves_the_robot_stopped(twist: Any, goal: bool, words: str) -> None:
    loop = driven_by(Fixed(twist), goal=goal)
    loop.run(1.0, None)
    assert loop.guard.mode is WheeledBaseMode.STOP and words in loop.guard.reason
    assert not loop.command.any()


def test_no_planner_drives_where_a_limit_is_broken() -> None:
    loop = driven_by(Fixed([[0.1, 0.5]]))
    loop.pose[0] += 2.0
    loop.run(0.1, lambda seen: FORWARD)
    assert loop.guard.mode is WheeledBaseMode.STOP and "jumped" in loop.guard.reason


times = st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.1, 0.1, 0.5, -0.05, -5.0, 20.0, math.nan])
numbers = st.one_of(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats())
events = st.lists(
    st.tuples(
        st.sampled_from(["observe", "observe", "scan", "policy", "policy", "tick", "missing", "arm", "estop", "clear"]),
        times,
        st.tuples(numbers, numbers, numbers, numbers),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(events, st.booleans())
def test_nothing_unsafe_is_published_whatever_happens(events: list[Any], near: bool) -> None:
    guard, now, sent, sent_at, forward = WheeledBaseGuard(ROBOT), 0.0, np.zeros(2), 0.0, 0.0
    rates = np.array([CONFIG.linear_acceleration_m_s2, CONFIG.angular_acceleration_rad_s2])
    scan = np.full(LIDAR.rays, 0.16) if near else FREE
    for name, step, (a, b, c, d) in events:
        now += 0.0 if math.isnan(step) else step
        forward += max(0.0, 0.0 if math.isnan(step) else step)
        time_s = math.nan if math.isnan(step) else now
        before, decision = guard.mode, None
        if name == "observe":
            decision = guard.on_observation(time_s, now, signals(a, b, c if math.isfinite(c) else 0.0, d))
        elif name == "scan":
            decision = guard.on_scan(time_s, now, scan)
        elif name == "policy":
            decision = guard.on_policy_command(time_s, now, np.array([a, b]))
        elif name == "tick":
            decision = guard.on_tick(time_s)
        elif name == "missing":
            decision = guard.policy_missing(time_s)
        elif name == "estop":
            decision = guard.estop("test")
        elif name == "clear":
            guard.clear_estop()
        elif guard.arm(time_s)[0] and before is CommonMode.DISARMED:
            sent, sent_at = None, forward
        if decision is None or decision.command is None:
            continue
        command = decision.command
        assert command.shape == (2,) and np.isfinite(command).all()
        assert (np.abs(command) <= [0.22 + 1e-12, 2.84 + 1e-12]).all()
        if decision.mode in (CommonMode.DISARMED, CommonMode.ESTOP):
            assert not command.any()
        elif sent is not None:
            assert (np.abs(command - sent) <= rates * (forward - sent_at) + 1e-6).all()
        sent, sent_at = command, forward


def test_a_scan_that_is_repeated_does_not_count_as_new() -> None:
    guard = WheeledBaseGuard(ROBOT)
    lidar = guard.protective_stop.lidar
    assert lidar is not None
    free = wall_scan(lidar, 0.0, 0.0, 0.0, 1e3)
    guard.on_observation(0.0, 0.0, signals())
    guard.on_scan(0.0, 0.0, free)
    assert guard.arm(0.0)[0]
    late_s, t = guard.config.scan_timeout_s, 0.0
    while guard.mode is CommonMode.POLICY:
        t += 0.05
        guard.on_scan(t, 0.0, free)
        guard.on_observation(t, t, signals())
        guard.on_policy_command(t, t, np.zeros(2))
    assert guard.mode is WheeledBaseMode.STOP and "scan" in guard.reason
    assert late_s < t <= late_s + 0.1
