"""One robot of a simulation: what it senses depends on what is simulated, and not on who else is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.backends.mujoco import MujocoBackend, MujocoEngine
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation
from rlstack.sim.world import load_world

ROBOT = load_quadrotor("crazyflie")


def test_a_battery_is_sensed_where_it_is_simulated(tmp_path: Path) -> None:
    path = tmp_path / "draining.yaml"
    path.write_text("generator: empty\nphysics: {battery: true}\n")
    backend = MujocoBackend(ROBOT, world=load_world(path))
    backend.connect()
    full = backend.read().signals
    backend.write({"rotor_speed": np.full(4, 2000.0)})
    backend.step(1.0)
    used = backend.read().signals
    assert set(used) == set(backend.sensed)
    assert used["battery_voltage"] < full["battery_voltage"] < 4.3 and full["battery_percentage"] == 1.0
    assert used["battery_current"] < -1.0 and used["battery_percentage"] < 1.0
    assert "battery_voltage" not in MujocoBackend(ROBOT).sensed


def test_readings_of_several_robots_are_those_of_the_simulation_at_every_instant() -> None:
    simulation = Simulation(MujocoEngine, [ROBOT] * 3)
    robots = [SimulatedRobot(simulation, k) for k in range(3)]
    robots[0].connect()
    for period in range(20):
        for k, robot in enumerate(robots):
            robot.write({"rotor_speed": np.full(4, 1700.0 + 100.0 * k)})
        simulation.step(0.01)
        if period == 10:
            robots[1].reset({"position": [0.0, 0.0, 2.0], "linear_velocity": [1.0, 0.0, 0.0]})
        state = simulation.state()
        for k, robot in enumerate(robots):
            signals = robot.read().signals
            for name in ("position", "orientation", "angular_velocity"):
                np.testing.assert_array_equal(signals[name], state[name][k])
            np.testing.assert_array_equal(signals["measured_rotor_speed"], state["rotor_speed"][k])
        speed = np.linalg.norm(robots[1].read().signals["linear_velocity"])
        assert period != 10 or speed == 1.0
