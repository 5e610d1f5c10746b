"""A simulation of several robots: each is its own, whoever else is there, and asked for by a number there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import load_robot
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.engine import Engine
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation
from tests.support.robots import crazyflie

PLAIN = load_quadrotor("crazyflie")


def with_models(on: bool) -> Quadrotor:
    """Return a Crazyflie that has numbers for all models, and has all of them on or off."""
    robot = crazyflie()
    assert robot.aerodynamics is not None and robot.battery is not None
    sections = {name: getattr(robot.aerodynamics, name) for name in ("ground_effect", "rotor_drag", "downwash")}
    switched = {name: replace(section, enabled=on) for name, section in sections.items() if section is not None}
    assert len(switched) == 3
    air = replace(robot.aerodynamics, **switched)
    return replace(robot, aerodynamics=air, battery=replace(robot.battery, enabled=on))


def flown(robots: list[Quadrotor], isolated: bool = True) -> dict[str, np.ndarray]:
    """Return the first robot's motion after a fast flight near the floor, above what its file lets rotors turn."""
    simulation = Simulation(MujocoEngine, robots, isolated=isolated)
    simulation.open()
    speed = np.full(4, 1.1 * robots[0].rotor_model.speed_max_rad_s)
    simulation.reset(0, {"position": [0.0, 0.0, 0.06], "linear_velocity": [2.0, 0.0, 0.0], "rotor_speed": speed})
    simulation.step(0.2)
    motion = {**simulation.motion(0), "rotor_speed": simulation.state()["rotor_speed"][0]}
    simulation.close()
    return motion


def test_a_robot_flies_with_its_own_models_whoever_else_is_there() -> None:
    off, on = with_models(False), with_models(True)
    alone = {on: flown([robot]) for on, robot in ((False, off), (True, on))}
    assert np.abs(alone[False]["position"] - alone[True]["position"]).max() > 1e-3
    for isolated in (True, False):
        for mine, robots in ((False, [off, on]), (True, [on, off])):
            beside = flown(robots, isolated)
            for name, array in alone[mine].items():
                np.testing.assert_allclose(beside[name], array, atol=1e-12, err_msg=f"{name} {mine} {isolated}")


def test_a_battery_is_sensed_and_drawn_from_by_those_alone_whose_file_has_it_on() -> None:
    simulation = Simulation(MujocoEngine, [with_models(True), with_models(False)], isolated=True)
    drawn, spared = (SimulatedRobot(simulation, k) for k in range(2))
    assert "battery_voltage" in drawn.sensed and "battery_voltage" not in spared.sensed
    drawn.connect()
    top = PLAIN.rotor_model.speed_max_rad_s
    for robot in (drawn, spared):
        robot.write({"rotor_speed": np.full(4, top)})
    simulation.step(2.0)
    assert drawn.read().signals["battery_percentage"] < 1.0
    assert drawn.read().signals["measured_rotor_speed"].max() < 0.99 * top
    np.testing.assert_allclose(spared.read().signals["measured_rotor_speed"], top, rtol=1e-5)


@pytest.fixture
def two() -> Simulation:
    simulation = Simulation(MujocoEngine, [PLAIN] * 2, isolated=True)
    simulation.open()
    return simulation


@pytest.mark.parametrize("index", [-1, 2, 9, 1.0, True, None])
def test_a_robot_that_there_is_not_cannot_be_reset(two: Simulation, index: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        two.reset(index)
    two.reset(np.int64(1))


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ([9], "from 0 to 1"),
        ([-1], "from 0 to 1"),
        ([0, 0], "twice"),
        ([True], "list of"),
        ([0.0], "list of"),
        (0, "list"),
    ],
)
def test_robots_that_there_are_not_have_no_state_and_no_perturbation(two: Simulation, index: Any, says: str) -> None:
    count = len(np.atleast_1d(index))
    with pytest.raises(ValueError, match=says):
        two.set_state({"position": np.ones((count, 3))}, np.array(index))
    with pytest.raises(ValueError, match=says):
        two.set_perturbation(Perturbation.none(count), np.array(index))


def test_no_robots_at_all_is_nothing_to_do(two: Simulation) -> None:
    before = two.state()["position"]
    two.set_state({"position": np.ones((0, 3))}, np.array([]))
    two.set_perturbation(Perturbation.none(0), np.array([]))
    np.testing.assert_array_equal(two.state()["position"], before)


def test_what_is_for_quadrotors_says_so_where_there_is_none() -> None:
    simulation = Simulation(MujocoEngine, [load_robot("turtlebot3_burger")])
    calls = (
        simulation.state,
        lambda: simulation.set_state({"position": np.ones((1, 3))}),
        lambda: simulation.command(np.zeros((1, 4))),
        lambda: simulation.set_perturbation(Perturbation.none(1)),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match="not open"):
            call()
    simulation.open()
    for call in calls:
        with pytest.raises(ValueError, match="no quadrotor in this simulation"):
            call()


def test_robots_may_be_given_other_masses_at_once_and_hold_them(two: Simulation) -> None:
    scale = np.array([0.8, 1.3])
    two.set_perturbation(replace(Perturbation.none(2), mass_scale=scale, inertia_scale=np.outer(scale, np.ones(3))))
    engine: Engine = two.engine
    for index in range(2):
        held = engine.mass_properties(index)
        assert held.mass_kg == pytest.approx(scale[index] * PLAIN.body.mass_kg)
        np.testing.assert_allclose(np.diag(held.inertia_kg_m2), scale[index] * np.array(PLAIN.body.inertia_kg_m2))
    assert isinstance(engine, MujocoEngine)
    two.step(0.001)
    bodies = [engine.model.body(f"{k}/base_link").id for k in range(2)]
    weights = engine.model.body_invweight0[bodies, 0] * scale * PLAIN.body.mass_kg
    np.testing.assert_allclose(weights, 1.0, err_msg="what MuJoCo derives from the masses follows them")
