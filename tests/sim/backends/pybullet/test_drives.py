"""Joints in PyBullet with the gains and limits of the robot files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has wheels up to Python 3.11 only")

from rlstack.robots import frames, load_robot
from tests.support.bullet import STEP_S, body, built, states


@pytest.mark.parametrize("compensated", [False, True])
def test_an_arm_holds_its_targets_as_its_gains_say(compensated: bool) -> None:
    arm = replace(load_robot("panda"), gravity_compensation=compensated)  # type: ignore[call-arg]
    engine = built(arm, world=None)
    drives = arm.drives  # type: ignore[attr-defined]
    assert engine.joint_names(0) == tuple(drive.name for drive in drives)
    rest = np.array([drive.rest for drive in drives])
    engine.place_joints(0, rest, np.zeros(len(rest)))
    np.testing.assert_allclose(engine.joints(0).position, rest)
    target = rest + np.array([0.2, 0.1, -0.2, 0.2, 0.2, -0.2, 0.3, -0.01, -0.01])
    engine.drive(0, "position", target)
    for _ in range(4000):
        engine.step()
    state = engine.joints(0)
    np.testing.assert_allclose(state.velocity, 0.0, atol=1e-3)
    np.testing.assert_allclose(state.position, target, atol=0.06)
    # against gravity a drive of this stiffness gives way by the torque that it holds
    held = np.array([drive.stiffness for drive in drives]) * (target - state.position)
    np.testing.assert_allclose(state.effort, held, atol=0.05)
    assert (np.abs(state.effort).max() > 5.0) != compensated


def test_a_drive_gives_no_more_than_its_effort_and_no_joint_is_braked_without() -> None:
    base = load_robot("husky")
    engine = built(base)
    drives = base.drives  # type: ignore[attr-defined]
    engine.place(0, body((0.0, 0.0, 5.0)))
    engine.place_joints(0, np.zeros(4), np.full(4, 3.0))
    for _ in range(100):
        engine.step()
    np.testing.assert_allclose(engine.joints(0).velocity, 3.0, rtol=1e-6)
    engine.drive(0, "velocity", np.full(4, -9.0))
    engine.step()
    np.testing.assert_allclose(engine.joints(0).effort, -drives[0].effort_max, rtol=1e-6)
    engine.drive(0, "effort", np.array([1.0, -2.0, 1e3, -1e3]))
    engine.step()
    top = drives[0].effort_max
    np.testing.assert_allclose(engine.joints(0).effort, [1.0, -2.0, top, -top])
    engine.place(0, body((0.0, 0.0, 5.0)))
    np.testing.assert_array_equal(engine.joints(0).velocity, np.zeros(4))


@pytest.mark.parametrize("name", ["turtlebot3_burger", "husky"])
@pytest.mark.parametrize("step_s", [1e-3, 1.0 / 240.0])
def test_a_base_rolls_as_fast_as_its_wheels_turn(name: str, step_s: float) -> None:
    base = load_robot(name)
    engine = built(base, world=None, step_s=step_s)
    start = body((0.5, 0.2, base.rest_height_m), velocity=(0.1, 0.2, 0.0), rates=(0.1, 0.2, 0.3))  # type: ignore[attr-defined]
    engine.place(0, start)
    np.testing.assert_allclose(states(engine)[0], start, atol=1e-14)
    engine.place(0, body((0.5, 0.2, base.rest_height_m)))  # type: ignore[attr-defined]
    engine.drive(0, "velocity", np.full(len(engine.joint_names(0)), 3.0))
    for _ in range(round(1.5 / step_s)):
        engine.step()
    (state,) = states(engine)
    assert state[7] == pytest.approx(3.0 * base.wheels[0].radius_m, rel=0.01)  # type: ignore[attr-defined]
    assert state[2] == pytest.approx(base.rest_height_m, abs=2e-3)  # type: ignore[attr-defined]
    np.testing.assert_allclose(engine.joints(0).velocity, 3.0, rtol=0.01)
    assert abs(frames.yaw(state[3:7])) < 0.02


def test_a_pushed_base_moves_as_one_whose_centre_of_mass_is_not_its_origin() -> None:
    base = load_robot("turtlebot3_burger")
    engine = built(base)
    engine.place(0, body((0.0, 0.0, 2.0), frames.from_rotation_vector([0.3, -0.2, 1.1])))
    torque = np.array([[0.0], [0.0], [0.01]])
    engine.push(np.zeros((3, 1)), torque)
    engine.step()
    (state,) = states(engine)
    # about an axis that is nearly principal, through the base's centre of mass
    assert state[12] > 10.0 * np.abs(state[10:12]).max() > 0.0
    expected = np.linalg.solve(engine.mass_properties(0).inertia_kg_m2, torque[:, 0]) * STEP_S
    assert state[12] == pytest.approx(expected[2], rel=0.05)


def test_a_finger_that_is_held_presses_as_its_gains_say_and_a_free_one_keeps_to_its_speed() -> None:
    arm = load_robot("panda")
    engine = built(arm, world=None)
    finger = arm.drives[-1]  # type: ignore[attr-defined]
    rest = np.array([drive.rest for drive in arm.drives])  # type: ignore[attr-defined]
    target = rest.copy()
    target[-2:] = -0.006  # beyond their end, where they are held
    engine.place_joints(0, rest, np.zeros(len(rest)))
    engine.drive(0, "position", target)
    fastest = 0.0
    for _ in range(900):
        engine.step()
        fastest = max(fastest, np.abs(engine.joints(0).velocity[-2:]).max())
    assert 0.95 * finger.velocity_max < fastest <= 1.001 * finger.velocity_max
    np.testing.assert_allclose(engine.joints(0).position[-2:], 0.0, atol=1e-3)
    np.testing.assert_allclose(engine.joints(0).effort[-2:], -0.006 * finger.stiffness, rtol=0.1)
    assert 0.006 * finger.stiffness > 4.0 * finger.damping * finger.velocity_max


@pytest.mark.parametrize("name", ["panda", "so100", "ur5e"])
def test_what_an_arm_grips_has_the_friction_that_is_its_own(name: str) -> None:
    engine = built(load_robot(name))
    bullet, arm = engine._server.bullet, engine._bodies[0]
    for link in range(-1, bullet.getNumJoints(arm)):
        assert bullet.getDynamicsInfo(arm, link)[1] == 1.0  # PyBullet multiplies them
