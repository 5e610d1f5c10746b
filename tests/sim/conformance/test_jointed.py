"""What every simulator promises of robots with joints: bases that drive, arms that hold, joints in the file's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import RobotSpec, frames, load_robot
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation
from tests.support.worlds import VOID


@pytest.fixture
def jointed(make_of: Callable[..., Backend]) -> Callable[[RobotSpec], Any]:
    """Return a function that makes a connected backend of a robot with joints."""

    def connected(robot: RobotSpec) -> Any:
        backend = make_of(robot)
        backend.connect()
        return backend

    return connected


@pytest.fixture
def base(jointed: Callable[[RobotSpec], Any]) -> Any:
    return jointed(load_robot("turtlebot3_burger"))


@pytest.fixture
def arm(jointed: Callable[[RobotSpec], Any]) -> Any:
    pytest.importorskip("pybullet_data", reason="it carries the arm's model")
    return jointed(load_robot("panda"))


def test_a_base_stands_still_on_its_wheels(base: Any) -> None:
    base.step(1.0)
    signals = base.read().signals
    np.testing.assert_allclose(signals["position"], [0.0, 0.0, base.robot.rest_height_m], atol=1e-3)
    np.testing.assert_allclose(signals["linear_velocity"], np.zeros(3), atol=1e-3)
    np.testing.assert_allclose(signals["linear_acceleration"], [0.0, 0.0, 9.81], atol=0.05)


@pytest.mark.parametrize("speed", [0.15, -0.1])
def test_a_twist_drives_forward_and_backward_as_geometry_says(base: Any, speed: float) -> None:
    sent = base.write({"twist": np.array([speed, 0.0])})
    np.testing.assert_allclose(sent["twist"], [speed, 0.0], atol=1e-9)
    base.step(2.0)
    signals = base.read().signals
    assert signals["linear_velocity"][0] == pytest.approx(speed, rel=0.05)
    assert signals["position"][0] == pytest.approx(2.0 * speed, rel=0.1)
    np.testing.assert_allclose(signals["wheel_twist"], [speed, 0.0], atol=0.01)
    radius = base.robot.wheels[0].radius_m
    driven = [joint.mode == "velocity" for joint in base.robot.drives]
    np.testing.assert_allclose(signals["joint_velocity"][driven], speed / radius, rtol=0.05)


def test_a_positive_turn_is_to_the_left(base: Any) -> None:
    base.write({"twist": np.array([0.0, 0.8])})
    base.step(1.0)
    signals = base.read().signals
    assert signals["angular_velocity"][2] == pytest.approx(0.8, rel=0.15)
    assert 0.5 < frames.yaw(signals["orientation"]) < 0.9


def test_a_twist_beyond_the_limits_is_clipped_and_said(base: Any) -> None:
    sent = base.write({"twist": np.array([50.0, 0.0])})["twist"]
    assert sent[0] == pytest.approx(base.robot.limits.linear_velocity_m_s, rel=0.05)


def test_a_bad_twist_is_refused(base: Any) -> None:
    for twist in ([np.nan, 0.0], [0.1], [0.1, 0.0, 0.0]):
        with pytest.raises(ValueError, match="twist"):
            base.write({"twist": np.array(twist)})


def test_disarm_brakes(base: Any) -> None:
    base.write({"twist": np.array([0.2, 0.0])})
    base.step(1.0)
    base.disarm()
    base.step(1.0)
    assert np.linalg.norm(base.read().signals["linear_velocity"]) < 0.01


def test_a_base_is_put_where_it_is_told(base: Any) -> None:
    turned = frames.from_yaw(np.array(1.0))
    base.reset({"position": [1.0, -2.0, base.robot.rest_height_m], "orientation": turned})
    base.write({"twist": np.array([0.2, 0.0])})
    base.step(1.0)
    moved = base.read().signals["position"] - [1.0, -2.0, base.robot.rest_height_m]
    assert np.arctan2(moved[1], moved[0]) == pytest.approx(1.0, abs=0.05)


def test_an_arm_is_at_rest_at_first_with_its_joints_in_the_files_order(arm: Any) -> None:
    names = arm.simulation.engine.joint_names(0)
    assert names == tuple(joint.name for joint in arm.robot.drives)
    rest = np.array([joint.rest for joint in arm.robot.drives])
    np.testing.assert_allclose(arm.read().signals["joint_position"], rest, atol=1e-6)


def test_each_joint_of_an_arm_moves_by_its_own_number(arm: Any) -> None:
    before = arm.read().signals["joint_position"]
    turned = np.array([*0.08 * np.arange(1, 8), 0.0, 0.0])  # each joint is known by how far it goes
    target = before + turned
    np.testing.assert_allclose(arm.write({"joint_target": target})["joint_target"], target)
    arm.step(1.5)
    np.testing.assert_allclose(arm.read().signals["joint_position"] - before, turned, atol=0.035)


def test_an_arms_targets_are_clipped_to_its_ranges(arm: Any) -> None:
    sent = arm.write({"joint_target": np.full(len(arm.robot.drives), 50.0)})["joint_target"]
    np.testing.assert_allclose(sent, [joint.upper for joint in arm.robot.drives])


def test_an_arm_is_put_where_it_is_told_and_holds_it(arm: Any) -> None:
    wanted = arm.read().signals["joint_position"]
    wanted[[0, 3]] += [0.5, 0.3]
    arm.reset({"joint_position": wanted})
    np.testing.assert_allclose(arm.read().signals["joint_position"], wanted, atol=1e-6)
    arm.step(1.0)
    np.testing.assert_allclose(arm.read().signals["joint_position"], wanted, atol=0.002)
    with pytest.raises(ValueError, match="joint_position"):
        arm.reset({"joint_position": np.zeros(2)})


def test_an_arm_that_is_stopped_again_and_again_does_not_sink(jointed: Callable[[RobotSpec], Any]) -> None:
    arm = jointed(load_robot("so100"))  # nothing but its stiffness holds it up

    def joints() -> Any:
        return arm.read().signals["joint_position"]

    arm.write({"joint_target": joints()})
    arm.step(0.5)
    held = joints()
    for _ in range(100):
        arm.disarm()
        arm.step(0.01)
    np.testing.assert_allclose(joints(), held, atol=0.011)  # once what it sags by
    for begin_anew in (lambda: arm.write({"joint_target": held + 0.1}), arm.reset):  # then a stop is a new one
        begin_anew()
        arm.step(1.0)
        moved = joints()
        arm.disarm()
        arm.step(0.5)
        np.testing.assert_allclose(joints(), moved, atol=0.011)


def test_an_arm_that_is_stopped_on_its_way_stays_where_it_was(arm: Any) -> None:
    fingers = np.array(arm.robot.gripping)
    arm.write({"joint_target": arm.read().signals["joint_position"] + np.where(fingers, 0.0, 0.5)})
    arm.step(0.1)
    stopped = arm.read().signals["joint_position"]
    for _ in range(150):
        arm.disarm()
        arm.step(0.01)
    np.testing.assert_allclose(arm.read().signals["joint_position"], stopped, atol=0.02)


def test_fingers_of_an_arm_that_is_stopped_hold_on(make_of: Callable[..., Backend], name: str) -> None:
    pytest.importorskip("pybullet_data", reason="it carries the arm's model")
    if name == "isaac":
        pytest.skip("its stand-in's meshes touch nothing")
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    fingers = np.array(robot.gripping)
    rest = np.array([drive.rest for drive in robot.drives])
    tool = tool_motion((chain := chain_of(robot)).screws, rest[None, list(chain.index)]).position[0]
    between = Obstacle(name="bar", shape="box", size_m=(0.02, 0.04, 0.02), position_m=tuple(tool))
    arm: Any = make_of(robot, world=replace(VOID, obstacles=(between,)))
    arm.connect()
    arm.reset({"joint_position": np.where(fingers, 0.03, rest)})
    arm.write({"joint_target": np.where(fingers, 0.0, rest)})
    arm.step(1.0)
    gripped = arm.read().signals["joint_effort"][fingers]
    assert np.abs(gripped).min() > 3.0, gripped  # N
    for _ in range(50):
        arm.disarm()
        arm.step(0.01)
    np.testing.assert_allclose(arm.read().signals["joint_effort"][fingers], gripped, rtol=0.05)


@pytest.mark.parametrize("robot", ["turtlebot3_burger", "husky", "racecar", "panda"])
def test_no_ray_of_a_robot_is_stopped_by_any_of_its_links(jointed: Callable[[RobotSpec], Any], robot: str) -> None:
    if robot == "panda":
        pytest.importorskip("pybullet_data", reason="it carries the arm's model")
    one = jointed(load_robot(robot))
    one.step(0.1)
    x, y, _ = one.simulation.motion(0)["position"]
    angles = np.linspace(0.0, 2.0 * np.pi, 36, endpoint=False)
    around = np.stack([np.cos(angles), np.sin(angles), np.zeros(36)], axis=1)
    for height in (0.02, 0.033, 0.08, 0.2, 0.45):
        reach = one.simulation.engine.cast(0, np.tile([x, y, height], (36, 1)), around, 5.0)
        np.testing.assert_array_equal(reach, np.full(36, np.inf), err_msg=f"at {height} m")
    down = one.simulation.engine.cast(0, np.array([[x, y, 2.0]]), np.array([[0.0, 0.0, -1.0]]), 5.0)
    np.testing.assert_allclose(down, 2.0, atol=1e-3, err_msg="through all of it, down to the floor")


def test_rays_meet_the_links_of_another_robot(name: str) -> None:
    robots = [load_robot("turtlebot3_burger")] * 2
    simulation = Simulation(BACKENDS.load(name).engine, robots, starts_m=[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    simulation.open()
    try:
        wheel = robots[1].wheels[0]
        ray = np.array([[0.0, wheel.position_m[1], wheel.radius_m]])
        expected = 1.0 + wheel.position_m[0] - wheel.radius_m
        for _ in range(2):  # asking twice changes nothing
            reach = simulation.engine.cast(0, ray, np.array([[1.0, 0.0, 0.0]]), 5.0)
            np.testing.assert_allclose(reach, expected, atol=0.01)
    finally:
        simulation.close()


def test_resetting_the_only_robot_puts_back_what_it_pushed(make_of: Callable[..., Backend]) -> None:
    crate = Obstacle(
        name="crate", shape="box", size_m=(0.1, 0.1, 0.1), position_m=(0.25, 0.0, 0.05), yaw_rad=0.3, mass_kg=0.05
    )
    world = replace(VOID, floor=True, obstacles=(crate,))
    base: Any = make_of(load_robot("turtlebot3_burger"), world=world)
    base.connect()

    def to_crate() -> float:
        ray = np.array([[0.25, 1.0, 0.05]]), np.array([[0.0, -1.0, 0.0]])
        return float(base.simulation.engine.cast(0, *ray, 5.0)[0])

    first = to_crate()
    assert first == pytest.approx(1.0 - 0.05 / np.cos(0.3), abs=2e-3), "it begins where the world says"
    base.write({"twist": np.array([0.2, 0.0])})
    base.step(1.5)
    assert not np.isfinite(to_crate())
    base.reset()
    assert to_crate() == pytest.approx(first, abs=1e-4)
    base.step(0.25)
    assert to_crate() == pytest.approx(first, abs=2e-3), "it has come to rest as well"


def test_different_kinds_share_a_world(name: str) -> None:
    robots = [load_robot("crazyflie"), load_robot("turtlebot3_burger"), load_robot("crazyflie")]
    simulation = Simulation(BACKENDS.load(name).engine, robots)
    simulation.open()
    try:
        first, base, last = (SimulatedRobot(simulation, k) for k in range(3))
        places = [robot.read().signals["position"].copy() for robot in (first, base, last)]
        base.write({"twist": np.array([0.2, 0.0])})
        last.write({"rotor_speed": np.full(4, 1700.0)})
        simulation.step(1.0)
        moved = [robot.read().signals["position"] - at for robot, at in zip((first, base, last), places)]
        np.testing.assert_allclose(moved[0], np.zeros(3), atol=1e-3)
        speeding_up = 0.2**2 / (2.0 * base.robot.limits.linear_acceleration_m_s2)
        assert moved[1][0] == pytest.approx(0.2 - speeding_up, rel=0.03)
        assert moved[2][2] > 0.2
    finally:
        simulation.close()
