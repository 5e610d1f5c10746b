"""The response that a robot file gives is what its wheels do in MuJoCo: a batch simulator may compute with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.kinds.wheeled_base.simulation_kinematics import TwistRamp
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.backends.mujoco import MujocoBackend

STEP_S, HELD_S, COMMANDS = 0.005, 0.4, 10


def driven(robot: WheeledBase, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what the limits let through of random commands, and what the base did, of speed (0) or turning (1)."""
    random = np.random.default_rng(axis)
    most = (0.9 * robot.limits.linear_velocity_m_s, 0.6 * robot.limits.angular_velocity_rad_s)[axis]
    backend, ramp = MujocoBackend(robot), TwistRamp(robot)
    backend.connect()
    try:
        asked, did = [], []
        for k in range(round(COMMANDS * HELD_S / STEP_S)):
            if k % round(HELD_S / STEP_S) == 0:
                twist = np.zeros(2)
                twist[axis] = random.uniform(-most, most)
                backend.write({"twist": twist})
                ramp.command(twist, k * STEP_S)
            backend.step(STEP_S)
            ramp.step(k * STEP_S, STEP_S)
            signals = backend.read().signals
            asked.append(ramp.twist[axis])
            did.append(signals["linear_velocity"][0] if axis == 0 else signals["angular_velocity"][2])
    finally:
        backend.close()
    return np.array(asked), np.array(did)


@pytest.mark.parametrize("name", ["turtlebot3_burger", "husky"])
@pytest.mark.parametrize(("axis", "allowed"), [(0, 0.02), (1, 0.15)], ids=["speed", "turning"])
def test_lag_and_slip_of_the_file_explain_what_the_base_does(name: str, axis: int, allowed: float) -> None:
    robot = load_robot(name)
    assert isinstance(robot, WheeledBase)
    asked, did = driven(robot, axis)
    response = robot.response
    lag_s = (response.linear_time_constant_s, response.angular_time_constant_s)[axis]
    slip = (response.linear_slip, response.angular_slip)[axis]
    keep, followed, speeds = math.exp(-STEP_S / lag_s), 0.0, []
    for wanted in asked:
        followed = wanted + (followed - wanted) * keep
        speeds.append(followed * (1.0 - slip))
    left = np.sqrt(np.mean((np.array(speeds) - did) ** 2)) / np.std(did)
    assert left < allowed
    # without the slip and the lag it would be explained worse: the numbers are not idle
    assert left < np.sqrt(np.mean((asked - did) ** 2)) / np.std(did) + 1e-3
