"""Many flights at once in an engine: those that run away are given up, and harm nobody."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.sim.vector import BATCH

COUNT, RATE_HZ = 4, 100.0


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


@pytest.fixture(params=["mujoco", "pybullet"])
def simulator(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    try:
        BACKENDS.load(name).engine.require()
    except UserError as error:
        pytest.skip(str(error))
    return name


def states(robot: Quadrotor, heights: list[float]) -> dict[str, np.ndarray]:
    return {
        "position": np.array([[0.0, 0.0, height] for height in heights]),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (len(heights), 1)),
        "linear_velocity": np.zeros((len(heights), 3)),
        "angular_velocity": np.zeros((len(heights), 3)),
        "rotor_speed": np.full((len(heights), 4), robot.hover_speed_rad_s),
    }


@pytest.mark.parametrize("spinning", [[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
def test_a_robot_that_spins_up_for_seconds_is_given_up_and_harms_nobody(
    simulator: str, robot: Quadrotor, spinning: list[float]
) -> None:
    top = robot.rotor_model.speed_max_rad_s
    robots = quadrotor_vector(simulator, robot, COUNT, RATE_HZ)
    robots.set_state(states(robot, [20.0, 0.02, 0.02, 20.0]))
    command = np.zeros((COUNT, 4))
    command[0], command[3] = top * np.array(spinning), robot.hover_speed_rad_s
    for _ in range(800):
        robots.step(command)
        state = robots.state()
        assert np.isfinite(state["position"][1:]).all()
    np.testing.assert_allclose(state["position"][3], [0.0, 0.0, 20.0], atol=0.01)
    assert np.abs(state["position"][1:3, 2] - 0.0145).max() < 0.002
    robots.set_state(states(robot, [20.0] * COUNT))
    assert np.isfinite(robots.state()["position"]).all()
    robots.close()


def test_fewer_robots_than_there_is_room_for_are_flown_alone(simulator: str, robot: Quadrotor) -> None:
    robots = quadrotor_vector(simulator, robot, COUNT, RATE_HZ)
    robots.set_state(states(robot, [20.0, 20.0]))
    robots.step(np.full((2, 4), robot.hover_speed_rad_s))
    assert robots.state()["position"].shape == (2, 3)
    robots.close()


@pytest.mark.parametrize("name", [BATCH, "mujoco"])
def test_a_misspelt_option_is_refused_with_its_name(name: str, robot: Quadrotor) -> None:
    with pytest.raises(UserError, match="gyroscopc"):
        quadrotor_vector(name, robot, 2, RATE_HZ, gyroscopc=True)
