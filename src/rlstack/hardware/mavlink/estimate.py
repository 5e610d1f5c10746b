"""The autopilot's state estimate and sensors, from its messages to signals in ENU and FLU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.hardware.mavlink.frames import swap_body, swap_local_orientation, swap_orientation, swap_world
from rlstack.interfaces.signals import MOTION
from rlstack.robots.frames import rotate_inverse
from rlstack.robots.spec import STANDARD_GRAVITY

SENSED = (*MOTION, "battery_voltage", "battery_current", "battery_percentage")

_LOCAL_NED, _BODY_FRD, _LOCAL_FRD = 1, 12, 20
"""Numbers of MAV_FRAME."""
_NORM_ERROR = 0.02
_POSITION_KEPT_NS = 200_000_000
"""How old a position may be that an attitude is combined with."""
_EPOCH_US = 10**14
"""Stamps above are of the Unix epoch and not since the start of the autopilot."""
_UNKNOWN_CELL = 0xFFFF


class Estimate:
    """Collects signals; each message that completes a pose returns the autopilot's time of it."""

    def __init__(self) -> None:
        unknown = np.array([math.nan])
        self.signals: dict[str, Array] = {
            "battery_voltage": unknown,
            "battery_current": unknown,
            "battery_percentage": unknown,
        }
        self.refused: dict[str, int] = {}
        """How many messages were refused, by reason."""
        self._stamp_ns = -1
        self._place: tuple[int, Array, Array] | None = None

    @property
    def complete(self) -> bool:
        """Whether every signal has been measured, except for the battery's."""
        return set(SENSED) == set(self.signals)

    def take(self, message: Any) -> int | None:
        """Take a message; return the autopilot's time, ns, if it gives a new pose."""
        reader = getattr(self, f"_{message.get_type().lower()}", None)
        if reader is None:
            return None
        try:
            stamp_ns: int | None = reader(message)
        except ValueError as error:
            self.refused[str(error)] = self.refused.get(str(error), 0) + 1
            return None
        return stamp_ns

    def _odometry(self, message: Any) -> int | None:
        stamp_ns = _boot_ns(message.time_usec)
        position = _finite([message.x, message.y, message.z], "a position that is not finite")
        q = _unit([*message.q[1:], message.q[0]])
        velocity = _finite([message.vx, message.vy, message.vz], "a velocity that is not finite")
        rates = _finite([message.rollspeed, message.pitchspeed, message.yawspeed], "rates that are not finite")
        if message.frame_id == _LOCAL_NED:
            turned, place = swap_orientation(q), swap_world(position)
        elif message.frame_id == _LOCAL_FRD:
            turned, place = swap_local_orientation(q), swap_body(position)
        else:
            raise ValueError(f"odometry in frame {message.frame_id}")
        if message.child_frame_id == _BODY_FRD:
            moving = swap_body(velocity)
        elif message.child_frame_id == message.frame_id:
            world = swap_world(velocity) if message.frame_id == _LOCAL_NED else swap_body(velocity)
            moving = rotate_inverse(turned, world)
        else:
            raise ValueError(f"odometry with velocities in frame {message.child_frame_id}")
        return self._pose(stamp_ns, place, turned, moving, swap_body(rates))

    def _local_position_ned(self, message: Any) -> None:
        position = _finite([message.x, message.y, message.z], "a position that is not finite")
        velocity = _finite([message.vx, message.vy, message.vz], "a velocity that is not finite")
        self._place = message.time_boot_ms * 1_000_000, swap_world(position), swap_world(velocity)

    def _attitude_quaternion(self, message: Any) -> int | None:
        stamp_ns = message.time_boot_ms * 1_000_000
        turned = swap_orientation(_unit([message.q2, message.q3, message.q4, message.q1]))
        rates = _finite([message.rollspeed, message.pitchspeed, message.yawspeed], "rates that are not finite")
        if self._place is None or abs(stamp_ns - self._place[0]) > _POSITION_KEPT_NS:
            return None  # without a position there is no odometry: its age shows it
        placed_ns, position, velocity = self._place
        place = position + velocity * ((stamp_ns - placed_ns) / 1e9)
        return self._pose(stamp_ns, place, turned, rotate_inverse(turned, velocity), swap_body(rates))

    def _pose(self, stamp_ns: int, place: Array, turned: Array, moving: Array, rates: Array) -> int | None:
        if 0 <= self._stamp_ns - stamp_ns < 1_000_000_000:
            raise ValueError("a state that is not newer than the last")
        self._stamp_ns = stamp_ns  # further back: the autopilot has started again
        self.signals |= {
            "position": place,
            "orientation": turned,
            "linear_velocity": moving,
            "angular_velocity": rates,
        }
        return stamp_ns

    def _highres_imu(self, message: Any) -> None:
        force = _finite([message.xacc, message.yacc, message.zacc], "an acceleration that is not finite")
        rates = _finite([message.xgyro, message.ygyro, message.zgyro], "rates that are not finite")
        self.signals |= {"linear_acceleration": swap_body(force), "imu_angular_velocity": swap_body(rates)}

    def _scaled_imu(self, message: Any) -> None:
        force = np.array([message.xacc, message.yacc, message.zacc]) * (STANDARD_GRAVITY * 1e-3)
        rates = np.array([message.xgyro, message.ygyro, message.zgyro]) * 1e-3
        self.signals |= {"linear_acceleration": swap_body(force), "imu_angular_velocity": swap_body(rates)}

    def _battery_status(self, message: Any) -> None:
        if message.id != 0:
            return
        cells = [cell for cell in message.voltages if cell != _UNKNOWN_CELL]
        current, left = message.current_battery, message.battery_remaining
        self.signals |= {
            "battery_voltage": np.array([sum(cells) * 1e-3 if any(cells) else math.nan]),
            "battery_current": np.array([-current * 1e-2 if current >= 0 else math.nan]),
            "battery_percentage": np.array([left * 1e-2 if 0 <= left <= 100 else math.nan]),
        }


def _boot_ns(time_us: int) -> int:
    if time_us > _EPOCH_US:
        raise ValueError("odometry with stamps of the Unix epoch instead of the autopilot's start")
    return int(time_us) * 1000


def _finite(values: list[float], what: str) -> Array:
    array = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        raise ValueError(what)
    return array


def _unit(quaternion: list[float]) -> Array:
    q = np.array(quaternion, dtype=float)
    size = float(np.linalg.norm(q))
    if not abs(size - 1.0) < _NORM_ERROR:
        raise ValueError("an orientation that is no rotation")
    return q / size
