"""Differential inverse kinematics: it goes where it is told, within the limits, also at singularities."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.inverse_kinematics import Limits, joint_step, limits_of, reach, solve_damped, upright, yaw_of
from rlstack.robots import Manipulator, load_robot
from rlstack.robots.kinematics import Screws, chain_of, tool_motion

ROBOT = load_robot("panda")
assert isinstance(ROBOT, Manipulator)
CHAIN = chain_of(ROBOT)
LIMITS = limits_of(ROBOT, CHAIN)
REST = np.array([drive.rest for drive in ROBOT.drives[:7]])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1.0))
def test_damped_systems_are_solved(seed: int, damping: float) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(4, 6, 7)) * rng.uniform(0.01, 1.0)
    half[0, 3] = half[0, 4]  # singular
    matrix, right = half @ half.transpose(0, 2, 1), rng.normal(size=(4, 6))
    found = solve_damped(matrix, right, damping)
    expected = np.linalg.solve(matrix + damping**2 * np.eye(6), right[:, :, None])[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


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
