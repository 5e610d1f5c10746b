"""Dynamics of arms against MuJoCo's."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.dynamics import ArmDynamics
from rlstack.robots.kinematics import holding_effort
from rlstack.robots.mjcf import mujoco_spec


def arm(name: str) -> Manipulator:
    robot = load_robot(name)
    assert isinstance(robot, Manipulator)
    return robot


@pytest.mark.parametrize("name", ["panda", "ur5e", "so100"])
def test_mass_matrix_and_bias_are_mujocos(name: str) -> None:
    robot = arm(name)
    dynamics = ArmDynamics(robot)
    count = len(dynamics.chain.joints)
    spec = mujoco_spec(robot, floor=False)
    for body in spec.bodies:
        body.gravcomp = 0.0
    model = spec.compile()
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    joints, velocity = rng.uniform(-1.5, 1.5, (5, count)), rng.uniform(-2.0, 2.0, (5, count))
    mass, bias = dynamics.mass_matrix(joints), dynamics.bias(joints, velocity)
    still = dynamics.bias(joints, velocity, 0.0)
    held = holding_effort(dynamics.chain.screws, dynamics.carried, joints)
    np.testing.assert_allclose(held, dynamics.bias(joints, 0.0 * velocity), atol=1e-9)
    for k in range(5):
        data.qpos[:], data.qvel[:] = 0.0, 0.0
        data.qpos[:count], data.qvel[:count] = joints[k], velocity[k]
        mujoco.mj_forward(model, data)
        columns = []
        for unit in np.eye(model.nv)[:count]:
            pushed = np.zeros(model.nv)
            mujoco.mj_mulM(model, data, pushed, unit)
            columns.append(pushed[:count])
        np.testing.assert_allclose(mass[k], np.array(columns), atol=1e-9)
        np.testing.assert_allclose(bias[k], data.qfrc_bias[:count], atol=1e-8)
        model.opt.gravity[:] = 0.0
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(still[k], data.qfrc_bias[:count], atol=1e-8)
        model.opt.gravity[:] = [0.0, 0.0, -9.81]


DYNAMICS = ArmDynamics(arm("ur5e"))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_mass_matrix_is_positive_and_motion_makes_no_energy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joints, velocity = rng.uniform(-3.0, 3.0, (1, 6)), rng.uniform(-2.0, 2.0, (1, 6))
    mass = DYNAMICS.mass_matrix(joints)[0]
    np.testing.assert_allclose(mass, mass.T, atol=1e-12)
    assert np.linalg.eigvalsh(mass)[0] > 0.0
    # the rate of kinetic energy is the power of what acts: v (dM/dt) v / 2 = v c
    step = 1e-6
    ahead, behind = (DYNAMICS.mass_matrix(joints + sign * step * velocity)[0] for sign in (1.0, -1.0))
    rate = velocity[0] @ (ahead - behind) @ velocity[0] / (2.0 * step)
    power = velocity[0] @ DYNAMICS.bias(joints, velocity, 0.0)[0]
    np.testing.assert_allclose(0.5 * rate, power, rtol=1e-5, atol=1e-6)
