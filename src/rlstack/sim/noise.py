"""Sensor noise of one robot as its file declares it, shared by every engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import Quadrotor, Sensor
from rlstack.robots.frames import from_rotation_vector, multiply

Array = NDArray[np.float64]


class SensorNoise:
    """Adds white noise to readings; the same seed gives the same noise.

    Position, attitude and both velocities get the noise of ``odom``, acceleration that of ``imu``; a sensor that the
    robot file does not have adds none.

    Args:
        robot: Whose sensors.
        seed: Of the noise.
    """

    def __init__(self, robot: Quadrotor, seed: int) -> None:
        silent = Sensor(rate_hz=1.0)
        odom, imu = robot.sensors.get("odom", silent), robot.sensors.get("imu", silent)
        self._orientation_rad = odom.orientation_noise_rad
        self._deviations = {
            "position": odom.position_noise_m,
            "linear_velocity": odom.linear_velocity_noise_m_s,
            "angular_velocity": odom.angular_velocity_noise_rad_s,
            "linear_acceleration": imu.linear_acceleration_noise_m_s2,
        }
        self._random = np.random.default_rng(seed)

    def applied(self, signals: dict[str, Array]) -> dict[str, Array]:
        """Return noisy copies of arrays (..., n) by signal name; names without noise are passed on."""
        noisy = dict(signals)
        for name, deviation in self._deviations.items():
            if name in noisy:
                noisy[name] = noisy[name] + deviation * self._random.standard_normal(noisy[name].shape)
        if "orientation" in noisy:
            turn = self._random.standard_normal((*noisy["orientation"].shape[:-1], 3)) * self._orientation_rad
            noisy["orientation"] = multiply(noisy["orientation"], from_rotation_vector(turn))
        return noisy
