"""What a Crazyflie measures, from its log blocks to signals: its world is ENU and its body FLU already."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rlstack.arrays import Array
from rlstack.hardware.crazyflie.session import Block
from rlstack.interfaces.signals import MOTION
from rlstack.robots.frames import rotate_inverse
from rlstack.robots.spec import STANDARD_GRAVITY

SENSED = (*MOTION, "battery_voltage", "battery_percentage")

SHORTEST_S = 0.01
"""Shortest period of a log block."""
STATUS_S = 0.1
_POSITION_KEPT_S = 0.2
"""How old a position may be that an attitude is combined with."""
_NORM_ERROR = 0.02


class Measurements:
    """Collects signals from log blocks.

    Args:
        on_state: Called with the Crazyflie's time, s, and the arrival, monotonic s, of each new state.
        on_status: Called with the supervisor's bits, the thrust that it gives its motors, and the arrival.
    """

    def __init__(
        self, on_state: Callable[[float, float], None], on_status: Callable[[int, float, float], None]
    ) -> None:
        self._on_state, self._on_status = on_state, on_status
        self.signals: dict[str, Array] = {}
        self.refused = 0
        """States that were not finite, no rotation, or not newer than the last."""
        self._place: tuple[float, Array, Array] | None = None
        self._stamp_s = -math.inf

    @property
    def complete(self) -> bool:
        """Whether every signal has been measured."""
        return set(SENSED) == set(self.signals)

    def blocks(self, state_hz: float, imu_hz: float) -> tuple[Block, ...]:
        """Return the log blocks that are needed, at the nearest periods that exist."""

        def period(rate_hz: float) -> float:
            return max(SHORTEST_S, round(1.0 / rate_hz, 2))

        z = "stateEstimateZ."
        return (
            Block(0, [z + name for name in ("x", "y", "z", "vx", "vy", "vz")], period(state_hz), self._on_place),
            Block(
                1,
                [
                    *(f"stateEstimate.{name}" for name in ("qx", "qy", "qz", "qw")),
                    *(z + name for name in ("rateRoll", "ratePitch", "rateYaw")),
                ],
                period(state_hz),
                self._on_attitude,
            ),
            Block(
                2, [f"{sensor}.{axis}" for sensor in ("acc", "gyro") for axis in "xyz"], period(imu_hz), self._on_imu
            ),
            Block(
                3,
                ["pm.vbat", "pm.batteryLevel", "supervisor.info", "stabilizer.thrust"],
                STATUS_S,
                self._on_power,
            ),
        )

    def _on_place(self, stamp_s: float, arrived_s: float, values: tuple[float, ...]) -> None:
        self._place = stamp_s, np.array(values[:3]) * 1e-3, np.array(values[3:]) * 1e-3

    def _on_attitude(self, stamp_s: float, arrived_s: float, values: tuple[float, ...]) -> None:
        q = np.array(values[:4])
        size = float(np.linalg.norm(q))
        if not abs(size - 1.0) < _NORM_ERROR or 0.0 <= self._stamp_s - stamp_s < 1.0:
            self.refused += 1
            return
        self._stamp_s = stamp_s
        if self._place is None or abs(stamp_s - self._place[0]) > _POSITION_KEPT_S:
            return  # without a position there is no odometry: its age shows it
        placed_s, position, velocity = self._place
        q /= size
        roll, pitch, yaw = values[4:]
        self.signals |= {
            "position": position + velocity * (stamp_s - placed_s),
            "orientation": q,
            "linear_velocity": rotate_inverse(q, velocity),
            "angular_velocity": np.array([roll, -pitch, yaw]) * 1e-3,  # its pitch is the other way round
        }
        if self.complete:
            self._on_state(stamp_s, arrived_s)

    def _on_imu(self, stamp_s: float, arrived_s: float, values: tuple[float, ...]) -> None:
        if not all(map(math.isfinite, values)):
            self.refused += 1
            return
        self.signals["linear_acceleration"] = np.array(values[:3]) * STANDARD_GRAVITY
        self.signals["imu_angular_velocity"] = np.radians(values[3:])

    def _on_power(self, stamp_s: float, arrived_s: float, values: tuple[float, ...]) -> None:
        voltage, charge, bits, thrust = values
        self.signals["battery_voltage"] = np.array([voltage])
        self.signals["battery_percentage"] = np.array([charge * 1e-2])
        self._on_status(int(bits), thrust, arrived_s)
