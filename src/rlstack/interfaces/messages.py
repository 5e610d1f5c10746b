"""Conversions between ROS messages and arrays, compiled once per field to keep the control path fast.

It imports no ROS: messages are read and filled through their attributes.
"""

from __future__ import annotations

import array
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics

Reader = Callable[[Any], Array]
NANOSECONDS = 1_000_000_000

_VECTOR, _QUATERNION = ("x", "y", "z"), ("x", "y", "z", "w")


def stamp_to_ns(stamp: Any) -> int:
    """Return a ``builtin_interfaces/Time`` as nanoseconds."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def set_stamp(stamp: Any, nanoseconds: int) -> None:
    """Write nanoseconds into a ``builtin_interfaces/Time``."""
    stamp.sec, stamp.nanosec = divmod(nanoseconds, NANOSECONDS)


def seconds_to_ns(seconds: float) -> int:
    """Return seconds rounded to the nearest nanosecond."""
    return round(seconds * NANOSECONDS)


def field_reader(message_class: Any, field: str, names: Sequence[str] = ()) -> Reader:
    """Return a function that reads a dotted ``field`` of a message as a float64 array.

    Vectors and points become x, y, z, quaternions x, y, z, w, and a number one element; several numbers, separated by
    ", ", become one array. With ``names`` (of joints or rotors) the values are matched by the message's
    ``name`` list, so its order does not matter.

    Args:
        message_class: The message's class.
        field: Such as ``pose.pose.position``.
        names: The order of the elements; empty if they have no names.

    Raises:
        UserError: The message has no such field, or it is not a vector, a quaternion, a list of numbers or a number.
    """
    if names:
        order, get_values = NameOrder(names), _getter(field)
        return lambda message: order.arrange(
            list(message.name), lambda: list(message.name), np.array(get_values(message), dtype=np.float64)
        )
    leaves = leaf_fields(message_class, field)
    if leaves:
        # Compiled source: one attribute chain per element is several times faster than a loop of getattr.
        elements = ", ".join(f"message.{leaf}" for leaf in leaves)
        stem = f"{field}."
        if all(leaf.startswith(stem) for leaf in leaves):
            elements = ", ".join(f"v.{leaf.removeprefix(stem)}" for leaf in leaves)
        else:
            stem = ""
        found = f"    v = message.{field}\n" if stem else ""
        scope: dict[str, Any] = {"array": np.array}
        exec(f"def read(message):\n{found}    return array(({elements},), dtype=float)", scope)
        reader: Reader = scope["read"]
        return reader
    get = _getter(field)
    return lambda message: np.array(get(message), dtype=np.float64)


def leaf_fields(message_class: Any, field: str) -> list[str]:
    """Return the number fields of a vector (x, y, z) or quaternion (x, y, z, w); none for a list.

    A number is its own field; several numbers are separated by ", ".

    Raises:
        UserError: The message has no such field, or it is not a vector, a quaternion, a list of numbers or a number.
    """
    if ", " in field:
        return [leaf for part in field.split(", ") for leaf in leaf_fields(message_class, part)]
    value: Any = message_class()
    for part in field.split("."):
        if not hasattr(value, part):
            raise UserError(f"{message_class.__name__} has no field '{field}' ('{part}' is missing).")
        value = getattr(value, part)
    attributes = set(getattr(value, "get_fields_and_field_types", dict)())
    if attributes == set(_VECTOR) or attributes == set(_QUATERNION):
        return [f"{field}.{name}" for name in (_QUATERNION if "w" in attributes else _VECTOR)]
    if isinstance(value, (array.array, np.ndarray, list, tuple)):
        return []
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [field]
    raise UserError(f"{message_class.__name__}.{field} is not a vector, a quaternion, a list of numbers or a number.")


class NameOrder:
    """Sorts named values into a given order.

    Args:
        names: The order.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._key: Any = None
        self._order: NDArray[np.intp] | None = None

    def arrange(self, key: Any, names: Callable[[], list[str]], values: Array) -> Array:
        """Return ``values`` in order; an empty list without names stays empty.

        Args:
            key: Cache key: equal keys mean equal names.
            names: Returns the names of the values.
            values: One number for each name.

        Raises:
            ValueError: A name is missing, unknown or duplicated, or the numbers of values and names differ.
        """
        if key != self._key:
            came = names()
            if not came and not len(values):
                return values
            self._learn(came)
            self._key = key
        if len(values) != len(self.names):
            raise ValueError(f"there are {len(values)} values for the names {list(self.names)}")
        return values if self._order is None else values[self._order]

    def _learn(self, names: list[str]) -> None:
        missing, unknown = [n for n in self.names if n not in names], [n for n in names if n not in self.names]
        if missing or unknown or len(names) != len(self.names):
            detail = f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
            if not missing and not unknown:
                detail = "a name comes twice"
            raise ValueError(f"the names {names} are not {list(self.names)} ({detail})")
        order = np.array([names.index(name) for name in self.names])
        self._order = None if np.array_equal(order, np.arange(len(order))) else order


def _getter(field: str) -> Callable[[Any], Any]:
    scope: dict[str, Any] = {}
    if not all(part.isidentifier() for part in field.split(".")):
        raise UserError(f"'{field}' is not a field of a message.")
    exec(f"def get(message):\n    return message.{field}", scope)
    get: Callable[[Any], Any] = scope["get"]
    return get


def pose_message(
    position: Array, orientation: Array | None = None, *, stamp_ns: int = 0, frame: str = topics.WORLD_FRAME
) -> Any:
    """Return a ``geometry_msgs/PoseStamped``.

    Args:
        position: (3,) m.
        orientation: (4,) unit quaternion xyzw; None: identity.
        stamp_ns: Its stamp.
        frame: Its ``header.frame_id``.
    """
    pose = topics.type_of(topics.GOAL)()
    set_stamp(pose.header.stamp, stamp_ns)
    pose.header.frame_id = frame
    _set_vector(pose.pose.position, np.asarray(position, dtype=float))
    _set_quaternion(pose.pose.orientation, np.array([0.0, 0.0, 0.0, 1.0]) if orientation is None else orientation)
    return pose


class RotorMessage:
    """One JointState that is refilled for every command, so that sending one allocates almost nothing.

    Args:
        message: An empty ``sensor_msgs/JointState``.
        names: Rotor names in the order of the arrays.
    """

    def __init__(self, message: Any, names: Sequence[str]) -> None:
        self.message = message
        self._names = list(names)
        self._none = array.array("d")
        message.name = self._names

    def fill(self, stamp_ns: int, rotor_speed: Array) -> Any:
        """Return the message with ``rotor_speed`` (rotors,) rad/s and the stamp of the observation it answers."""
        set_stamp(self.message.header.stamp, stamp_ns)
        self.message.name = self._names
        self.message.velocity = array.array("d", np.asarray(rotor_speed, dtype=np.float64).tobytes())
        return self.message

    def fill_off(self, stamp_ns: int) -> Any:
        """Return the message without rotors, which stops the motors."""
        set_stamp(self.message.header.stamp, stamp_ns)
        self.message.name, self.message.velocity = [], self._none
        return self.message


class JointMessage:
    """One JointState that is refilled for every reading, with positions and velocities.

    Args:
        message: An empty ``sensor_msgs/JointState``.
        names: Joint names in the order of the arrays.
    """

    def __init__(self, message: Any, names: Sequence[str]) -> None:
        self.message = message
        message.name = list(names)

    def fill(self, stamp_ns: int, position: Array, velocity: Array) -> Any:
        """Return the filled message: (joints,) rad and rad/s, or m and m/s."""
        set_stamp(self.message.header.stamp, stamp_ns)
        self.message.position = array.array("d", np.asarray(position, dtype=np.float64).tobytes())
        self.message.velocity = array.array("d", np.asarray(velocity, dtype=np.float64).tobytes())
        return self.message


class OdometryMessage:
    """One Odometry that is refilled for every reading.

    Args:
        message: An empty ``nav_msgs/Odometry``.
        world_frame: ``header.frame_id``.
        body_frame: ``child_frame_id``, the twist's frame.
        position_noise_m: Standard deviations for the covariance diagonals.
        orientation_noise_rad: Likewise.
        linear_velocity_noise_m_s: Likewise.
        angular_velocity_noise_rad_s: Likewise.
    """

    def __init__(
        self,
        message: Any,
        world_frame: str,
        body_frame: str,
        *,
        position_noise_m: float = 0.0,
        orientation_noise_rad: float = 0.0,
        linear_velocity_noise_m_s: float = 0.0,
        angular_velocity_noise_rad_s: float = 0.0,
    ) -> None:
        self.message = message
        message.header.frame_id, message.child_frame_id = world_frame, body_frame
        message.pose.covariance = _diagonal([position_noise_m] * 3 + [orientation_noise_rad] * 3)
        message.twist.covariance = _diagonal([linear_velocity_noise_m_s] * 3 + [angular_velocity_noise_rad_s] * 3)

    def fill(
        self, stamp_ns: int, position: Array, orientation: Array, linear_velocity: Array, angular_velocity: Array
    ) -> Any:
        """Return the filled message: pose in the world frame (m, xyzw), twist in the body frame (m/s, rad/s)."""
        message = self.message
        set_stamp(message.header.stamp, stamp_ns)
        pose, twist = message.pose.pose, message.twist.twist
        _set_vector(pose.position, position)
        _set_quaternion(pose.orientation, orientation)
        _set_vector(twist.linear, linear_velocity)
        _set_vector(twist.angular, angular_velocity)
        return message


class ImuMessage:
    """One Imu that is refilled for every reading; its orientation is marked as unavailable.

    Args:
        message: An empty ``sensor_msgs/Imu``.
        body_frame: ``header.frame_id``.
        angular_velocity_noise_rad_s: Standard deviation for the covariance diagonal.
        linear_acceleration_noise_m_s2: Likewise.
    """

    def __init__(
        self,
        message: Any,
        body_frame: str,
        *,
        angular_velocity_noise_rad_s: float = 0.0,
        linear_acceleration_noise_m_s2: float = 0.0,
    ) -> None:
        self.message = message
        message.header.frame_id = body_frame
        message.orientation_covariance = np.array([-1.0, *[0.0] * 8])  # sensor_msgs/Imu: -1 means "no such estimate"
        message.angular_velocity_covariance = _diagonal([angular_velocity_noise_rad_s] * 3)
        message.linear_acceleration_covariance = _diagonal([linear_acceleration_noise_m_s2] * 3)

    def fill(self, stamp_ns: int, angular_velocity: Array, linear_acceleration: Array) -> Any:
        """Return the filled message, rad/s and m/s^2 in the body frame."""
        set_stamp(self.message.header.stamp, stamp_ns)
        _set_vector(self.message.angular_velocity, angular_velocity)
        _set_vector(self.message.linear_acceleration, linear_acceleration)
        return self.message


def _set_vector(target: Any, values: Array) -> None:
    target.x, target.y, target.z = values.tolist()


def _set_quaternion(target: Any, values: Array) -> None:
    target.x, target.y, target.z, target.w = values.tolist()


def _diagonal(standard_deviations: Sequence[float]) -> Array:
    return np.diag(np.square(standard_deviations)).ravel()


class BatteryMessage:
    """One BatteryState that is refilled; unmeasured values are NaN, as the message requires.

    Args:
        message: An empty ``sensor_msgs/BatteryState``.
    """

    def __init__(self, message: Any) -> None:
        self.message = message
        message.present = True
        for name in _UNMEASURED:
            setattr(message, name, math.nan)

    def fill(self, stamp_ns: int, voltage: float, current: float = math.nan, percentage: float = math.nan) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: Measurement time, ns.
            voltage: V.
            current: A, negative while discharging.
            percentage: 0 to 1.
        """
        message = self.message
        set_stamp(message.header.stamp, stamp_ns)
        message.voltage, message.current, message.percentage = voltage, current, percentage
        message.power_supply_status = _DISCHARGING if current < 0.0 else _FULL if percentage >= 1.0 else _UNKNOWN
        return message


_UNKNOWN, _DISCHARGING, _FULL = 0, 2, 4
"""Of ``power_supply_status``."""
_UNMEASURED = ("temperature", "charge", "capacity", "design_capacity")
