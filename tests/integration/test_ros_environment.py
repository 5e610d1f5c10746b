"""Episodes over topics in lock step, through a robot node in a process of its own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium

import rlstack.environments  # noqa: F401
from rlstack.environments.ros import RosEnvironment
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.ros import NodeProcess, nodes

pytestmark = pytest.mark.integration

QUIET = {
    "noise": dict.fromkeys(("position_m", "orientation_rad", "linear_velocity_m_s", "angular_velocity_rad_s"), 0.0),
    "randomisation": {"force_sigma": 0.0, "torque_sigma_m": 0.0},
}
ROBOT = {"lock_step": True, "noise_seed": -1, "start_height_m": 1.2}


def actions(count: int) -> np.ndarray:
    random = np.random.default_rng(4)
    hover = load_quadrotor("crazyflie").hover_speed_rad_s
    model = load_quadrotor("crazyflie").rotor_model
    middle = 2.0 * (hover - model.speed_min_rad_s) / (model.speed_max_rad_s - model.speed_min_rad_s) - 1.0
    return (middle + 0.05 * random.standard_normal((count, 4))).astype(np.float32)


def in_process(count: int) -> list[np.ndarray]:
    hover = np.full(4, load_quadrotor("crazyflie").hover_speed_rad_s)
    made = gymnasium.make("rlstack/QuadrotorHover-v0", backend="mujoco", height_m=1.2, **QUIET)
    start = {"position": [0.0, 0.0, 0.0], "rotor_speed": hover}
    seen = [made.reset(seed=0, options={"state": start})[0]]
    seen += [made.step(action)[0] for action in actions(count)]
    made.close()
    return seen


def test_an_episode_over_topics_in_lock_step_is_that_in_process() -> None:
    wanted = in_process(60)
    with nodes(NodeProcess("robot", **ROBOT)):
        environment = RosEnvironment("quadrotor_hover", goal_m=(0.0, 0.0, 1.2), lock_step=True, timeout_s=60.0)
        try:
            for _ in range(2):  # the second after a reset in flight
                seen, info = environment.reset(seed=0)
                assert info == {}
                np.testing.assert_allclose(seen, wanted[0], atol=1e-5)
                for k, action in enumerate(actions(60)):
                    seen, reward, lost, timed_out, info = environment.step(action)
                    assert seen in environment.observation_space
                    np.testing.assert_allclose(seen, wanted[k + 1], atol=1e-4, err_msg=f"after step {k}")
                    assert not lost and not timed_out
                    assert reward == pytest.approx(sum(info["reward_terms"].values()), abs=1e-6)
        finally:
            environment.close()
            environment.close()


def test_the_guard_takes_off_and_hands_over() -> None:
    with nodes(NodeProcess("robot", lock_step=True, noise_seed=-1), NodeProcess("guard", lock_step=True)):
        environment = RosEnvironment("quadrotor_hover", through="guard", lock_step=True, timeout_s=60.0)
        try:
            seen, _ = environment.reset(seed=0)
            assert np.linalg.norm(seen[:3]) < 0.6  # near 1 m above the floor
            for action in actions(20):
                seen, _, lost, _, _ = environment.step(action)
            assert not lost
        finally:
            environment.close()


def test_without_a_robot_it_says_what_did_not_come() -> None:
    environment = RosEnvironment("quadrotor_hover", namespace="/nobody", timeout_s=0.3)
    try:
        with pytest.raises(UserError, match=r"Nothing came on /nobody/odom within 0\.3 s"):
            environment.reset()
    finally:
        environment.close()


def test_in_lock_step_the_rate_is_the_robots() -> None:
    with pytest.raises(UserError, match=r"rate_hz: 50 is not allowed in lock step: must be .* 100 Hz"):
        RosEnvironment("quadrotor_hover", lock_step=True, rate_hz=50.0)
