"""A kind of robot that another package adds, put through file, models, signals and simulation."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.interfaces.kind_signals import command_range, element_names, shape_of
from rlstack.interfaces.signals import COMMANDED, SENSED
from rlstack.kinds import GROUP, find_kind, kind_names
from rlstack.robots import RobotSpec, load_robot
from rlstack.robots.frame_tree import read_frames
from rlstack.robots.kind_models import check_file, mass_properties, rest_height
from rlstack.robots.kinematics import chain_of
from rlstack.robots.mjcf import to_mjcf
from rlstack.robots.model_table import describe_model
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import Appearance
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation

FILE = Path(__file__).resolve().parents[1] / "support" / "walker" / "walker.yaml"
LEGS = ("front_left", "front_right", "rear_left", "rear_right")
HIPS = tuple(f"{leg}_hip" for leg in LEGS)
MOTION = {"position", "orientation", "linear_velocity", "angular_velocity", "linear_acceleration"}


@pytest.fixture
def walker(monkeypatch: pytest.MonkeyPatch) -> RobotSpec:
    entry = EntryPoint("walker", "tests.support.walker", GROUP)
    monkeypatch.setattr("rlstack.kinds.installed", lambda group: (entry,) if group == GROUP else ())
    return load_robot(FILE)


def test_its_kind_is_found_with_the_parts_that_it_has(walker: RobotSpec) -> None:
    assert "walker" in kind_names() and find_kind("walker").has("simulation") and not find_kind("walker").has("guard")
    with pytest.raises(UserError, match="There is no guard for robots of the kind 'walker'"):
        find_kind("walker").load("guard")


def test_its_models_are_those_of_its_file(walker: RobotSpec, tmp_path: Path) -> None:
    assert rest_height(walker) == 0.25
    assert mass_properties(walker).mass_kg == pytest.approx(5.2)
    assert ["front_left_hip", "revolute", "position"] in [
        row.split()[:3] for row in describe_model(walker).splitlines()
    ]
    (tmp_path / "walker.urdf").write_text(to_urdf(walker))
    (tmp_path / "walker.xml").write_text(to_mjcf(walker))
    assert [joint.name for joint in check_file(walker, tmp_path / "walker.urdf").moving] == list(HIPS)
    check_file(walker, tmp_path / "walker.xml")
    assert chain_of(walker, "rear_right_leg").joints == ("rear_right_hip",)
    with pytest.raises(UserError, match="has no link ''"):
        chain_of(walker)


def test_viewers_see_it_move(walker: RobotSpec) -> None:
    text = to_urdf(walker, prefix="w1/", meshes="uri")
    assert set(read_frames(text).frames) >= {"w1/base_link", *(f"w1/{leg}_leg" for leg in LEGS), "w1/eye_optical_frame"}
    still, moved = (Appearance(text).poses({"w1/front_left_hip": angle})[0] for angle in (0.0, 0.5))
    assert (np.abs(moved - still).max(axis=1) > 0.01).sum() == 1


def test_its_signals_are_its_joints(walker: RobotSpec) -> None:
    assert element_names(walker) == {"joints": HIPS}
    assert shape_of(SENSED["joint_position"], walker) == shape_of(COMMANDED["joint_target"], walker) == (4,)
    assert command_range(walker, "joint_target") == ((-1.0,) * 4, (1.0,) * 4)
    with pytest.raises(UserError, match="no limits for the command 'twist'"):
        command_range(walker, "twist")


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_it_stands_moves_its_legs_and_stops(walker: RobotSpec, engine: str) -> None:
    pytest.importorskip(engine)
    robot: Any = BACKENDS.load(engine)(walker)
    robot.connect()
    assert set(robot.commanded) == {"joint_target"}
    assert {*MOTION, "joint_position", "joint_velocity"} <= set(robot.sensed)
    robot.step(1.0)
    signals = robot.read().signals
    assert signals["position"][2] == pytest.approx(0.25, abs=0.01) and abs(signals["linear_velocity"]).max() < 0.01
    np.testing.assert_allclose(signals["linear_acceleration"], [0.0, 0.0, 9.81], atol=0.3)
    mass = robot.simulation.engine.mass_properties(0)
    assert mass.mass_kg == pytest.approx(5.2)
    sent = robot.write({"joint_target": np.array([0.4, 0.4, 0.4, 9.0])})["joint_target"]
    np.testing.assert_allclose(sent, [0.4, 0.4, 0.4, 1.0])
    robot.write({"joint_target": np.full(4, 0.4)})
    robot.step(1.0)
    signals = robot.read().signals
    np.testing.assert_allclose(signals["joint_position"], np.full(4, 0.4), atol=0.1)
    assert signals["position"][2] < 0.248
    robot.disarm()
    held = robot.read().signals["joint_position"]
    robot.step(0.5)
    np.testing.assert_allclose(robot.read().signals["joint_position"], held, atol=0.1)
    robot.reset({"joint_position": np.full(4, 0.1), "position": np.array([1.0, 0.0, 0.5])})
    signals = robot.read().signals
    np.testing.assert_allclose(signals["joint_position"], np.full(4, 0.1), atol=1e-9)
    np.testing.assert_allclose(signals["position"], [1.0, 0.0, 0.5], atol=1e-9)
    robot.close()


def test_it_shares_a_world_with_other_kinds_and_sees_from_its_leg(walker: RobotSpec) -> None:
    robots = [load_robot("crazyflie"), walker, load_robot("turtlebot3_burger"), walker]
    simulation = Simulation(BACKENDS.load("mujoco").engine, robots)
    simulation.open()
    robots_in_it = [SimulatedRobot(simulation, k) for k in range(len(robots))]
    simulation.step(0.2)
    one, other = robots_in_it[1], robots_in_it[3]
    assert {"position", "joint_position"} <= set(one.read().signals)
    place, _ = one._kind.link("front_left_leg")
    expected = one.read().signals["position"] + [0.15, 0.1, 0.0]
    np.testing.assert_allclose(place, expected, atol=0.01)
    one.write({"joint_target": np.full(4, 0.3)})
    simulation.step(0.5)
    assert one.read().signals["joint_position"].min() > 0.2 > abs(other.read().signals["joint_position"]).max()
    with pytest.raises(ValueError, match="is a walker: this is for quadrotors"):
        simulation.set_state({"position": np.zeros((1, 3))}, np.array([1]))
    simulation.close()
