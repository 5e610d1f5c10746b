"""Noise of all sensors, from the robot file, and bias and latency of odometry and IMU; the same for every engine.

The batch simulators of wheeled bases repeat the lidar's noise as fused expressions (``obstacle_lidar``, ``race``).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.signals import SENSED
from rlstack.robots import Camera, Lidar, RobotSpec, Sensor
from rlstack.robots.frames import from_rotation_vector, multiply, normalise

_BIASES = 1
"""Seed stream of the biases, separate so that the white noise does not depend on them."""
_IMU = 3
"""Seed stream of the gyroscope's own signal, separate for the same reason."""


class Normals(Protocol):
    """A source of standard normal values, such as a numpy generator."""

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Return an array of this shape."""


class SensorNoise:
    """Applies noise, bias and latency to true readings; equal seeds give equal noise.

    Position, attitude and both velocities come from ``odom``, acceleration and the gyroscope's own angular velocity
    from ``imu``; a sensor that the robot file lacks adds nothing. White noise is drawn for each reading. Biases are
    drawn once, follow a random walk, and persist through :meth:`restart`. Readings are delayed by ``latency_s``,
    interpolated between earlier readings.

    Args:
        robot: The robot with the sensors.
        seed: Seed of the noise.
        normals: Source of the odometry's white noise, instead of a stream of this seed.
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
        """Drop delayed readings after the robot was moved."""
        for delay in self._delays.values():
            delay.readings.clear()

    def applied(self, signals: dict[str, Array], time_s: float | None = None) -> dict[str, Array]:
        """Return sensed copies of true arrays (..., n) by signal name; signals without noise are passed through.

        Args:
            signals: True arrays by name; all calls have the same names and shapes.
            time_s: Time of the signals, s, never decreasing. None: no time passes, so there is no latency and no bias
                walk.
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
    """A random constant followed by a random walk."""

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
    """Delays readings."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self.readings: deque[tuple[float, dict[str, Array]]] = deque()

    def passed(self, time_s: float, reading: dict[str, Array]) -> dict[str, Array]:
        """Store the present reading; return the one of ``latency_s`` ago, or the first if none is that old."""
        held = self.readings
        if held and held[-1][0] >= time_s:
            held.pop()  # a second reading at the same time, as after a command
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
    if name == "orientation":  # use the nearer one of q and -q
        after = np.where(np.sum(before * after, axis=-1, keepdims=True) < 0.0, -after, after)
        return normalise(before + share * (after - before))
    return before + share * (after - before)


def noisy_depth(
    ideal: NDArray[np.float32], camera: Camera, random: np.random.Generator | None = None
) -> NDArray[np.float32]:
    """Return depth (height, width) m with noise, dropouts and REP-117's infinities.

    The standard deviation at a depth z is ``depth_noise_m + depth_noise_per_m z^2``.
    """
    depth = ideal.astype(np.float32)
    if random is not None:
        if camera.depth_noise_m or camera.depth_noise_per_m:
            seen = np.where(np.isfinite(depth), depth, np.float32(0.0))
            deviation = np.float32(camera.depth_noise_m) + np.float32(camera.depth_noise_per_m) * seen * seen
            depth += deviation * random.standard_normal(depth.shape, dtype=np.float32)
        if camera.depth_dropout:
            depth[random.random(depth.shape, dtype=np.float32) < camera.depth_dropout] = np.nan
    depth[depth > camera.far_m] = np.inf
    depth[depth < camera.near_m] = -np.inf
    return depth


def noisy_ranges(ideal: Array, lidar: Lidar, random: np.random.Generator | None = None) -> NDArray[np.float32]:
    """Return ranges of any shape, m, with noise, dropouts and REP-117's infinities."""
    ranges = np.array(ideal, dtype=np.float64)
    if random is not None:
        if lidar.noise_share:
            ranges *= 1.0 + lidar.noise_share * random.standard_normal(ranges.shape)
        if lidar.noise_m:
            ranges += lidar.noise_m * random.standard_normal(ranges.shape)
        if lidar.dropout:
            ranges[random.random(ranges.shape) < lidar.dropout] = np.nan
    ranges[ranges > lidar.range_max_m] = np.inf
    ranges[ranges < lidar.range_min_m] = -np.inf
    return ranges.astype(np.float32)
