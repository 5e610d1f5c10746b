"""A classical controller that flies a driver to a place by rates and thrust, in real time, for tests of drivers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.backend import Backend, Reading
from rlstack.robots.frames import rotate, rotate_inverse
from rlstack.robots.spec import STANDARD_GRAVITY


def rates_to(reading: Reading, goal: Sequence[float], tilt: float = 0.4) -> dict[str, Array]:
    """Return the command that brings a quadrotor towards a goal, m in odom, heading east."""
    s = reading.signals
    velocity = rotate(s["orientation"], s["linear_velocity"])
    error = np.clip(np.asarray(goal) - s["position"], -1.0, 1.0)
    wanted = 2.5 * (1.2 * error - velocity) + np.array([0.0, 0.0, STANDARD_GRAVITY])
    wanted[:2] = np.clip(wanted[:2], -tilt * STANDARD_GRAVITY, tilt * STANDARD_GRAVITY)
    body = rotate_inverse(s["orientation"], wanted)
    east = rotate_inverse(s["orientation"], [1.0, 0.0, 0.0])
    direction = body / np.linalg.norm(body)
    return {"rates_thrust": np.array([-6.0 * direction[1], 6.0 * direction[0], 2.0 * east[1], max(body[2], 0.0)])}


class Holding:
    """Whether a robot has been near a goal for some readings in a row; call it once a command."""

    def __init__(self, backend: Backend, goal: Sequence[float], near_m: float, readings: int = 20) -> None:
        self._backend, self._goal, self._near_m, self._left = backend, np.asarray(goal), near_m, readings
        self._readings, self.calls = readings, 0

    def __call__(self) -> bool:
        self.calls += 1
        far = np.linalg.norm(self._backend.read().signals["position"] - self._goal) > self._near_m
        self._left = self._readings if far else self._left - 1
        return self._left <= 0


def fly(
    backend: Backend,
    goal: Sequence[float],
    seconds: float,
    rate_hz: float = 100.0,
    until: Callable[[], bool] = lambda: False,
) -> Reading:
    """Fly to a goal for so long, or until a condition holds; return the last reading."""
    end, tick = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < end and not until():
        backend.write(rates_to(backend.read(), goal))
        tick = max(tick + 1.0 / rate_hz, time.monotonic())
        time.sleep(max(tick - time.monotonic(), 0.0))
    return backend.read()
