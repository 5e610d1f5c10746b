"""Where a lidar sits, how late and how noisy it is, is found from scans of a room, or refused by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.robot_file import edited, source_text
from rlstack.identification.sensors import sensor_edits
from rlstack.kinds.wheeled_base.identification_lidar import ScanRanges, lidar_estimates, matched
from rlstack.robots import load_robot
from rlstack.robots.frames import from_yaw

BURGER: Any = load_robot("turtlebot3_burger")
LIDAR = BURGER.lidars["scan"]
TRUE = np.array([-0.02, 0.03, 0.1, 0.02])
ROOM = (-2.0, 2.5, -1.5, 1.8)


def ranges(place: NDArray[Any], angle: NDArray[Any], room: tuple[float, ...]) -> NDArray[Any]:
    """Return the distances to the walls of a room from places, x + iy, along angles."""
    along, across = np.cos(angle), np.sin(angle)
    to_x = np.where(along > 0.0, room[1] - place.real, room[0] - place.real) / along
    return np.minimum(to_x, np.where(across > 0.0, room[3] - place.imag, room[2] - place.imag) / across)


def drive(
    seed: int, seconds: float = 30.0, *, room: tuple[float, ...] = ROOM, sits: NDArray[Any] = TRUE, turns: bool = True
) -> Recorded:
    """Return odometry and scans of a base that stands for 2 s and then drives and turns by steps."""
    rng, step_s = np.random.default_rng(seed), 0.005
    time_s = np.arange(0.0, seconds, step_s)
    steps = np.minimum((np.maximum(time_s - 2.0, 0.0) / 1.1).astype(int), int(seconds))
    drawn = rng.uniform(-1.0, 1.0, (int(seconds) + 1, 2)) * [0.2, 2.0 if turns else 0.0]
    drawn[0] = 0.0
    twist = drawn[steps]
    angle = np.cumsum(twist[:, 1]) * step_s
    path = np.cumsum(twist[:, 0] * np.exp(1j * angle)) * step_s

    def pose(at_s: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        x, y = np.interp(at_s, time_s, path.real), np.interp(at_s, time_s, path.imag)
        return x + 1j * y, np.interp(at_s, time_s, angle)

    odom_s, scan_s = np.arange(0.0, seconds - 0.1, 0.033), np.arange(0.0, seconds - 0.1, 0.1)
    (place, heading), zero = pose(odom_s), np.zeros(len(odom_s))
    noise = rng.normal(0.0, 0.002, (3, len(odom_s)))
    ahead, turning = (np.interp(odom_s, time_s, twist[:, column]) for column in range(2))
    odom = {
        "position": np.stack([place.real + noise[0], place.imag + noise[1], zero], axis=1),
        "orientation": from_yaw(heading + noise[2]),
        "linear_velocity": np.stack([ahead, zero, zero], axis=1),
        "angular_velocity": np.stack([zero, zero, turning], axis=1),
    }
    at, looks = pose(scan_s - sits[3])
    at = at + np.exp(1j * looks) * (sits[0] + 1j * sits[1])
    seen = ranges(at[:, None], looks[:, None] + sits[2] + LIDAR.angles_rad, room)
    seen = seen * (1.0 + 0.015 * rng.normal(size=seen.shape)) + 0.005 * rng.normal(size=seen.shape)
    scan = {"scan": np.clip(seen, LIDAR.range_min_m, LIDAR.range_max_m)}
    return Recorded(Path("drive"), {"odom": Track("odom", odom_s, odom), "scan": Track("scan", scan_s, scan)})


def test_the_pose_delay_and_noise_are_told_and_written() -> None:
    found = {one.parameter.name: one for one in lidar_estimates(BURGER, [drive(0)])}
    for name, value, most in zip(("scan_x", "scan_y", "scan_yaw", "scan_delay"), TRUE, (2e-3, 2e-3, 0.01, 2e-3)):
        one = found[name]
        assert one.verdict == "told" and one.interval is not None, one.why
        assert one.value == pytest.approx(value, abs=most) and one.interval[0] < value < one.interval[1], name
    assert found["scan_noise_share"].value == pytest.approx(0.015, abs=1e-3)
    text = source_text("turtlebot3_burger")[1]
    new = yaml.safe_load(edited(text, sensor_edits(BURGER, yaml.safe_load(text), found, str)))["lidars"]["scan"]
    np.testing.assert_allclose(new["position_m"], [*TRUE[:2], 0.172], atol=2e-3)
    assert new["rpy_rad"][2] == pytest.approx(0.1, abs=0.01) and new["rays"] == 360 and "latency_s" not in new


def test_a_lidar_that_looks_sideways_is_found() -> None:
    found = matched(BURGER, [drive(1, 14.0, sits=np.array([0.0, 0.0, -1.7, 0.0]))], LIDAR)
    assert found is not None
    np.testing.assert_allclose(found.values, [0.0, 0.0, -1.7, 0.0], atol=0.02)


def test_what_a_drive_or_a_place_does_not_tell_is_refused_by_name() -> None:
    straight = {one.parameter.name: one for one in lidar_estimates(BURGER, [drive(0, turns=False)])}
    for name in ("scan_x", "scan_y"):
        assert straight[name].verdict == "kept" and "record turns and straight drives" in straight[name].why
    empty = {one.parameter.name: one for one in lidar_estimates(BURGER, [drive(0, 10.0, room=(-99.0, 99.0) * 2)])}
    assert {one.verdict for one in empty.values()} == {"kept"}
    odometry = Recorded(Path("drive"), {"odom": drive(0, 10.0).tracks["odom"]})
    assert {one.why for one in lidar_estimates(BURGER, [odometry])} == {"the recording has no scan"}
    assert lidar_estimates(dataclasses.replace(BURGER, lidars={}), [odometry]) == []


def test_scans_of_another_lidar_are_read_as_unknown() -> None:
    read, usual = ScanRanges(LIDAR), {"angle_min": 0.0, "range_min": 0.16, "range_max": 8.0}
    scan = SimpleNamespace(**usual, angle_increment=np.pi / 180.0, ranges=[2.0] * 360)
    np.testing.assert_array_equal(read(scan), 2.0)
    assert np.isnan(read(SimpleNamespace(**usual, angle_increment=0.3, ranges=[2.0] * 20))).all()
