"""Noise, biases and delay of sensors are told with intervals, refused by name, and written where the file has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlstack.identification.fit import Fit
from rlstack.identification.inertial import forces_against, rates_against
from rlstack.identification.motion_model import Channel, Estimate, Windows
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.robot_file import edited, source_text
from rlstack.identification.sensors import sensor_edits, sensor_estimates
from rlstack.robots import load_robot
from rlstack.robots.frames import from_yaw, rotate_inverse
from rlstack.robots.spec import STANDARD_GRAVITY
from tests.identification.conftest import Floats

CRAZYFLIE: Any = load_robot("crazyflie")
RATES, FORCES, LATE_S = np.array([0.01, -0.005, 0.003]), np.array([0.1, -0.05, 0.02]), 0.006
NOISE = {"turn": 0.001, "velocity": 0.002, "rates": 0.002, "forces": 0.05}


def turning(seed: int, seconds: float = 20.0, *, late_s: float = LATE_S, still: bool = False) -> Recorded:
    """Return odometry at 100 Hz and an IMU at 200 Hz of a body that swings to and fro and heads about."""
    rng, fast = np.random.default_rng(seed), 0.0 if still else 1.0

    def motion(at: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        angle, rate = 0.8 * np.sin(4.0 * at) + np.sin(1.3 * at), 3.2 * np.cos(4.0 * at) + 1.3 * np.cos(1.3 * at)
        velocity = np.stack([np.sin(3.0 * at), np.cos(2.0 * at), 0.5 * np.sin(at)], axis=1)
        force = np.stack([3.0 * np.cos(3.0 * at), -2.0 * np.sin(2.0 * at), 0.5 * np.cos(at)], axis=1)
        turn = from_yaw(fast * angle)
        force = rotate_inverse(turn, fast * force + [0.0, 0.0, STANDARD_GRAVITY])
        return turn, fast * np.outer(rate, [0.0, 0.0, 1.0]), rotate_inverse(turn, fast * velocity), force

    odom_s, imu_s = np.arange(0.0, seconds, 0.01), np.arange(0.0, seconds, 0.005)
    turn, rates, velocity, _ = motion(odom_s)
    _, late_rates, _, late_forces = motion(imu_s - late_s)
    shape, own = (len(odom_s), 3), (len(imu_s), 3)
    odom = {
        "orientation": from_yaw(2.0 * np.arctan2(turn[:, 2], turn[:, 3]) + NOISE["turn"] * rng.normal(size=shape[0])),
        "linear_velocity": velocity + NOISE["velocity"] * rng.normal(size=shape),
        "angular_velocity": rates + NOISE["rates"] * rng.normal(size=shape),
    }
    imu = {
        "imu_angular_velocity": late_rates + RATES + NOISE["rates"] * rng.normal(size=own),
        "linear_acceleration": late_forces + FORCES + NOISE["forces"] * rng.normal(size=own),
    }
    return Recorded(Path(f"run {seed}"), {"odom": Track("odom", odom_s, odom), "imu": Track("imu", imu_s, imu)})


def test_biases_and_delay_of_an_imu_are_found_within_their_intervals() -> None:
    held = []
    for seed in range(3):
        recorded = turning(seed)
        odom, imu = recorded.tracks["odom"], recorded.tracks["imu"]
        rates = rates_against(odom, imu.time_s, imu.values["imu_angular_velocity"])
        forces = forces_against(odom, imu.time_s, imu.values["linear_acceleration"], None)
        assert rates is not None and forces is not None
        np.testing.assert_allclose(rates.bias, RATES, atol=1e-3)
        np.testing.assert_allclose(forces.bias, FORCES, atol=2e-2)
        assert rates.delay_s == pytest.approx(LATE_S, abs=2e-4) and forces.delay_s == pytest.approx(LATE_S, abs=5e-4)
        held += (np.abs(rates.bias - RATES) < 1.645 * rates.deviation[:3]).tolist()
        held += (np.abs(forces.bias - FORCES) < 1.645 * forces.deviation[:3]).tolist()
    assert np.mean(held) >= 0.8, held
    assert rates_against(odom, imu.time_s[:100], imu.values["imu_angular_velocity"][:100]) is None


class _Still:
    """Predicts a robot that does not move, of which one channel is measured."""

    def __init__(self, pieces: Floats) -> None:
        self.channels = (Channel("position", "m", 3, 0.001, ("sensors", "odom", "position_noise_m")),)
        self._pieces = pieces

    def states(self, windows: Windows) -> Floats:
        return self._pieces[:, 0]

    def residual(self, values: Floats, states: Floats, windows: Windows) -> Floats:
        return self._pieces[None]


def told(recorded: Recorded, left: float = 0.003, robot: Any = CRAZYFLIE) -> dict[str, Estimate]:
    pieces = np.random.default_rng(1).normal(0.0, 0.003, (30, 50, 3))
    windows = Windows(np.zeros(30, dtype=np.intp), 50 * np.arange(30), 50)
    none = np.empty(0)
    fit = Fit(none, none, none, np.array([left]), np.ones(30, dtype=bool), 1, none)
    model: Any = _Still(pieces)
    return sensor_estimates(robot, model, none, windows, fit, [recorded])


def test_what_is_told_is_written_and_what_is_not_is_refused_by_name() -> None:
    found = told(turning(0))
    kept = {name: one.why for name, one in found.items() if one.verdict == "kept"}
    assert set(kept) == {"odom_angular_velocity_bias"} and "cannot be told from 0 rad/s" in kept[next(iter(kept))]
    for name, value in (("odom_position_noise", 0.003), ("imu_angular_velocity_noise", 0.002)):
        low, high = found[name].interval or (0.0, 0.0)
        assert low < value < high < 1.25 * low
    assert found["imu_angular_velocity_bias"].value == pytest.approx(np.sqrt(np.mean(RATES**2)), rel=0.1)
    assert "it was x 0.01" in found["imu_angular_velocity_bias"].why
    text = source_text("crazyflie")[1]
    new = yaml.safe_load(edited(text, sensor_edits(CRAZYFLIE, yaml.safe_load(text), found, str)))
    sensors = new["sensors"]
    assert sensors["odom"]["position_noise_m"] == pytest.approx(0.003, rel=0.1)
    assert sensors["odom"]["orientation_noise_rad"] == 0.001 and sensors["imu"]["rate_hz"] == 500.0
    assert sensors["imu"]["latency_s"] == pytest.approx(LATE_S, abs=2e-4), "the file had no such key"
    assert sensors["imu"]["linear_acceleration_bias_m_s2"] == pytest.approx(np.sqrt(np.mean(FORCES**2)), rel=0.1)


def test_errors_that_last_are_told_of_and_odometry_that_is_the_later_one_is_left_to_the_delay() -> None:
    found = told(turning(0, late_s=-0.004), left=0.02)
    assert "white; the fit leaves 0.02 m" in found["odom_position_noise"].why
    late = found["imu_delay"]
    assert late.value == pytest.approx(-0.004, abs=2e-4) and "part of `delay`" in late.why
    edits = sensor_edits(CRAZYFLIE, yaml.safe_load(source_text("crazyflie")[1]), found, str)
    assert not any("latency_s" in str(edit.value) for edit in edits)


def test_a_recording_that_cannot_tell_says_what_would() -> None:
    still = told(turning(0, still=True))
    assert "record turns that start and stop" in still["imu_delay"].why
    alone = turning(0)
    found = told(Recorded(alone.path, {"odom": alone.tracks["odom"]}))
    assert "only a second sensor" in found["odom_delay"].why
    assert found["imu_linear_acceleration_bias"].why == "the recording has no imu"
    short = told(turning(0, 2.0))
    assert "record half a minute" in short["imu_angular_velocity_bias"].why
