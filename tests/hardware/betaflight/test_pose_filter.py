"""Velocity from poses, with noise, acceleration and gaps."""

from __future__ import annotations

import numpy as np

from rlstack.hardware.betaflight.pose_filter import PoseFilter
from rlstack.robots.frames import from_rotation_vector, rotate_inverse

UP = np.array([0.0, 0.0, 9.81])


def flown(acceleration: bool) -> tuple[float, float]:
    """Return the mean and the largest error of velocity along a sine of 1 m, 1 s after the start."""
    generator, poses, errors = np.random.default_rng(0), PoseFilter(), []
    turn = from_rotation_vector(np.array([0.1, 0.2, 1.0]))
    for k in range(400):
        t = 0.01 * k
        wave = np.array([np.sin(3 * t), 0.0, 1.0])
        speed, gained = np.array([3 * np.cos(3 * t), 0.0, 0.0]), np.array([-9 * np.sin(3 * t), 0.0, 0.0])
        felt = rotate_inverse(turn, gained + UP) if acceleration else None
        poses.take(100.0 + t, wave + generator.normal(0.0, 0.001, 3), turn, felt)
        if k > 100:
            errors.append(float(np.linalg.norm(poses.velocity - speed)))
    return float(np.mean(errors)), max(errors)


def test_with_the_accelerometer_velocity_is_right_within_centimetres_a_second() -> None:
    mean, worst = flown(acceleration=True)
    assert mean < 0.05 and worst < 0.15


def test_without_it_velocity_lags() -> None:
    assert flown(acceleration=False)[0] > 3.0 * flown(acceleration=True)[0]


def test_after_a_gap_it_begins_anew() -> None:
    poses, level = PoseFilter(), np.array([0.0, 0.0, 0.0, 1.0])
    for k in range(50):
        poses.take(0.01 * k, np.array([0.05 * k, 0.0, 1.0]), level, UP)
    assert poses.velocity[0] > 3.0
    poses.take(1.0, np.array([9.0, 0.0, 1.0]), level, UP)
    assert poses.velocity.tolist() == [0.0, 0.0, 0.0] and poses.position[0] == 9.0
