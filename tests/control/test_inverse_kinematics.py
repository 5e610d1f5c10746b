"""Differential inverse kinematics: it goes where it is told, within the limits, also at singularities."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from rlstack.control.inverse_kinematics import (
    DAMPING,
    Limits,
    joint_step,
    limits_of,
    reach,
    solve_damped,
    upright,
    yaw_of,
)
from rlstack.robots import Manipulator, load_robot
from rlstack.robots.kinematics import Screws, chain_of, tool_motion

ROBOT = load_robot("panda")
assert isinstance(ROBOT, Manipulator)
CHAIN = chain_of(ROBOT)
LIMITS = limits_of(ROBOT, CHAIN)
OPEN = Limits(np.full(7, -1e3), np.full(7, 1e3), np.full(7, 1e3))
"""Nothing is out of reach, and nothing too fast."""
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


def at_ends(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return joints (N, 7), each with its chance at an end of its range, Jacobians, and wishes of tool and joints."""
    rng = np.random.default_rng(5)
    joints = rng.uniform(LIMITS.lower, LIMITS.upper, (count, 7))
    ends = np.where(rng.random((count, 7)) < 0.5, LIMITS.lower, LIMITS.upper)
    joints = np.where(rng.random((count, 7)) < 0.25, ends, joints)
    motion = np.concatenate([rng.normal(0.0, 0.03, (count, 3)), rng.normal(0.0, 0.1, (count, 3))], axis=1)
    return joints, tool_motion(CHAIN.screws, joints).jacobian, motion, rng.normal(0.0, 0.02, (count, 7))


def test_at_the_ends_of_ranges_the_other_joints_do_what_an_exact_solution_does() -> None:
    joints, jacobian, motion, aside = at_ends(100)
    never_too_fast = LIMITS._replace(velocity=np.full(7, 1e3))
    found = joint_step(jacobian, motion, aside, joints, never_too_fast, 1.0) - joints
    unit = DAMPING * np.eye(7)
    exact = np.array(
        [
            lsq_linear(np.concatenate([jac, unit]), np.concatenate([tool, unit @ own]), (low - 1e-12, high + 1e-12)).x
            for jac, tool, own, low, high in zip(
                jacobian, motion, aside, LIMITS.lower - joints, LIMITS.upper - joints, strict=True
            )
        ]
    )
    met = (np.minimum(joints + exact - LIMITS.lower, LIMITS.upper - joints - exact) < 1e-6).any(axis=1)
    assert 50 < met.sum() < 90
    assert (np.abs(found - exact).max(axis=1) < 1e-4)[~met].all()
    assert (np.abs(found - exact).max(axis=1) < 1e-4).mean() > 0.7

    def missed(change: np.ndarray) -> float:
        return float(np.linalg.norm((jacobian @ (change - exact)[:, :, None])[:, :3, 0], axis=1).mean())

    alone = [
        joint_step(jacobian[k : k + 1], motion[k : k + 1], aside[k : k + 1], joints[k : k + 1], OPEN, 1.0)
        for k in range(100)
    ]
    clipped = np.clip(np.concatenate(alone), LIMITS.lower, LIMITS.upper) - joints
    assert missed(found) < 0.4 * missed(clipped), "not only clipped"


def test_torch_does_the_same_at_the_ends_and_who_is_within_is_left_alone() -> None:
    joints, jacobian, motion, aside = at_ends(60)
    mine = joint_step(jacobian, motion, aside, joints, LIMITS, 0.05)
    tensors = [torch.from_numpy(array) for array in (jacobian, motion, aside, joints)]
    theirs = joint_step(*tensors, Limits(*(torch.from_numpy(array) for array in LIMITS)), 0.05)
    np.testing.assert_allclose(theirs.numpy(), mine, atol=1e-9)
    assert (np.abs(mine - joints) <= LIMITS.velocity * 0.05 * (1.0 + 1e-9)).all()
    within = ((mine > LIMITS.lower) & (mine < LIMITS.upper)).all(axis=1)
    free = joint_step(jacobian, motion, aside, joints, OPEN._replace(velocity=LIMITS.velocity), 0.05)
    unmet = within & ((free > LIMITS.lower) & (free < LIMITS.upper)).all(axis=1)
    assert unmet.sum() > 10
    np.testing.assert_allclose(mine[unmet], free[unmet], rtol=0.0, atol=1e-14)
    few = [array[unmet] for array in (jacobian, motion, aside, joints)]
    np.testing.assert_array_equal(joint_step(*few, LIMITS, 0.05), free[unmet])
