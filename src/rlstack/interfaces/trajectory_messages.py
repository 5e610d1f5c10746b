"""Joint targets: ``trajectory_msgs/JointTrajectory``, or ``std_msgs/Float64MultiArray``, to and from arrays.

A trajectory has one point, the present target of every joint by name: targets are streamed at the control rate.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import NANOSECONDS, NameOrder, set_stamp, stamp_to_ns


class TrajectoryMessage:
    """One message, of its topic's type, that is refilled for every command.

    Args:
        names: Joint names in the order of the arrays.
        plain: Use a Float64MultiArray, which has neither stamp nor names.
        reach_s: ``time_from_start`` of the point, s: a controller of ros2_control interpolates to it, and drops what
            is due before it comes.
    """

    def __init__(self, names: Sequence[str], *, plain: bool = False, reach_s: float = 0.0) -> None:
        self.plain, self._names = plain, list(names)
        self.type: Any = topics.message_type(topics.PLAIN_JOINTS) if plain else topics.type_of(topics.JOINT_COMMAND)
        self.message = self.type()
        if not plain:
            self.message.header.frame_id = topics.BODY_FRAME
            self._point = topics.message_type("trajectory_msgs/msg/JointTrajectoryPoint")()
            set_stamp(self._point.time_from_start, round(reach_s * NANOSECONDS))

    def fill(self, stamp_ns: int, target: Array) -> Any:
        """Return the message with targets (joints,), rad or m, and the stamp of the observation that it answers.

        Raises:
            ValueError: There is not one value for each joint.
        """
        if np.shape(target) != (len(self._names),):
            raise ValueError(f"joint targets of the shape {np.shape(target)} are not allowed: must be of {self._names}")
        numbers = array.array("d", np.asarray(target, dtype=np.float64).tobytes())
        if self.plain:
            self.message.data = numbers
            return self.message
        set_stamp(self.message.header.stamp, stamp_ns)
        self._point.positions = numbers
        self.message.joint_names, self.message.points = self._names, [self._point]
        return self.message

    def fill_off(self, stamp_ns: int) -> Any:
        """Return the message without joints, which stops the arm in place.

        None if it has no names: ros2_control's forward_command_controller fails on a message without values, and is
        deactivated. Without messages it keeps its last targets.
        """
        if self.plain:
            return None
        set_stamp(self.message.header.stamp, stamp_ns)
        self.message.joint_names, self.message.points = [], []
        return self.message


class TrajectoryReader:
    """Reads a serialized message's stamp and joint targets.

    Args:
        names: Joint names in the wanted order.
        plain: The message is a Float64MultiArray, whose values are in this order.
        name: Name of the signal.
    """

    def __init__(self, names: Sequence[str], *, plain: bool = False, name: str = "joint_target") -> None:
        self.type: Any = topics.message_type(topics.PLAIN_JOINTS) if plain else topics.type_of(topics.JOINT_COMMAND)
        self._order, self._plain, self._name = NameOrder(names), plain, name

    def __call__(self, data: bytes) -> tuple[int | None, dict[str, Array]]:
        """Return the stamp in ns and the signal (joints,), empty for "stop"; None for a stamp that is missing or 0.

        Raises:
            ValueError: The joints differ, there is not exactly one point, or not one value for each joint.
        """
        message = cdr.deserialize(data, self.type)
        if self._plain:
            numbers = np.array(message.data, dtype=np.float64)
            if len(numbers) not in (0, len(self._order.names)):
                raise ValueError(f"there are {len(numbers)} numbers for the joints {list(self._order.names)}")
            return None, {self._name: numbers}
        names, points = list(message.joint_names), message.points
        if names and len(points) != 1:
            raise ValueError(f"the trajectory has {len(points)} points: give one, where the joints are to be now")
        target = np.array(points[0].positions if points else (), dtype=np.float64)
        arranged = self._order.arrange(tuple(names), lambda: names, target)
        return stamp_to_ns(message.header.stamp) or None, {self._name: arranged}
