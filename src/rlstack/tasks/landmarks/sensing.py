"""What robots among landmarks sense: a camera, and odometry with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.schema import value

CAMERA = "front"
"""Name of the camera in the robot file."""


@dataclass(frozen=True, kw_only=True)
class LandmarkNoise:
    """Standard deviations of odometry noise."""

    position_m: float = value(0.01, unit="m", at_least=0.0)
    orientation_rad: float = value(0.005, unit="rad", at_least=0.0)
    linear_velocity_m_s: float = value(0.01, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.02, unit="rad/s", at_least=0.0)


def noisy(noise: LandmarkNoise, signals: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return signals (n, ...) with white noise on odometry."""
    sensed = dict(signals)
    for name, deviation in (
        ("position", noise.position_m),
        ("linear_velocity", noise.linear_velocity_m_s),
        ("angular_velocity", noise.angular_velocity_rad_s),
    ):
        sensed[name] = signals[name] + deviation * rng.standard_normal(signals[name].shape)
    turn = noise.orientation_rad * rng.standard_normal((*signals["orientation"].shape[:-1], 3))
    sensed["orientation"] = frames.multiply(signals["orientation"], frames.from_rotation_vector(turn))
    return sensed
