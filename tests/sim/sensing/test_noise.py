from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import Sensor, frames
from rlstack.sim.sensing.noise import SensorNoise
from tests.support.robots import crazyflie


def robot(**sensors: Sensor) -> Quadrotor:
    return replace(crazyflie(), sensors=sensors)


def truth(count: int = 1) -> dict[str, np.ndarray]:
    upright = np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    vectors = ("position", "linear_velocity", "angular_velocity", "linear_acceleration", "imu_angular_velocity")
    return {**{name: np.zeros((count, 3)) for name in vectors}, "orientation": upright}


def test_the_same_seed_gives_the_same_noise_whatever_biases_there_are() -> None:
    plain = crazyflie()
    imu = replace(plain.sensors["imu"], linear_acceleration_bias_m_s2=0.1)
    biased = replace(plain, sensors={**plain.sensors, "imu": imu})
    one, same, other = SensorNoise(plain, 3), SensorNoise(plain, 3), SensorNoise(biased, 3)
    for _ in range(3):
        found = [noise.applied(truth()) for noise in (one, same, other)]
        for name in truth():
            assert np.array_equal(found[0][name], found[1][name])
            assert np.array_equal(found[0][name], found[2][name]) == (name != "linear_acceleration")


def test_noise_has_the_declared_deviations() -> None:
    noise = SensorNoise(
        robot(
            odom=Sensor(rate_hz=100.0, position_noise_m=0.02, orientation_noise_rad=0.03),
            imu=Sensor(rate_hz=500.0, angular_velocity_noise_rad_s=0.4, linear_acceleration_noise_m_s2=0.5),
        ),
        0,
    )
    sensed = noise.applied(truth(20_000))
    assert sensed["position"].std() == pytest.approx(0.02, rel=0.02)
    assert frames.tilt(sensed["orientation"]).mean() == pytest.approx(0.03 * np.sqrt(np.pi / 2), rel=0.02)
    assert sensed["imu_angular_velocity"].std() == pytest.approx(0.4, rel=0.02)
    assert sensed["linear_acceleration"].std() == pytest.approx(0.5, rel=0.02)
    assert (sensed["angular_velocity"] == 0.0).all(), "odometry has its own"


def test_a_bias_is_drawn_once_and_stays() -> None:
    biased = robot(imu=Sensor(rate_hz=500.0, angular_velocity_bias_rad_s=0.1, linear_acceleration_bias_m_s2=0.3))
    drawn = []
    for seed in range(400):
        noise = SensorNoise(biased, seed)
        first = noise.applied(truth(), 0.0)
        noise.restart()
        later = noise.applied(truth(), 50.0)
        assert np.array_equal(first["imu_angular_velocity"], later["imu_angular_velocity"])
        drawn.append([first["imu_angular_velocity"], first["linear_acceleration"]])
    rates, accelerations = np.array(drawn).swapaxes(0, 1)
    assert rates.std() == pytest.approx(0.1, rel=0.06) and accelerations.std() == pytest.approx(0.3, rel=0.06)
    assert abs(np.corrcoef(rates.ravel(), accelerations.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("steps", [1, 40])
def test_a_bias_walks_with_the_square_root_of_time_however_often_it_is_read(steps: int) -> None:
    noise = SensorNoise(robot(imu=Sensor(rate_hz=500.0, angular_velocity_bias_walk_rad_s_sqrt_s=0.02)), 5)
    many = truth(20_000)
    assert (noise.applied(many, 1.0)["imu_angular_velocity"] == 0.0).all()
    for time_s in np.linspace(1.0, 10.0, steps + 1)[1:]:
        sensed = noise.applied(many, float(time_s))
    assert sensed["imu_angular_velocity"].std() == pytest.approx(0.02 * 3.0, rel=0.03)


@settings(deadline=None)
@given(st.floats(0.001, 0.2), st.floats(0.001, 0.05))
def test_a_late_reading_is_what_was_true_then(latency_s: float, period_s: float) -> None:
    """Of a robot that moves and turns evenly, whatever the rate of reading."""
    noise = SensorNoise(robot(odom=Sensor(rate_hz=100.0, latency_s=latency_s), imu=Sensor(rate_hz=100.0)), 0)
    for k in range(100):
        time_s = k * period_s
        signals = truth()
        signals["position"] = np.array([[2.0 * time_s, 0.0, 0.0]])
        signals["orientation"] = frames.from_yaw(np.array([0.5 * time_s]))
        signals["linear_acceleration"] = np.array([[time_s, 0.0, 0.0]])
        sensed = noise.applied(signals, time_s)
        then = max(time_s - latency_s, 0.0)
        assert sensed["position"][0, 0] == pytest.approx(2.0 * then, abs=1e-9)
        assert frames.wrap_angle(frames.yaw(sensed["orientation"]) - 0.5 * then) == pytest.approx(0.0, abs=1e-6)
        assert sensed["linear_acceleration"][0, 0] == time_s, "the imu is not late"


def test_after_a_reset_nothing_from_before_comes() -> None:
    noise = SensorNoise(robot(odom=Sensor(rate_hz=100.0, latency_s=0.05)), 0)
    before, after = truth(), truth()
    before["position"] += 7.0
    noise.applied(before, 0.0)
    noise.applied(before, 0.1)
    noise.restart()
    assert (noise.applied(after, 0.11)["position"] == 0.0).all()


def test_asking_twice_at_one_time_gives_the_newest() -> None:
    noise = SensorNoise(robot(odom=Sensor(rate_hz=100.0, latency_s=0.05)), 0)
    first, second = truth(), truth()
    second["position"] += 1.0
    noise.applied(first, 0.0)
    noise.applied(second, 0.0)
    assert (noise.applied(truth(), 0.05)["position"] == 1.0).all()
