"""The rotors of an arm's motors in PyBullet: they add to their own joint's inertia, as in MuJoCo, and to no other's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has wheels up to Python 3.11 only")

from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.backends.mujoco import MujocoBackend
from rlstack.sim.backends.pybullet import PybulletBackend
from rlstack.sim.simulated_robot import SimulatedRobot
from tests.support.bullet import built

SIZE, WITHIN = 0.04, 0.05
"""Of a step that joints are told to make, rad, or a tenth of it in m; by which share of it engines may differ."""


def heavier() -> RobotSpec:
    """Return a Panda with rotors, whose first three are lighter than those after them; its fingers have them, too."""
    arm = load_robot("panda")
    own = [0.05, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1]
    joints = [replace(joint, armature_kg_m2=rotor) for joint, rotor in zip(arm.joints, own)]  # type: ignore[attr-defined]
    # MuJoCo's drives know no greatest speed, and the fingers' is low
    fingers = [replace(finger, armature_kg=0.1, velocity_max_m_s=0.2) for finger in arm.gripper]  # type: ignore[attr-defined]
    return replace(arm, joints=joints, gripper=fingers)  # type: ignore[call-arg]


def answered(backend: Callable[[RobotSpec], SimulatedRobot], robot: RobotSpec, step: np.ndarray) -> np.ndarray:
    """Return where the joints are from where they began, every 10 ms after their targets made a step."""
    one = backend(robot)
    one.connect()
    one.reset()
    rest = np.array([drive.rest for drive in robot.drives])  # type: ignore[attr-defined]
    one.write({"joint_target": rest})
    one.step(0.5)
    before = one.read().signals["joint_position"].copy()
    one.write({"joint_target": rest + step})
    went = []
    for _ in range(40):
        one.step(0.01)
        went.append(one.read().signals["joint_position"] - before)
    one.close()
    return np.array(went)


@pytest.mark.parametrize(
    "moved", [[0], [1], [2], [3], [4], [5], [1, 2, 3]], ids=["pan", "lift", "elbow", "wrist", "roll", "jaw", "all"]
)
def test_a_step_of_the_so100_is_answered_as_in_mujoco(moved: list[int]) -> None:
    step = np.zeros(6)
    step[moved] = SIZE
    robot = load_robot("so100")
    here, there = (answered(backend, robot, step) for backend in (PybulletBackend, MujocoBackend))
    np.testing.assert_allclose(here, there, rtol=0.0, atol=WITHIN * SIZE)
    assert there[-1, moved].min() > 0.9 * SIZE


@pytest.mark.parametrize("moved", [[1], [3], [5], [7, 8]], ids=["shoulder", "elbow", "wrist", "fingers"])
def test_rotors_of_turning_and_sliding_joints_are_as_heavy_as_in_mujoco(moved: list[int]) -> None:
    pytest.importorskip("pybullet_data", reason="it carries the arm's model")
    step = np.zeros(9)
    size = SIZE if moved[0] < 7 else -SIZE / 10.0
    step[moved] = size
    robot = heavier()
    here, there = (answered(backend, robot, step) for backend in (PybulletBackend, MujocoBackend))
    np.testing.assert_allclose(here, there, rtol=0.0, atol=WITHIN * abs(size))


def test_a_lifted_arm_with_rotors_holds_its_place() -> None:
    robot = replace(load_robot("so100"), gravity_compensation=True)  # type: ignore[call-arg]
    engine = built(robot, world=None)
    rest = np.array([drive.rest for drive in robot.drives])  # type: ignore[attr-defined]
    engine.place_joints(0, rest, np.zeros(6))
    engine.drive(0, "position", rest)
    for _ in range(500):
        engine.step()
    np.testing.assert_allclose(engine.joints(0).position, rest, atol=1e-6)


@pytest.mark.parametrize("step_s", [1e-3, 5e-3])
def test_an_arm_with_rotors_comes_to_rest_where_it_is_pressed_against_the_floor(step_s: float) -> None:
    robot = load_robot("so100")
    engine = built(robot, world=None, step_s=step_s)
    rest = np.array([drive.rest for drive in robot.drives])  # type: ignore[attr-defined]
    engine.place_joints(0, rest, np.zeros(6))
    engine.drive(0, "position", rest + np.array([0.0, 0.9, 0.0, 0.0, 0.0, -0.8]))
    for _ in range(round(2.0 / step_s)):
        engine.step()
    assert engine.touching(0)
    np.testing.assert_allclose(engine.joints(0).velocity, 0.0, atol=1e-6)
    np.testing.assert_array_less(np.abs(engine.joints(0).effort), 1.91 + 1e-6)
