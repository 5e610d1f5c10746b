"""Imperfect sensors of one robot as its file declares them, shared by every engine: noise, bias and latency."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.signals import SENSED
from rlstack.robots import RobotSpec, Sensor
from rlstack.robots.frames import from_rotation_vector, multiply, normalise

_BIASES = 1
"""Of the seed: biases have a stream of their own, so that the white noise does not depend on whether there are any."""
_IMU = 3
"""Likewise the gyroscope's own signal."""


class Normals(Protocol):
    """What gives standard normals: a numpy generator, or anything that does so too."""

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Return an array of this shape."""


class SensorNoise:
    """Makes true readings into sensed ones; the same seed gives the same noise.

    Position, attitude and both velocities are of ``odom``, acceleration and the gyroscope's own angular velocity of
    ``imu``; a sensor that the robot file does not have adds nothing. White noise is drawn for each reading. Biases are
    drawn once, walk with time, and stay through :meth:`restart`. Readings come ``latency_s`` late: what is sensed at a
    time is what was true then, between the readings that were asked for.

    Args:
        robot: Whose sensors.
        seed: Of the noise.
        normals: Where the white noise of odometry comes from instead of a stream of this seed.
    """

    def __init__(self, robot: RobotSpec, seed: int, normals: Normals | None = None) -> None:
        silent = Sensor(rate_hz=1.0)
        odom, imu = robot.sensors.get("odom", silent), robot.sensors.get("imu", silent)
        self._orientation_rad = odom.orientation_noise_rad
        self._deviations = {
            "position": odom.position_noise_m,
            "linear_velocity": odom.linear_velocity_noise_m_s,
            "angular_velocity": odom.angular_velocity_noise_rad_s,
            "linear_acceleration": imu.linear_acceleration_noise_m_s2,
        }
        self._gyroscope_rad_s = imu.angular_velocity_noise_rad_s
        self._random: Normals = np.random.default_rng(seed) if normals is None else normals
        self._imu_random = np.random.default_rng([seed, _IMU])
        self._biases = {
            "angular_velocity": _Bias(odom.angular_velocity_bias_rad_s, odom.angular_velocity_bias_walk_rad_s_sqrt_s),
            "imu_angular_velocity": _Bias(imu.angular_velocity_bias_rad_s, imu.angular_velocity_bias_walk_rad_s_sqrt_s),
            "linear_acceleration": _Bias(
                imu.linear_acceleration_bias_m_s2, imu.linear_acceleration_bias_walk_m_s2_sqrt_s
            ),
        }
        for number, bias in enumerate(self._biases.values()):
            bias.random = np.random.default_rng([seed, _BIASES, number])
        late = {topic: sensor.latency_s for topic, sensor in robot.sensors.items() if sensor.latency_s > 0.0}
        self._delays = {topic: _Delay(latency_s) for topic, latency_s in late.items()}

    def restart(self) -> None:
        """Forget the readings that have not come yet: the robot was put elsewhere."""
        for delay in self._delays.values():
            delay.clear()

    def applied(self, signals: dict[str, Array], time_s: float | None = None) -> dict[str, Array]:
        """Return sensed copies of true arrays (..., n) by signal name; names without any noise are passed on.

        Args:
            signals: By name; all calls have the same names and shapes.
            time_s: When they were true, never less than in the call before, s. None: no time passes, so nothing is late
                and no bias walks.
        """
        sensed = dict(signals)
        if time_s is not None:
            for topic, delay in self._delays.items():
                of_topic = {
                    name: array for name, array in signals.items() if name in SENSED and SENSED[name].topic == topic
                }
                sensed.update(delay.passed(time_s, of_topic))
        for name, deviation in self._deviations.items():
            if name in sensed:
                sensed[name] = sensed[name] + deviation * self._random.standard_normal(sensed[name].shape)
        if "orientation" in sensed:
            turn = self._random.standard_normal((*sensed["orientation"].shape[:-1], 3)) * self._orientation_rad
            sensed["orientation"] = multiply(sensed["orientation"], from_rotation_vector(turn))
        if "imu_angular_velocity" in sensed:
            rates = sensed["imu_angular_velocity"]
            sensed["imu_angular_velocity"] = rates + self._gyroscope_rad_s * self._imu_random.standard_normal(
                rates.shape
            )
        for name, bias in self._biases.items():
            if name in sensed and bias.there:
                sensed[name] = sensed[name] + bias.at(time_s, sensed[name].shape)
        return sensed


class _Bias:
    """A constant drawn once, and a random walk that starts from it."""

    def __init__(self, deviation: float, walk: float) -> None:
        self._deviation, self._walk = deviation, walk
        self.there = deviation > 0.0 or walk > 0.0
        self.random = np.random.default_rng(0)
        self._value: Array | None = None
        self._time_s: float | None = None

    def at(self, time_s: float | None, shape: tuple[int, ...]) -> Array:
        if self._value is None or self._value.shape != shape:
            self._value = self._deviation * self.random.standard_normal(shape)
            self._time_s = time_s
        if self._walk > 0.0 and time_s is not None:
            passed_s = max(time_s - (time_s if self._time_s is None else self._time_s), 0.0)
            if passed_s > 0.0:
                self._value = self._value + self._walk * math.sqrt(passed_s) * self.random.standard_normal(shape)
            self._time_s = time_s
        return self._value


class _Delay:
    """Holds readings back."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._held: deque[tuple[float, dict[str, Array]]] = deque()

    def clear(self) -> None:
        self._held.clear()

    def passed(self, time_s: float, reading: dict[str, Array]) -> dict[str, Array]:
        """Take the reading of now; return what was read ``latency_s`` ago, or the first if there is none that old."""
        held = self._held
        if held and held[-1][0] >= time_s:
            held.pop()  # asked for again at the same time, as after a command
        held.append((time_s, reading))
        due = time_s - self._latency_s
        while len(held) > 1 and held[1][0] <= due:
            held.popleft()
        (before_s, before), (after_s, after) = held[0], held[min(1, len(held) - 1)]
        share = 0.0 if after_s <= before_s else min(max((due - before_s) / (after_s - before_s), 0.0), 1.0)
        return {name: _between(name, before[name], after[name], share) for name in reading}


def _between(name: str, before: Array, after: Array, share: float) -> Array:
    if share == 0.0:
        return before
    if name == "orientation":  # of q and -q the one that is nearer
        after = np.where(np.sum(before * after, axis=-1, keepdims=True) < 0.0, -after, after)
        return normalise(before + share * (after - before))
    return before + share * (after - before)
