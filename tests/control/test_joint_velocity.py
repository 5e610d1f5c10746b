"""Control by velocities: the tool moves as wanted, limits hold, and a joint at its end is made up for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.inverse_kinematics import Limits, limits_of, reach
from rlstack.control.joint_velocity import LEAD_S, JointVelocity, tool_velocity, within
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import chain_of, tool_motion


def arm(name: str) -> Manipulator:
    robot = load_robot(name)
    assert isinstance(robot, Manipulator)
    return robot


PANDA = arm("panda")
CHAIN = chain_of(PANDA)
LIMITS = limits_of(PANDA, CHAIN)
REST = np.array([drive.rest for drive in PANDA.drives[:7]])


def test_the_tool_moves_as_wanted() -> None:
    rng = np.random.default_rng(0)
    joints, found = reach(CHAIN, LIMITS, rng.uniform((0.35, -0.2, 0.1), (0.6, 0.2, 0.4), (20, 3)), np.zeros(20), REST)
    assert found.all()
    twist = rng.uniform(-0.05, 0.05, (20, 6))
    tool = tool_motion(CHAIN.screws, joints)
    velocity = tool_velocity(tool.jacobian, twist, joints, LIMITS, 0.01, damping=1e-3)
    np.testing.assert_allclose((tool.jacobian @ velocity[:, :, None])[:, :, 0], twist, atol=1e-3)
    after = tool_motion(CHAIN.screws, joints + 0.01 * velocity)
    np.testing.assert_allclose((after.position - tool.position) / 0.01, twist[:, :3], atol=2e-3)


def test_other_joints_make_up_for_one_at_its_end() -> None:
    joints = REST[None].copy()
    limits = Limits(LIMITS.lower.copy(), LIMITS.upper.copy(), LIMITS.velocity)
    tool = tool_motion(CHAIN.screws, joints)
    twist = np.array([[0.0, 0.1, 0.0, 0.0, 0.0, 0.0]])
    free = tool_velocity(tool.jacobian, twist, joints, limits, 0.01, damping=1e-3)[0]
    first = int(np.abs(free).argmax())
    end = limits.upper if free[first] > 0.0 else limits.lower
    end[first] = joints[0, first]
    held = tool_velocity(tool.jacobian, twist, joints, limits, 0.01, damping=1e-3)
    assert held[0, first] == 0.0
    np.testing.assert_allclose((tool.jacobian @ held[:, :, None])[0, :, 0], twist[0], atol=2e-3)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 50.0))
def test_limits_hold_whatever_is_asked_for(seed: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    joints = rng.uniform(LIMITS.lower, LIMITS.upper, (6, 7))
    joints[0] = np.clip(0.0, LIMITS.lower, LIMITS.upper)  # stretched: singular
    joints[1] = np.where(rng.random(7) < 0.5, LIMITS.lower, LIMITS.upper)
    tool = tool_motion(CHAIN.screws, joints)
    twist = far * rng.normal(size=(6, 6))
    for velocity in (
        tool_velocity(tool.jacobian, twist, joints, LIMITS, 0.01),
        within(far * rng.normal(size=(6, 7)), joints, LIMITS, 0.01),
    ):
        assert np.isfinite(velocity).all()
        after = joints + 0.01 * velocity
        assert (after >= LIMITS.lower - 1e-12).all() and (after <= LIMITS.upper + 1e-12).all()
        assert (np.abs(velocity) <= LIMITS.velocity * (1.0 + 1e-9)).all()


def test_a_joint_beyond_its_range_only_comes_back() -> None:
    joints = np.array([LIMITS.upper + 0.1])
    assert (within(np.ones((1, 7)), joints, LIMITS, 0.01) == 0.0).all()
    assert (within(-np.ones((1, 7)), joints, LIMITS, 0.01) == -1.0).all()


def test_a_joint_that_is_not_read_does_not_spoil_the_targets() -> None:
    velocity, rest = JointVelocity(PANDA), np.array([[drive.rest for drive in PANDA.drives]])
    before = velocity.step(rest, 0.1 * np.ones((1, 9)), 0.01)
    with pytest.raises(ValueError, match="a joint's place is not finite"):
        velocity.step(np.where(np.arange(9) == 3, np.nan, rest), np.zeros((1, 9)), 0.01)
    np.testing.assert_array_equal(velocity.step(rest, np.zeros((1, 9)), 0.01), before)


def test_torch_says_the_same() -> None:
    rng = np.random.default_rng(2)
    joints = REST + rng.uniform(-0.3, 0.3, (8, 7))
    tool, twist = tool_motion(CHAIN.screws, joints), rng.normal(0.0, 0.5, (8, 6))
    limits = Limits(*(torch.from_numpy(end) for end in LIMITS))
    jacobian, wanted, angles = (torch.from_numpy(np.array(a)) for a in (tool.jacobian, twist, joints))
    theirs = tool_velocity(jacobian, wanted, angles, limits, 0.05)
    np.testing.assert_allclose(theirs.numpy(), tool_velocity(tool.jacobian, twist, joints, LIMITS, 0.05), atol=1e-9)


@pytest.mark.parametrize("name", ["panda", "so100", "panda_pair"])
def test_targets_are_led_at_the_velocities_and_never_far_ahead(name: str) -> None:
    robot = arm(name)
    control = JointVelocity(robot)
    joints = np.array([[drive.rest for drive in robot.drives]])
    speed = np.sign(0.5 * (control.limits.lower + control.limits.upper) - joints) * 0.2 * control.limits.velocity
    followed = joints.copy()
    for _ in range(10):
        target = control.step(followed, speed, 0.01)
        followed = target.copy()
    np.testing.assert_allclose(target, joints + 0.1 * speed, atol=1e-12)
    np.testing.assert_allclose(control.step(followed, 0.0 * speed, 0.01), target)
    for _ in range(200):  # an arm that is held up
        target = control.step(followed, 10.0 * speed, 0.01)
    assert (np.abs(target - followed) <= LEAD_S * control.limits.velocity + 1e-12).all()
    assert (target >= control.limits.lower).all() and (target <= control.limits.upper).all()
    with pytest.raises(ValueError, match="not finite"):
        control.step(followed, np.nan * speed, 0.01)
