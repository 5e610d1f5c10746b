"""Pushes of simulated robots, in the air and on wheels."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.interfaces.backend import BACKENDS
from rlstack.robots import load_robot


@pytest.mark.parametrize("name", ["crazyflie", "turtlebot3_burger"])
def test_a_push_accelerates_by_its_force_over_the_mass_and_ends(name: str) -> None:
    robot = BACKENDS.load("mujoco")(load_robot(name))
    robot.connect()
    simulation = robot.simulation
    level = {"position": [0.0, 0.0, 3.0]}
    robot.reset(level)
    mass = simulation.engine.mass_properties(0).mass_kg
    simulation.push(0, [0.0, 0.0, 2.0 * mass], [0.0, 0.0, 0.0], 0.1)
    robot.step(0.1)
    pushed = simulation.motion(0)["linear_velocity"][2]
    robot.step(0.1)
    free = simulation.motion(0)["linear_velocity"][2] - pushed
    assert pushed == pytest.approx(-0.1 * (9.81 - 2.0), abs=0.1)
    assert free == pytest.approx(-0.98, abs=0.1)  # less the air that it meets
    with pytest.raises(ValueError, match="finite"):
        simulation.push(0, [np.nan, 0.0, 0.0], [0.0, 0.0, 0.0], 0.1)
    robot.close()


def test_the_next_push_replaces_the_one_before() -> None:
    robot = BACKENDS.load("mujoco")(load_robot("turtlebot3_burger"))
    robot.connect()
    robot.reset({"position": [0.0, 0.0, 3.0]})
    robot.simulation.push(0, [0.0, 0.0, 500.0], [0.0, 0.0, 0.0], 10.0)
    robot.simulation.push(0, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0.0)
    robot.step(0.1)
    assert robot.simulation.motion(0)["linear_velocity"][2] == pytest.approx(-0.98, abs=0.02)
    robot.close()
