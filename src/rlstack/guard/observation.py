"""Validated robot state for guards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

SIGNALS = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3}
"""Signals that the guard of a mobile robot needs in an observation, and their widths."""

LARGEST = 1e6
"""Positions in m and velocities beyond this come from a broken estimator."""


class Stamped(Protocol):
    """An observation."""

    @property
    def stamp_s(self) -> float:
        """Measurement time, s."""


@dataclass(frozen=True)
class Observation:
    """The robot's state at one stamp.

    Args:
        stamp_s: Measurement time, s.
        position: (3,) m, world.
        orientation: (4,) xyzw, body to world, unit.
        linear_velocity: (3,) m/s, **world**.
        angular_velocity: (3,) rad/s, body.
        tilt_rad: Between the body's up axis and the world's.
        yaw_rad: Heading.
    """

    stamp_s: float
    position: list[float]
    orientation: list[float]
    linear_velocity: list[float]
    angular_velocity: list[float]
    tilt_rad: float
    yaw_rad: float


def read_signals(signals: Mapping[str, Any], widths: Mapping[str, int]) -> list[list[float]] | str:
    """Return the numbers of each signal in ``widths``, or what is wrong: one missing, misshapen or not finite."""
    parts: list[list[float]] = []
    for name, size in widths.items():
        try:
            array = np.asarray(signals[name], dtype=float)
        except (KeyError, TypeError, ValueError):
            return f"the observation's {name} is missing or not numbers"
        if array.shape != (size,):
            return f"the observation's {name} has shape {array.shape}, not ({size},)"
        numbers = array.tolist()
        if not -LARGEST < min(numbers) <= max(numbers) < LARGEST or math.isnan(sum(numbers)):
            return f"the observation's {name} is not finite, or beyond anything real"
        parts.append(numbers)
    return parts


def parse(stamp_s: float, signals: Mapping[str, Any]) -> Observation | str:
    """Return the observation, or what is wrong with it: a signal, or no attitude."""
    parts = read_signals(signals, SIGNALS)
    if isinstance(parts, str):
        return parts
    position, (x, y, z, w), velocity, rate = parts
    norm = math.hypot(x, y, z, w)
    if not 0.9 < norm < 1.1:
        return "the observation's orientation is not a unit quaternion"
    x, y, z, w = x / norm, y / norm, z / norm, w / norm
    vx, vy, vz = velocity
    # v + w t + a x t with t = 2 a x v: the body's velocity in the world.
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    world = [vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx]
    return Observation(stamp_s, position, [x, y, z, w], world, rate, *tilt_and_yaw((x, y, z, w)))


def tilt_and_yaw(orientation: Sequence[float]) -> tuple[float, float]:
    """Return the angle between the body's up axis and the world's, and the heading, rad, of a unit quaternion xyzw."""
    x, y, z, w = orientation
    tilt = 2.0 * math.atan2(math.hypot(x, y), math.hypot(z, w))
    return tilt, math.atan2(2.0 * (x * y + z * w), 1.0 - 2.0 * (y * y + z * z))
