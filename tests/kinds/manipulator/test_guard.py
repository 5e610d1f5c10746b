"""The rules of the arm's guard."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.guard import CommonMode
from rlstack.kinds import find_kind
from rlstack.kinds.manipulator.guard import ManipulatorGuard, ManipulatorMode
from rlstack.kinds.manipulator.guard_collision import CollisionModel
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.guard_limits import ManipulatorTargetLimiter
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from tests.kinds.manipulator.guard_loop import Following, panda

ROBOT = panda()
BODY = CollisionModel(ROBOT)
CONFIG = ManipulatorGuardConfig.from_robot(ROBOT)
REST = np.array([drive.rest for drive in ROBOT.drives])
LOWER, UPPER = np.array([d.lower for d in ROBOT.drives]), np.array([d.upper for d in ROBOT.drives])
FASTEST = np.array([drive.velocity_max for drive in ROBOT.drives])


def guard(**changes: Any) -> ManipulatorGuard:
    return ManipulatorGuard(ROBOT, ManipulatorGuardConfig.from_robot(ROBOT, **changes))


def moved(**joints: float) -> np.ndarray:
    target = REST.copy()
    for name, by in joints.items():
        target[int(name[1:]) - 1] += by
    return target


def armed(every: int = 1, position: np.ndarray | None = None, **changes: Any) -> Following:
    loop = Following(guard(**changes), position, every)
    loop.arm()
    loop.run(0.1, lambda seen: loop.position if position is not None else REST)
    return loop


def test_the_guard_is_found_by_the_kind() -> None:
    assert find_kind(ROBOT.kind).load("guard") is ManipulatorGuard


def test_two_arms_on_one_table_are_kept_from_each_other() -> None:
    pair = load_robot("panda_pair")
    assert isinstance(pair, Manipulator)
    both = ManipulatorGuard(pair)
    rest = np.array([drive.rest for drive in pair.drives])
    tools, gap = both.body.place(rest[None])
    np.testing.assert_allclose(tools[0, 0] - tools[0, 1], (0.0, 0.6, 0.0), atol=1e-9)
    assert gap[0] > 0.05 and both.notes == "" and both.body.arm.tolist() == [*range(7), *range(9, 16)]
    loop = Following(both, rest)
    loop.arm()
    names = [drive.name for drive in pair.drives]
    towards = rest.copy()
    towards[names.index("left_panda_joint1")], towards[names.index("right_panda_joint1")] = -1.2, 1.2
    assert both.body.place(towards[None])[1][0] < 0.0
    loop.run(2.0, lambda seen: towards)
    assert both.body.place(np.array(loop.sent))[1].min() >= CONFIG.apart_m - 1e-9
    assert any("self-collision" in decision.held_for for decision in loop.decisions)
    assert loop.sent[-1][names.index("left_panda_joint1")] < -0.2


def test_limits_are_the_robots_own_and_only_tightened() -> None:
    assert CONFIG.workspace_max_m == ROBOT.limits.workspace_max_m
    with pytest.raises(UserError, match=r"tool_velocity_m_s: 3\.0 is wider than robot 'panda' allows"):
        ManipulatorGuardConfig.from_robot(ROBOT, tool_velocity_m_s=3.0)
    with pytest.raises(UserError, match=r"joint_speed: 2\.0 is wider"):
        ManipulatorGuardConfig.from_robot(ROBOT, joint_speed=2.0)
    with pytest.raises(UserError, match="every number must be above workspace_min_m"):
        ManipulatorGuardConfig.from_robot(ROBOT, workspace_min_m=(0.5, 0.0, 0.1), workspace_max_m=(0.4, 0.1, 0.2))


def test_what_a_policy_slower_than_the_guard_commands_within_the_limits_passes_as_it_is() -> None:
    loop = armed(every=5)
    path = iter(REST + np.outer(np.arange(1, 40), moved(j1=0.02, j4=0.01) - REST))
    loop.run(1.5, lambda seen: next(path))
    assert loop.guard.mode is CommonMode.POLICY and not any(decision.clipped for decision in loop.decisions)
    assert np.diff(loop.sent[-20:], axis=0)[:, 0].max() == pytest.approx(0.02)  # at once, not smoothed


def test_a_command_beyond_speed_or_acceleration_is_slowed_and_said_so() -> None:
    loop = armed(speed_up_s=0.0)
    loop.run(0.5, lambda seen: moved(j1=1.5, j2=0.2))
    gone = np.array(loop.sent)[:, :2] - REST[:2]
    assert np.abs(np.diff(gone[:, 0])).max() <= 2.175 * (CONFIG.window_s + 0.011)
    assert gone[-1, 0] == pytest.approx(2.175 * (0.5 + CONFIG.window_s), abs=0.03)
    np.testing.assert_allclose(gone[:, 1], gone[:, 0] * 0.2 / 1.5, atol=1e-9)  # the tool keeps its way
    assert any(decision.clipped and "joint speed" in decision.held_for for decision in loop.decisions)
    slow = armed(speed_up_s=0.4)
    slow.run(0.2, lambda seen: moved(j1=1.5))
    speed_up, window = 2.175 / 0.4, CONFIG.window_s  # rad/s^2, and what it may have made up for before
    assert 0.5 * speed_up * 0.2**2 < slow.sent[-1][0] - REST[0] <= 0.5 * speed_up * (0.2 + window) * (0.2 + 2 * window)
    assert any("joint acceleration" in decision.held_for for decision in slow.decisions)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("rate_hz", [10, 20, 25, 50, 100])
def test_a_policy_of_any_rate_gets_all_of_the_joints_speed(rate_hz: int, repeated: bool) -> None:
    """In lock step a command is said again in every period, in real time once."""
    every = 100 // rate_hz
    limiter = ManipulatorTargetLimiter(ROBOT, ManipulatorGuardConfig.from_robot(ROBOT, window_s=1.2 / rate_hz), BODY)
    target = moved(j1=-2.0)
    limiter.start(0.0, target)
    speed, reasons = 0.0, set()
    for k in range(1, 151):
        if k % every == 0:
            speed = min(speed + FASTEST[0] / rate_hz / 0.2, FASTEST[0])  # gentler than it must be
            target[0] += speed / rate_hz
        if k % every == 0 or repeated:
            held, _, _, why = limiter.pass_on(0.01 * k, target, target, np.zeros(9))
            reasons.add(why)
    np.testing.assert_allclose(held, target, atol=1e-9)
    assert reasons == {""} and speed == FASTEST[0]


STRETCHED = np.array([0.0, 0.6, 0.0, -0.9, 0.0, 1.6, 0.78, *REST[7:]])


@pytest.mark.parametrize("limit", [0.05, 0.25, 0.8])
@pytest.mark.parametrize("rate_hz", [10, 20, 100])
def test_the_tool_is_as_fast_as_it_may_be_and_no_faster(rate_hz: int, limit: float) -> None:
    config = ManipulatorGuardConfig.from_robot(ROBOT, tool_velocity_m_s=limit, window_s=1.2 * max(1.0 / rate_hz, 0.05))
    limiter, goal = ManipulatorTargetLimiter(ROBOT, config, BODY), STRETCHED.copy()
    goal[0] = 1.8
    limiter.start(0.0, STRETCHED)
    sent, reasons = [STRETCHED], set()
    for k in range(1, 2 * rate_hz + 1):
        held, _, _, why = limiter.pass_on(k / rate_hz, goal, sent[-1], np.zeros(9))
        reasons.add(why)
        sent.append(held)
    tool = BODY.place(np.array(sent))[0][:, 0]
    gone = np.cumsum(np.linalg.norm(np.diff(tool, axis=0), axis=1))
    assert any("tool speed" in why for why in reasons)
    arc = 1.8 * np.linalg.norm(tool[0, :2])
    assert gone[-1] == pytest.approx(min(arc, limit * (2.0 - 1.0 / rate_hz + config.window_s)), rel=0.02)
    for steps in (1, rate_hz // 2):
        far = gone[steps:] - gone[:-steps]
        assert far.max() <= 1.001 * limit * (steps / rate_hz + config.window_s)


def test_a_target_stays_in_range_and_as_near_as_the_drives_can_pull() -> None:
    loop = armed(every=1)
    loop.run(4.0, lambda seen: np.full(9, 9.0))
    assert (loop.sent[-1] <= UPPER).all() and loop.guard.mode is CommonMode.POLICY
    stuck = armed()
    where = stuck.position.copy()
    for _ in range(50):  # something holds the arm
        stuck.position, stuck.velocity = where.copy(), np.zeros(9)
        stuck.run(0.01, lambda seen: moved(j5=1.0))
    assert stuck.target[4] - where[4] == pytest.approx(12.0 / 250.0)
    assert any("joint effort" in decision.held_for for decision in stuck.decisions)


def test_the_tool_stays_in_the_workspace_and_may_come_back_into_it() -> None:
    box: dict[str, Any] = {"workspace_min_m": (0.0, -0.2, 0.3), "workspace_max_m": (0.8, 0.2, 0.8)}
    loop = armed(**box)
    loop.run(1.5, lambda seen: moved(j1=1.2))
    tool = BODY.place(np.array(loop.sent))[0][:, 0]
    assert 0.15 < tool[:, 1].max() <= 0.2 + 1e-9
    assert any("workspace" in decision.held_for for decision in loop.decisions)
    outside = armed(position=moved(j1=1.0), **box)
    outside.run(0.5, lambda seen: moved(j1=1.3))
    assert outside.sent[-1][0] <= moved(j1=1.0)[0] + 1e-9
    outside.run(1.0, lambda seen: REST)
    np.testing.assert_allclose(outside.sent[-1], REST, atol=1e-9)


def test_the_arm_stays_clear_of_itself() -> None:
    folded = moved(j2=-0.9, j4=-0.65, j6=-1.5)
    assert BODY.place(folded[None])[1][0] < 0.0
    loop = armed()
    loop.run(3.0, lambda seen: folded)
    assert BODY.place(np.array(loop.sent))[1].min() >= CONFIG.apart_m - 1e-9
    assert any("self-collision" in decision.held_for for decision in loop.decisions)
    free = armed(self_collision=False)
    free.run(3.0, lambda seen: folded)
    np.testing.assert_allclose(free.sent[-1], folded, atol=1e-6)


@pytest.mark.parametrize("bad", [np.full(9, math.nan), np.zeros(3), ["far"], np.full(9, math.inf)])
def test_a_malformed_command_holds_the_arm_for_good_and_it_parks_slowly(bad: Any) -> None:
    loop = armed(position=moved(j1=0.3), hold_before_parking_s=1.0)
    loop.run(0.05, lambda seen: bad)
    assert loop.guard.mode is ManipulatorMode.HOLD and all(np.isfinite(sent).all() for sent in loop.sent)
    loop.run(0.9, lambda seen: REST)
    assert loop.guard.mode is ManipulatorMode.HOLD
    np.testing.assert_allclose(loop.target, moved(j1=0.3), atol=1e-6)
    first = len(loop.sent)
    loop.run(2.0, None)
    assert loop.guard.mode is CommonMode.DISARMED and "parked" in loop.guard.reason
    np.testing.assert_allclose(loop.target, REST, atol=1e-6)
    steps = np.abs(np.diff(loop.sent[first:], axis=0))
    assert steps.max() <= CONFIG.parking_speed * 2.175 * 0.01 + 1e-9


def test_it_parks_as_slowly_as_its_tool_must_be() -> None:
    loop = armed(position=moved(j1=0.3), hold_before_parking_s=0.5, tool_velocity_m_s=0.02)
    loop.run(0.6, None)
    first = len(loop.sent)
    loop.run(10.0, None)
    assert loop.guard.mode is CommonMode.DISARMED and "parked" in loop.guard.reason
    np.testing.assert_allclose(loop.target, REST, atol=1e-6)
    tool = BODY.place(np.array(loop.sent[first:]))[0][:, 0]
    assert np.linalg.norm(tool[100:] - tool[:-100], axis=1).max() <= 1.01 * 0.02 * (1.0 + CONFIG.window_s)


def test_a_late_policy_is_waited_for_and_commands_again_once_it_is_in_time() -> None:
    loop = armed()
    loop.run(0.1, None)
    assert loop.guard.mode is CommonMode.POLICY  # 2.5 periods at 20 Hz
    loop.run(0.1, None)
    assert loop.guard.mode is ManipulatorMode.HOLD and loop.guard.interventions == 1
    loop.run(0.9, lambda seen: moved(j1=0.5))
    np.testing.assert_allclose(loop.target, REST)
    loop.run(0.5, lambda seen: moved(j1=0.5))
    assert loop.guard.mode is CommonMode.POLICY and loop.target[0] > 0.1
    loop.guard.estop("asked to")
    loop.run(0.2, lambda seen: REST)
    assert loop.guard.mode is CommonMode.ESTOP


def test_without_joint_states_it_holds_and_then_disarms() -> None:
    loop = armed(hold_before_parking_s=1.0)
    loop.mute = True
    loop.run(0.5, lambda seen: moved(j1=0.5))
    assert loop.guard.mode is ManipulatorMode.HOLD and "no valid observation" in loop.guard.reason
    loop.run(1.0, lambda seen: REST)
    assert loop.guard.mode is CommonMode.DISARMED
    lame = guard()
    for broken, why in (
        ({}, "joint_position is missing"),
        ({"joint_position": np.zeros(3)}, r"has shape \(3,\)"),
        ({"joint_position": np.full(9, math.nan), "joint_velocity": np.zeros(9)}, "not finite"),
    ):
        lame.on_observation(0.0, 0.0, broken)
        armed_, said = lame.arm(0.0)
        assert not armed_
        assert re.search(why, said)


def test_a_joint_that_is_far_too_fast_ends_the_policys_turn() -> None:
    loop = armed()
    fast = {**loop.seen, "joint_velocity": np.eye(9)[0] * -4.0}
    decision = loop.guard.on_observation(loop.time_s + 0.01, loop.time_s + 0.01, fast)
    assert decision.mode is ManipulatorMode.HOLD and "panda_joint1 moves at -4.00" in decision.reason


def test_one_wrong_reading_of_a_joint_moves_nothing_and_several_hold_the_arm() -> None:
    loop = armed()
    wrong = {"joint_position": REST * (np.arange(9) != 6), "joint_velocity": np.zeros(9)}  # as after a failed reading
    before = len(loop.sent)
    for _ in range(5):
        loop.periods += 1
        decision = loop.guard.on_observation(loop.time_s, loop.time_s, wrong)
        answer = loop.guard.on_policy_command(loop.time_s, loop.time_s, REST)
        assert answer.command is not None
        np.testing.assert_allclose(answer.command, REST, atol=1e-9)
    loop.run(0.1, lambda seen: REST)
    assert loop.guard.mode is CommonMode.POLICY and len(loop.sent) > before
    while decision.mode is CommonMode.POLICY:
        loop.periods += 1
        decision = loop.guard.on_observation(loop.time_s, loop.time_s, wrong)
        if decision.mode is CommonMode.POLICY:
            decision = loop.guard.on_policy_command(loop.time_s, loop.time_s, REST)
    assert "panda_joint7 is at 0.00 and was at 0.79" in decision.reason and "cannot have moved" in decision.reason


def test_a_target_is_brought_back_to_a_joint_that_was_pushed_no_faster_than_the_joint() -> None:
    limiter = ManipulatorTargetLimiter(ROBOT, ManipulatorGuardConfig.from_robot(ROBOT, speed_up_s=0.0), BODY)
    limiter.start(0.0, REST)
    sent = [REST]
    for k in range(1, 61):
        held, _, _, why = limiter.pass_on(0.01 * k, REST, moved(j7=-0.7), np.zeros(9))
        assert "joint effort" in why
        sent.append(held)
    drive = ROBOT.drives[6]
    assert sent[-1][6] == pytest.approx(moved(j7=-0.7)[6] + drive.effort_max / drive.stiffness)
    fast = np.abs(np.array(sent[5:]) - np.array(sent[:-5])) / FASTEST
    assert fast.max() <= 0.05 + CONFIG.window_s + 1e-9


def test_an_arm_that_is_out_of_its_range_is_not_armed() -> None:
    """As one is whose zeros are not the robot file's."""
    loop = Following(guard(), moved(j4=0.5))
    loop.position[3] = UPPER[3] + 0.3
    loop.guard.on_observation(0.0, 0.0, loop.seen)
    armed_, why = loop.guard.arm(0.0)
    assert not armed_
    assert re.search(r"panda_joint4 is at 0\.23, out of its range, -3\.07 to -0\.07", why)
    loop.position[3], loop.position[7] = UPPER[3] + 0.01, -0.0005  # as far as an arm sags, and a finger gives
    loop.periods += 15
    loop.arm()


def test_who_is_outside_the_workspace_is_kept_from_touching_itself_all_the_same() -> None:
    folded = moved(j2=-0.9, j4=-0.65, j6=-1.5)
    box: dict[str, Any] = {"workspace_min_m": (0.0, -0.2, 0.3), "workspace_max_m": (0.15, 0.2, 0.8)}
    assert BODY.place(REST[None])[0][0, 0, 0] > 0.15 + 0.1
    loop = armed(position=REST, **box)
    loop.run(3.0, lambda seen: folded)
    assert BODY.place(np.array(loop.sent))[1].min() >= CONFIG.apart_m - 1e-9
    assert any("self-collision" in decision.held_for for decision in loop.decisions)


@given(st.lists(st.lists(st.floats(-4.0, 4.0), min_size=9, max_size=9), min_size=3, max_size=25), st.integers(1, 6))
@settings(deadline=None, max_examples=15)
def test_whatever_is_wanted_what_is_published_keeps_all_limits(wanted: list[list[float]], every: int) -> None:
    limiter = ManipulatorTargetLimiter(ROBOT, CONFIG, BODY)
    limiter.start(0.0, REST)
    position, t, sent = REST.copy(), 0.0, [REST.copy()]
    for target in wanted:
        for _ in range(every):
            t += 0.01
            held = limiter.pass_on(t, np.array(target), position, np.zeros(9)).command
            position = 0.5 * (position + held)
            sent.append(held)
    path = np.array(sent)
    assert (path >= LOWER - 1e-9).all() and (path <= UPPER + 1e-9).all()
    for periods in (1, 5, 20):  # no further in any time than the speeds allow, and what was saved up
        gone = np.abs(path[periods:] - path[:-periods])
        assert (gone <= 1.01 * FASTEST * (CONFIG.window_s + 0.01 * periods) + 1e-6).all()
    tool, gap = BODY.place(path)
    gone_m = np.cumsum(np.linalg.norm(np.diff(tool[:, 0], axis=0), axis=1))
    for periods in (1, 5, 20):
        most_m = CONFIG.tool_velocity_m_s * (CONFIG.window_s + 0.01 * periods)
        assert (gone_m[periods:] - gone_m[:-periods] <= 1.01 * most_m + 1e-6).all()
    assert (tool >= np.array(CONFIG.workspace_min_m) - 1e-9).all()
    assert (tool <= np.array(CONFIG.workspace_max_m) + 1e-9).all()
    assert gap.min() >= CONFIG.apart_m - 1e-9
