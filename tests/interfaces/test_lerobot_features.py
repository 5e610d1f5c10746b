"""Features in LeRobot's names and units, against what its own arms would show of the same ticks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.servos.calibration import TickScale
from rlstack.hardware.servos.kinds import TICK_RAD
from rlstack.interfaces.lerobot_features import LerobotFeatures
from rlstack.robots import load_robot

SO100, BASE, RATES = load_robot("so100"), load_robot("turtlebot3_burger"), load_robot("crazyflie_rates")
MOVED = np.array([0.5, 1.0, -1.5, 0.2, -2.0, 1.1])


def test_joints_are_named_in_the_file_s_order_and_are_its_own_by_default() -> None:
    features = LerobotFeatures(SO100)
    assert features.inputs == ("joint_position",) and features.command == "joint_target"
    assert features.state_names == features.action_names == tuple(f"{joint.name}.pos" for joint in SO100.drives)
    assert list(features.state({"joint_position": MOVED}).values()) == MOVED.tolist()
    assert features.command_values(MOVED).tolist() == MOVED.tolist()


def test_speeds_come_after_all_positions_as_in_datasets_recorded_here() -> None:
    features = LerobotFeatures(SO100, "degrees", ["elbow_flex"], speeds=True)
    names = [joint.name for joint in SO100.drives]
    assert features.state_names == (*(f"{name}.pos" for name in names), *(f"{name}.vel" for name in names))
    assert len(features.action_names) == len(names) and features.inputs == ("joint_position", "joint_velocity")
    shown = features.state({"joint_position": MOVED, "joint_velocity": np.full(6, 0.1)})
    assert shown["shoulder_pan.vel"] == pytest.approx(math.degrees(0.1))
    assert shown["elbow_flex.vel"] == pytest.approx(-math.degrees(0.1))
    with pytest.raises(UserError, match="turtlebot3_burger takes no joint targets, and its state has speeds already"):
        LerobotFeatures(BASE, speeds=True)


@pytest.mark.parametrize("units", ["degrees", "range"])
@pytest.mark.parametrize("turned", [False, True])
def test_units_are_those_that_lerobot_has_of_a_calibrated_arm(units: str, turned: bool) -> None:
    features = LerobotFeatures(SO100, units, [joint.name for joint in SO100.drives] if turned else [])
    shown = features.state({"joint_position": MOVED})
    for joint, angle in zip(SO100.drives, MOVED):
        span, sign = joint.upper - joint.lower, -1.0 if turned else 1.0
        low, high = 2048 - span / 2 / TICK_RAD, 2048 + span / 2 / TICK_RAD
        scale = TickScale(2048, 0.5 * (joint.lower + joint.upper), sign * TICK_RAD, round(low), round(high))
        ticks = 2048 + (angle - scale.middle_rad) / scale.rad_per_tick  # as the driver `feetech` would command it
        share = (ticks - low) / (high - low)
        expected = 200 * share - 100 if units == "range" else (ticks - 2048) * 360 / 4096
        expected = 100 * share if joint.name == "gripper" else expected
        assert shown[f"{joint.name}.pos"] == pytest.approx(expected, abs=1e-9)
    back = features.command_values(np.array(list(features.action(MOVED).values())))
    np.testing.assert_allclose(back, MOVED, atol=1e-12)


def test_a_base_has_speeds_and_a_quadrotor_rates() -> None:
    base = LerobotFeatures(BASE, "degrees")
    assert (base.state_names, base.action_names) == (("x.vel", "theta.vel"), ("x.vel", "theta.vel"))
    sensed = {"linear_velocity": np.array([0.2, 0.0, 0.0]), "angular_velocity": np.array([0.0, 0.0, math.pi])}
    assert base.state(sensed) == pytest.approx({"x.vel": 0.2, "theta.vel": 180.0})
    assert base.command_values(np.array([0.1, 90.0])) == pytest.approx([0.1, math.pi / 2])
    rates = LerobotFeatures(RATES)
    assert rates.action_names == ("roll.vel", "pitch.vel", "yaw.vel", "thrust") and "position" in rates.inputs


def test_standing_still_is_where_the_arm_is_with_the_gripper_as_it_was_told() -> None:
    features, last = LerobotFeatures(SO100), np.full(6, 0.3)
    seen = {"joint_position": np.array([5.0, *MOVED[1:]])}
    still = features.standstill(seen, last)
    assert still is not None and still.tolist() == [SO100.drives[0].upper, *MOVED[1:5], 0.3]
    assert LerobotFeatures(BASE).standstill({}, None).tolist() == [0.0, 0.0]  # type: ignore[union-attr]
    assert LerobotFeatures(RATES).standstill({}, None) is None


@pytest.mark.parametrize(
    ("robot", "units", "reverse", "says"),
    [
        ("so100", "grad", (), "units: 'grad' is not allowed: give rad, degrees, range"),
        ("so100", "rad", ("elbow",), "so100 has no joint 'elbow'; it has: shoulder_pan"),
        ("crazyflie", "rad", (), "crazyflie takes rotor_speed, for which LeRobot's loops are too slow"),
    ],
)
def test_what_does_not_suit_is_refused(robot: str, units: str, reverse: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        LerobotFeatures(load_robot(robot), units, reverse)
