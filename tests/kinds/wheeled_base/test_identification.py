"""A base whose wheels, lag and delay differ from its file is found from its drive; wheel odometry tells no radius."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.identification.identify import identify
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.robot_file import robot_text
from rlstack.kinds.wheeled_base.identification import IDENTIFICATION
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.robots.frames import from_yaw
from rlstack.robots.spec import _parsed

RADIUS_M, TRACK_M, LAGS_S, DELAY_S = 0.036, 0.15, (0.09, 0.06), 0.047
SLIPS = (-0.09, -0.16)


def drive(seconds: float, *, wheel_odometry: bool = False) -> Recorded:
    """Return a drive with these numbers, integrated in fine steps, independently of what is tested."""
    rng, step = np.random.default_rng(0), 1e-3
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    most = np.array([robot.limits.linear_acceleration_m_s2, robot.limits.angular_acceleration_rad_s2])
    sent: list[NDArray[Any]] = []
    command, due = np.zeros(2), 0.3
    ramp, twist, pose = np.zeros(2), np.zeros(2), np.zeros(3)
    rows = []
    for k in range(round(seconds / step)):
        at = k * step
        if at >= due:
            command, due = rng.uniform(-1.0, 1.0, 2) * [0.15, 1.0], due + float(rng.uniform(0.5, 1.5))
        if k % 33 == 0:
            sent.append(command)
            rows.append([at, *pose, *twist])
        acting = sent[max(int((at - DELAY_S) / (33 * step) + 1e-9), 0)] if at >= DELAY_S else np.zeros(2)
        ramp = ramp + np.clip(acting - ramp, -most * step, most * step)
        twist = twist + step * (ramp * (1.0 - np.array(SLIPS)) - twist) / LAGS_S
        pose = pose + step * np.array([twist[0] * np.cos(pose[2]), twist[0] * np.sin(pose[2]), twist[1]])
    seen = np.array(rows)
    time_s, count, zero = seen[:, 0], len(rows), np.zeros(len(rows))
    noise = 0.003 * rng.normal(size=(count, 5))
    half, ahead = 0.5 * TRACK_M * seen[:, 5], seen[:, 4] + noise[:, 3]
    wheels = np.stack([seen[:, 4] - half, seen[:, 4] + half], axis=1) / RADIUS_M + 0.03 * rng.normal(size=(count, 2))
    if wheel_odometry:
        wheels = np.stack([ahead - 0.08 * seen[:, 5], ahead + 0.08 * seen[:, 5]], axis=1) / 0.033
    odom = {
        "position": np.stack([seen[:, 1], seen[:, 2], zero], axis=1) + noise[:, :3] * [1.0, 1.0, 0.0],
        "orientation": from_yaw(seen[:, 3] + noise[:, 2]),
        "linear_velocity": np.stack([ahead, zero, zero], axis=1),
        "angular_velocity": np.stack([zero, zero, seen[:, 5] + noise[:, 4]], axis=1),
    }
    tracks = {
        "odom": Track("odom", time_s, odom),
        "cmd_vel": Track("cmd_vel", time_s, {"twist": np.array(sent)}),
        "joint_states": Track("joint_states", time_s, {"joint_velocity": wheels}),
    }
    return Recorded(Path("drive"), tracks)


def test_a_drive_tells_wheels_and_response() -> None:
    robot = load_robot("turtlebot3_burger")
    steps: list[tuple[str, float, int]] = []
    found = identify(robot, [drive(20.0)], on_stage=lambda *step: steps.append(step))
    assert [number for name, number, _ in steps if "1 s" in name][:2] == [1, 2] and {most for *_, most in steps} == {40}
    truth = dict(zip(("lag_linear", "lag_angular"), LAGS_S)) | {"radius": RADIUS_M, "track": TRACK_M}
    for name, value in truth.items():
        assert found.estimates[name].value == pytest.approx(value, rel=0.06), name
    for name, value in zip(("linear_slip", "angular_slip"), SLIPS):
        assert found.estimates[name].value == pytest.approx(value, abs=0.01), name
    assert found.estimates["delay"].value == pytest.approx(DELAY_S, abs=0.001), "nothing is half a step late"
    new: Any = _parsed(robot_text("mine", "turtlebot3_burger", found), "mine")
    assert new.wheels[0].radius_m == pytest.approx(found.estimates["radius"].value, rel=1e-4)
    assert new.wheels[1].position_m[1] == pytest.approx(-0.5 * found.estimates["track"].value, rel=1e-4)
    low, high = new.response.linear_slip_range
    assert found.sensors["odom_position_noise"].value == pytest.approx(0.003, rel=0.15)
    assert new.sensors["odom"].orientation_noise_rad == pytest.approx(0.003, rel=0.15)
    assert found.sensors["wheel_speed_noise"].value == pytest.approx(0.03, rel=0.15)
    assert low < SLIPS[0] < high < low + 0.1 and new.rest_height_m == pytest.approx(robot.rest_height_m)


def test_odometry_of_the_wheels_tells_nothing_of_them() -> None:
    found = identify(load_robot("turtlebot3_burger"), [drive(12.0, wheel_odometry=True)])
    for name in ("radius", "track"):
        assert found.estimates[name].verdict == "kept" and "computed from the wheels" in found.estimates[name].why


def test_a_base_that_steers_is_refused() -> None:
    with pytest.raises(UserError, match="only differential ones"):
        IDENTIFICATION.check(load_robot("racecar"))
