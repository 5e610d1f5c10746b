"""Wheels and rotors that turn without being measured."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.robots import frames, load_robot
from rlstack.robots.frame_tree import read_frames
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import read_visuals
from rlstack.view.spinning import ROTOR_RAD_S, Spinning, spun
from tests.view.test_film import recording


def spinning(name: str) -> Spinning:
    urdf = to_urdf(load_robot(name))
    return Spinning(read_frames(urdf), (*read_visuals(urdf, "collision"), *read_visuals(urdf)))


@pytest.mark.parametrize("heading", [0.0, 2.0])
def test_turning_on_the_spot_rolls_the_wheels_against_each_other(heading: float) -> None:
    base, still = spinning("turtlebot3_burger"), np.zeros(3)
    assert base.rotors == []
    base.move(still, frames.from_yaw(heading))
    assert base.move(still, frames.from_yaw(heading + 0.1))
    rolled = 0.1 * 0.08 / 0.033
    assert base.angles["wheel_left_joint"] == pytest.approx(-rolled, abs=1e-3)
    assert base.angles["wheel_right_joint"] == pytest.approx(rolled, abs=1e-3)


def test_what_is_put_elsewhere_does_not_roll_there() -> None:
    base = spinning("husky")
    base.move(np.zeros(3), frames.from_yaw(0.0))
    assert not base.move(np.array([5.0, 0.0, 0.0]), frames.from_yaw(0.0)) and not base.angles


def test_rotors_turn_slower_than_in_truth_and_stand_without_speed() -> None:
    flying = spinning("crazyflie")
    assert flying.rotors == ["m1", "m2", "m3", "m4"]
    flying.turn_rotors({"m1": 2500.0, "m2": 100.0, "m3": 0.0, "m4": float("nan")}, 0.1)
    assert flying.angles == pytest.approx({"m1": 0.1 * ROTOR_RAD_S, "m2": 0.1, "m3": 0.0})


def test_what_a_trial_did_not_record_has_spun_and_what_it_did_is_as_it_was() -> None:
    flight = spun(recording("crazyflie"))
    assert flight[0] == pytest.approx(dict.fromkeys(("m1", "m2", "m3", "m4"), 0.0))
    assert flight[1]["m1"] == pytest.approx(ROTOR_RAD_S * 0.04)
    measured = np.linspace(0.0, 1.0, 51)[:, None]
    drive = spun(recording("turtlebot3_burger", joints=("wheel_left_joint",), joint_position=measured))
    assert drive[50]["wheel_left_joint"] == 1.0 and drive[1]["wheel_right_joint"] == pytest.approx(0.02 / 0.033)
