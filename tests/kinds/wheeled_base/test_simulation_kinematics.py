"""Twists become wheel targets and come back, within the limits of base and joints."""

from __future__ import annotations

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.wheeled_base.simulation_kinematics import (
    TwistRamp,
    base_twist,
    limited_twist,
    measured,
    wheel_speeds,
)
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.robots.joints import clip_targets, rest_positions
from rlstack.robots.mjcf import mujoco_spec
from rlstack.sim.batch_wheeled_base.dynamics import WheeledBaseModel, advance
from rlstack.sim.batch_wheeled_base.layout import PARAMETERS, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.parameters import nominal
from tests.support.robots import car

TWISTS = st.tuples(st.floats(-1.5, 1.5), st.floats(-2.5, 2.5)).map(np.array)


def base(name: str) -> WheeledBase:
    robot = load_robot(name)
    assert isinstance(robot, WheeledBase)
    return robot


def test_a_differential_base_turns_left_by_its_right_wheel() -> None:
    burger = base("turtlebot3_burger")
    np.testing.assert_allclose(wheel_speeds(burger, np.array([0.1, 0.0])), [0.1 / 0.033] * 2)
    np.testing.assert_allclose(wheel_speeds(burger, np.array([0.0, 1.0])), [-0.08 / 0.033, 0.08 / 0.033])
    # A base that skids needs more.
    husky = wheel_speeds(base("husky"), np.array([0.0, 1.0]))
    np.testing.assert_allclose(husky, 1.875 * 0.2854 / 0.17775 * np.array([-1.0, 1.0, -1.0, 1.0]))


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(["turtlebot3_burger", "husky"]), TWISTS)
def test_wheels_tell_of_the_twist_that_they_were_given(name: str, twist: np.ndarray) -> None:
    robot = base(name)
    targets = wheel_speeds(robot, twist)
    assert np.abs(targets).max() <= robot.wheel_drive.velocity_max_rad_s * (1.0 + 1e-12)
    wanted, found = limited_twist(robot, twist), base_twist(robot, targets)
    # Slowed alike: the same path, at most as fast.
    assert abs(wanted[0] * found[1] - wanted[1] * found[0]) < 1e-9
    assert np.all(np.abs(found) <= np.abs(wanted) + 1e-9)
    if np.abs(targets).max() < 0.999 * robot.wheel_drive.velocity_max_rad_s:
        np.testing.assert_allclose(found, wanted, atol=1e-9)


@settings(deadline=None, max_examples=100)
@given(TWISTS, st.sampled_from([0.0, 0.1]))
def test_every_wheel_of_an_ackermann_base_points_along_its_own_circle(twist: np.ndarray, axle: float) -> None:
    robot = car()
    moved = [replace(w, position_m=(w.position_m[0] + axle, *w.position_m[1:])) for w in robot.wheels]
    robot = replace(robot, wheels=tuple(moved))
    targets = dict(zip([joint.name for joint in robot.drives], wheel_speeds(robot, twist)))
    speed, turn = base_twist(robot, np.array(list(targets.values())))
    assert abs(speed - np.clip(twist[0], -2.0, 2.0)) < 1e-9  # its wheels are fast enough for all of these
    for wheel in robot.wheels:
        x, y = wheel.position_m[0] - robot.axle_m, wheel.position_m[1]
        along = np.array([speed - turn * y, turn * x])  # velocity of the wheel's centre
        angle = targets[wheel.steering] if wheel.steering else 0.0
        assert abs(angle) <= 0.6 + 1e-12
        assert abs(-math.sin(angle) * along[0] + math.cos(angle) * along[1]) < 1e-9  # none slides sideways
        rolled = math.cos(angle) * along[0] + math.sin(angle) * along[1]
        if wheel.driven:
            assert abs(targets[wheel.name] * wheel.radius_m - rolled) < 1e-9
        else:
            assert targets[wheel.name] == 0.0
    if abs(twist[0]) > 1e-3:
        # As tight as was asked, or as the steering can.
        wanted, got = twist[1] / twist[0], turn / speed
        assert abs(got - wanted) < 1e-6 or abs(got) < abs(wanted)


def test_standing_an_ackermann_base_only_steers() -> None:
    targets = wheel_speeds(car(), np.array([0.0, 1.0]))
    assert targets[0] == pytest.approx(0.6)  # the inner wheel, on the left, as far as it goes
    assert 0.0 < targets[2] < 0.6
    np.testing.assert_array_equal(targets[[1, 3, 4, 5]], 0.0)


def test_twists_are_within_speed_and_acceleration() -> None:
    robot = base("turtlebot3_burger")
    np.testing.assert_allclose(limited_twist(robot, np.array([9.0, -9.0])), [0.22, -2.84])
    np.testing.assert_allclose(limited_twist(robot, np.array([9.0, -9.0]), np.zeros(2), 0.05), [0.05, -0.3])


def test_joint_targets_stay_in_range_and_are_what_each_joint_is_driven_by() -> None:
    robot = car()
    np.testing.assert_allclose(clip_targets(robot.drives, np.full(6, 9.0)), [0.6, 9.0, 0.6, 9.0, 9.0, 9.0])
    arm = load_robot("panda")
    low = clip_targets(arm.drives, np.full(9, -9.0))
    np.testing.assert_allclose(low, [joint.lower for joint in arm.drives])
    np.testing.assert_allclose(clip_targets(arm.drives, rest_positions(arm.drives)), rest_positions(arm.drives))
    np.testing.assert_allclose(measured(robot, np.arange(6.0), 10.0 + np.arange(6.0)), [0, 0, 2, 0, 14, 15])


@pytest.mark.parametrize("twist", [(0.5, 0.0), (0.6, 0.8), (-0.5, 0.6), (0.8, -1.0)])
def test_in_an_engine_a_base_moves_as_its_wheels_were_told(twist: tuple[float, float]) -> None:
    robot = car()
    model = mujoco_spec(robot).compile()
    data = mujoco.MjData(model)
    targets = wheel_speeds(robot, np.array(twist))
    driven = [i for i, joint in enumerate(robot.drives) if joint.mode != "free"]
    data.ctrl[:] = targets[driven]
    mujoco.mj_step(model, data, 1500)
    turn = data.body("base_link").xmat.reshape(3, 3)
    forward, turning = float(turn[:, 0] @ data.qvel[:3]), float(data.qvel[5])
    assert forward == pytest.approx(twist[0], abs=0.05 * abs(twist[0]))
    assert turning == pytest.approx(twist[1], abs=0.08 * max(abs(twist[1]), 0.1))
    told = base_twist(robot, measured(robot, data.qpos[7:], data.qvel[6:]))
    np.testing.assert_allclose(told, [forward, turning], atol=0.05)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(-3.0, 3.0)), min_size=1, max_size=6),
    st.sampled_from([None, 0.5, 4.0]),
    st.sampled_from([0.0, 0.03]),
)
def test_a_ramp_keeps_to_the_limits_and_comes_to_the_command(
    commands: list[tuple[float, float]], jerk: float | None, delay_s: float
) -> None:
    robot = base("turtlebot3_burger")
    limits = replace(robot.limits, linear_jerk_m_s3=jerk, angular_jerk_rad_s3=jerk)
    response = replace(robot.response, command_delay_s=delay_s)
    robot = replace(robot, limits=limits, response=response)
    ramp, step_s, time_s = TwistRamp(robot), 0.004, 0.0
    came = []
    for command in commands:
        ramp.command(np.array(command), time_s)
        for _ in range(50):
            ramp.step(time_s, step_s)
            time_s += step_s
            came.append(ramp.twist)
    rates = np.diff([np.zeros(2), *came], axis=0) / step_s
    most = np.array([limits.linear_acceleration_m_s2, limits.angular_acceleration_rad_s2])
    assert (np.abs(rates) <= most * (1.0 + 1e-6)).all()
    late = round(delay_s / step_s)
    assert not np.any(came[:late])
    if jerk is not None:
        assert np.abs(np.diff(rates, axis=0)).max() <= jerk * step_s * 1.01 + 1e-6
    for _ in range(5000):
        ramp.step(time_s, step_s)
        time_s += step_s
    assert ramp.twist.tolist() == list(commands[-1]) and not ramp.step(time_s, step_s)
    ramp.command(np.array([9.0, 9.0]), time_s)
    ramp.restart(np.array([0.1, 0.2]))
    assert not ramp.step(time_s + 1.0, step_s) and ramp.twist.tolist() == [0.1, 0.2]


def test_the_ramp_is_that_of_the_batch_simulator() -> None:
    robot = base("husky")
    robot = replace(robot, limits=replace(robot.limits, linear_jerk_m_s3=8.0, angular_jerk_rad_s3=20.0))
    model = WheeledBaseModel(0.05, "differential", substeps=1)
    parameters = nominal(robot, 1)
    parameters[PARAMETERS["jerk"]] = [[8.0], [20.0]]
    state = np.zeros((STATE_WIDTH, 1), dtype=np.float32)
    state[STATE["turn"].stop - 1] = 1.0
    ramp = TwistRamp(robot)
    for k, command in enumerate([(0.9, 1.0)] * 20 + [(-0.3, -1.0)] * 20 + [(0.0, 0.0)] * 40):
        if k in (0, 20, 40):
            ramp.command(np.array(command), 0.05 * k)
        ramp.step(0.05 * k, 0.05)
        state = advance(state, parameters, [np.array(command, dtype=np.float32)[:, None]], model)
        np.testing.assert_allclose(ramp.twist, state[STATE["setpoint"]][[0, 2], 0], atol=1e-4)
