"""Differential inverse kinematics: it goes where it is told, within the limits, also at singularities."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.inverse_kinematics import (
    Limits,
    damped_motion,
    joint_step,
    led_step,
    limits_of,
    reach,
    span_of,
    upright,
    yaw_of,
)
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import Screws, chain_of, tool_motion

ROBOT = load_robot("panda")
assert isinstance(ROBOT, Manipulator)
CHAIN = chain_of(ROBOT)
LIMITS = limits_of(ROBOT, CHAIN)
REST = np.array([drive.rest for drive in ROBOT.drives[:7]])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1.0))
def test_damped_least_squares_are_solved(seed: int, damping: float) -> None:
    rng = np.random.default_rng(seed)
    jacobian, motion = rng.normal(size=(4, 6, 7)) * rng.uniform(0.01, 1.0), rng.normal(size=(4, 6))
    jacobian[0, 3] = jacobian[0, 4]  # singular
    found = damped_motion(jacobian, motion, damping)
    square = jacobian @ jacobian.transpose(0, 2, 1) + damping**2 * np.eye(6)
    expected = (jacobian.transpose(0, 2, 1) @ np.linalg.solve(square, motion[:, :, None]))[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_a_stretched_arm_keeps_the_digits_of_float32() -> None:
    """A UR5e with its joints near zero is stretched and its wrist is singular; a policy file computes in float32."""
    robot = load_robot("ur5e")
    rng = np.random.default_rng(0)
    joints = rng.normal(0.0, 0.1, (500, 6)).astype(np.float32)
    jacobian = tool_motion(chain_of(robot).screws, joints.astype(float)).jacobian.astype(np.float32)
    motion = rng.normal(0.0, 0.1, (500, 6)).astype(np.float32)
    exact = damped_motion(jacobian.astype(float), motion.astype(float), 0.03)
    found = damped_motion(torch.from_numpy(jacobian), torch.from_numpy(motion), 0.03).numpy()
    rounding = np.finfo(np.float32).eps / 0.03  # the Jacobian's own, magnified by its smallest singular value
    assert np.abs(found - exact).max() < rounding * np.abs(exact).max()


def test_a_small_step_moves_the_tool_as_wanted_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    joints, found = reach(CHAIN, LIMITS, rng.uniform((0.35, -0.2, 0.1), (0.6, 0.2, 0.4), (20, 3)), np.zeros(20), REST)
    assert found.all()
    motion = np.concatenate([rng.uniform(-0.002, 0.002, (20, 3)), np.zeros((20, 3))], axis=1)
    before = tool_motion(CHAIN.screws, joints)
    after = joint_step(before.jacobian, motion, 0.05 * (REST - joints), joints, LIMITS, 0.05, damping=1e-3)
    tool = tool_motion(CHAIN.screws, after)
    np.testing.assert_allclose(tool.position - before.position, motion[:, :3], atol=2e-4)
    np.testing.assert_allclose(tool.rotation, before.rotation, atol=2e-3)
    assert (np.abs(after - joints) > 1e-5).any(axis=1).all(), "the posture moves where the tool does not mind"


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 10.0))
def test_limits_hold_whatever_is_asked_for(seed: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    joints = rng.uniform(LIMITS.lower, LIMITS.upper, (8, 7))
    joints[0] = 0.0 * joints[0] + np.clip(0.0, LIMITS.lower, LIMITS.upper)  # stretched: singular
    tool = tool_motion(CHAIN.screws, joints)
    after = joint_step(tool.jacobian, far * rng.normal(size=(8, 6)), np.zeros((8, 7)), joints, LIMITS, 0.05)
    assert np.isfinite(after).all()
    assert (after >= LIMITS.lower).all() and (after <= LIMITS.upper).all()
    assert (np.abs(after - joints) <= LIMITS.velocity * 0.05 * (1.0 + 1e-9)).all()


def test_places_are_reached_pointing_down_and_those_out_of_reach_are_not_found() -> None:
    rng = np.random.default_rng(3)
    place, yaw = rng.uniform((0.3, -0.3, 0.02), (0.65, 0.3, 0.5), (100, 3)), rng.uniform(-0.7, 0.7, 100)
    place[0] = (2.0, 0.0, 0.3)
    joints, found = reach(CHAIN, LIMITS, place, yaw, REST)
    assert not found[0] and found[1:].all()
    tool = tool_motion(CHAIN.screws, joints[1:])
    np.testing.assert_allclose(tool.position, place[1:], atol=2e-4)
    np.testing.assert_allclose(tool.rotation[:, 2, 2], -1.0, atol=1e-6)
    np.testing.assert_allclose(yaw_of(tool.rotation), np.stack([np.cos(yaw), np.sin(yaw)], 1)[1:], atol=1e-3)


def test_torch_in_single_precision_says_the_same() -> None:
    rng = np.random.default_rng(4)
    joints = REST + rng.uniform(-0.3, 0.3, (16, 7))
    motion = rng.normal(0.0, 0.02, (16, 6))
    tool = tool_motion(CHAIN.screws, joints)
    motion[:, 3:] += upright(tool.rotation)
    mine = joint_step(tool.jacobian, motion, np.zeros((16, 7)), joints, LIMITS, 0.05)
    single = [torch.tensor(array, dtype=torch.float32) for array in (joints, motion)]
    screws = Screws(*(torch.tensor(array, dtype=torch.float32) for array in CHAIN.screws))
    limits = Limits(*(torch.tensor(array, dtype=torch.float32) for array in LIMITS))
    other = tool_motion(screws, single[0])
    theirs = joint_step(other.jacobian, single[1], torch.zeros(16, 7), single[0], limits, 0.05)
    np.testing.assert_allclose(theirs.numpy(), mine, atol=2e-5)


SMALL = load_robot("so100")
assert isinstance(SMALL, Manipulator)
FIVE, ENDS = chain_of(SMALL), limits_of(SMALL, chain_of(SMALL))
SMALL_REST = np.array([drive.rest for drive in SMALL.drives[:5]])


def test_arms_of_six_joints_and_more_are_led_as_before_to_the_last_bit() -> None:
    rng = np.random.default_rng(5)
    for name, count in (("panda", 7), ("ur5e", 6)):
        robot = load_robot(name)
        assert isinstance(robot, Manipulator)
        chain = chain_of(robot)
        limits = limits_of(robot, chain)
        joints, motion = rng.uniform(-2.0, 2.0, (50, count)), rng.normal(0.0, 0.1, (50, 6))
        tool, aside = tool_motion(chain.screws, joints), rng.normal(0.0, 0.1, (50, count))
        led = led_step(tool.jacobian, tool.rotation, motion, aside, joints, limits, 0.05, span_of(chain))
        assert np.array_equal(led, joint_step(tool.jacobian, motion, aside, joints, limits, 0.05))


def test_five_joints_hold_place_direction_and_turn_where_they_can_and_else_the_place() -> None:
    assert 0.4 < span_of(FIVE) < 0.6
    place = np.array([[0.2, 0.0, 0.05], [0.22, 0.1, 0.02], [0.35, 0.0, 0.02], [0.2, 0.0, 0.2], [0.6, 0.0, 0.1]])
    yaw = np.array([0.4, -0.3, 0.0, 0.0, 0.0])
    joints, found = reach(FIVE, ENDS, place, yaw, SMALL_REST)
    assert found.tolist() == [True, True, True, True, False]
    tool = tool_motion(FIVE.screws, joints)
    np.testing.assert_allclose(tool.position[:2], place[:2], atol=1e-5)
    np.testing.assert_allclose(tool.position[2:4], place[2:4], atol=5e-3)
    np.testing.assert_allclose(tool.rotation[:2, 2, 2], -1.0, atol=1e-6)
    np.testing.assert_allclose(yaw_of(tool.rotation[:2]), np.stack([np.cos(yaw), np.sin(yaw)], 1)[:2], atol=1e-3)
    leaning = np.degrees(np.arccos(-tool.rotation[2:4, 2, 2]))
    assert (leaning > 5.0).all() and (leaning < 40.0).all()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 10.0))
def test_five_joints_keep_their_limits_and_single_precision_says_the_same(seed: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    joints, motion = rng.uniform(ENDS.lower, ENDS.upper, (8, 5)), 0.01 * far * rng.normal(size=(8, 6))
    joints[0] = ENDS.upper
    tool = tool_motion(FIVE.screws, joints)
    given_ = (tool.jacobian, tool.rotation, motion, 0.05 * (SMALL_REST - joints), joints)
    after = led_step(*given_, ENDS, 0.05, span_of(FIVE))
    assert np.isfinite(after).all()
    assert (after >= ENDS.lower).all() and (after <= ENDS.upper).all()
    assert (np.abs(after - joints) <= ENDS.velocity * 0.05 * (1.0 + 1e-9)).all()
    limits = Limits(*(torch.tensor(array, dtype=torch.float32) for array in ENDS))
    single = (torch.tensor(array, dtype=torch.float32) for array in given_)
    np.testing.assert_allclose(led_step(*single, limits, 0.05, span_of(FIVE)).numpy(), after, atol=2e-3)


def test_a_joint_at_the_end_of_its_range_does_not_take_the_tool_from_its_place() -> None:
    joints = SMALL_REST[None].copy()
    joints[0, 3] = ENDS.upper[3]
    tool = tool_motion(FIVE.screws, joints)
    # up, leaning as it is: the wrist would have to bend on to point down
    motion = np.array([[0.0, 0.0, 0.004, 0.0, 0.1, 0.0]])
    motion[0, 3:] += upright(tool.rotation)[0]
    for sign in (-1.0, 1.0):
        asked = motion * np.array([1.0, 1.0, 1.0, 1.0, sign, 1.0])
        after = led_step(tool.jacobian, tool.rotation, asked, 0.0 * joints, joints, ENDS, 0.05, span_of(FIVE))
        moved = tool_motion(FIVE.screws, after).position - tool.position
        np.testing.assert_allclose(moved, asked[:, :3], atol=1e-3)
