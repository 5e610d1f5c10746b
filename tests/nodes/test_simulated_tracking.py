from __future__ import annotations

import numpy as np

from rlstack.nodes.simulated_tracking import TrackingNoise, TrackingSensors
from rlstack.robots.frames import from_rotation_vector, from_yaw, rotate

NOISE = TrackingNoise()
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def test_a_motion_capture_is_off_by_its_noise() -> None:
    sensors, place = TrackingSensors(NOISE, 1), np.array([1.0, 2.0, 3.0])
    seen = [sensors.pose(place, from_yaw(1.0)) for _ in range(400)]
    apart = np.array([position for position, _ in seen]) - place
    np.testing.assert_allclose(apart.std(axis=0), NOISE.position_m, rtol=0.15)
    assert np.abs(apart.mean(axis=0)).max() < 3e-4
    assert all(abs(turn @ from_yaw(1.0)) > 0.9999 for _, turn in seen)


def test_flow_is_the_velocity_ahead_and_to_the_left() -> None:
    sensors = TrackingSensors(TrackingNoise(flow_m_s=0.0), 1)
    np.testing.assert_allclose(
        sensors.flow(from_yaw(0.5), rotate(from_yaw(0.5), np.array([0.3, -0.2, 1.0]))), [0.3, -0.2]
    )


def test_a_rangefinder_looks_along_the_body_and_not_far() -> None:
    sensors = TrackingSensors(TrackingNoise(range_m=0.0), 1)
    assert sensors.range(np.array([0.0, 0.0, 1.0]), LEVEL) == 1.0
    tilted = from_rotation_vector([0.0, np.pi / 4.0, 0.0])
    assert abs(float(sensors.range(np.array([0.0, 0.0, 1.0]), tilted) or 0.0) - np.sqrt(2.0)) < 1e-9
    assert sensors.range(np.array([0.0, 0.0, 5.0]), LEVEL) is None
    assert sensors.range(np.array([0.0, 0.0, 1.0]), from_rotation_vector([0.0, 1.3, 0.0])) is None


def test_equal_seeds_measure_equally() -> None:
    one, two = (TrackingSensors(NOISE, 5).flow(LEVEL, np.ones(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
