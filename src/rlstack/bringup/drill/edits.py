"""Edits of deserialized messages that kinds of robots share: what faults do to commands and observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rlstack.bringup.drill.changes import Edit

_OTHER_FRAME = "another_robot/base_link"


def speed_edits(beyond: float) -> Mapping[str, Edit]:
    """Return edits of a ``JointState`` that commands speeds; ``beyond`` is far beyond their range."""
    return {
        "nan": _set_each("velocity", math.nan),
        "beyond": _set_each("velocity", beyond),
        "short": _drop_last("velocity"),
        "foreign": _rename("name"),
    }


def trajectory_edits(beyond: float) -> Mapping[str, Edit]:
    """Return edits of a ``JointTrajectory`` with one point; one without, which means off, stays as it is."""

    def at_point(edit: Edit) -> Edit:
        def edit_points(message: Any) -> None:
            for point in message.points:
                edit(point)

        return edit_points

    return {
        "nan": at_point(_set_each("positions", math.nan)),
        "beyond": at_point(_set_each("positions", beyond)),
        "short": at_point(_drop_last("positions")),
        "foreign": _rename("joint_names"),
    }


def twist_edits(beyond: float) -> Mapping[str, Edit]:
    """Return edits of a ``TwistStamped``."""

    def set_forward(value: float) -> Edit:
        def edit(message: Any) -> None:
            message.twist.linear.x = value

        return edit

    return {"nan": set_forward(math.nan), "beyond": set_forward(beyond)}


def rates_edits(beyond: float) -> Mapping[str, Edit]:
    """Return edits of a ``TwistStamped`` with rates and thrust; ``beyond`` is far beyond the range of rates, rad/s.

    One that stops the motors, by a thrust below 0, stays as it is.
    """

    def set_roll(value: float) -> Edit:
        def edit(message: Any) -> None:
            if message.twist.linear.z >= 0.0:
                message.twist.angular.x = value

        return edit

    return {"nan": set_roll(math.nan), "beyond": set_roll(beyond)}


def odometry_edits(jump: Edit) -> Mapping[str, Edit]:
    """Return edits of an ``Odometry``."""

    def nan(message: Any) -> None:
        message.pose.pose.position.x = math.nan

    def frame(message: Any) -> None:
        message.header.frame_id = message.child_frame_id = _OTHER_FRAME

    return {"jump": jump, "nan": nan, "frame": frame}


def move_odometry(distance_m: float) -> Edit:
    """Return an edit that moves an ``Odometry`` along x, m."""

    def edit(message: Any) -> None:
        message.pose.pose.position.x += distance_m

    return edit


def joint_state_edits(jump: float) -> Mapping[str, Edit]:
    """Return edits of a ``JointState`` that measures positions; ``jump`` is added to the first, rad."""

    def move(message: Any) -> None:
        message.position[0] += jump

    return {"jump": move, "nan": _set_each("position", math.nan)}


def _set_each(field: str, value: float) -> Edit:
    return lambda message: setattr(message, field, [value] * len(getattr(message, field)))


def _drop_last(field: str) -> Edit:
    return lambda message: setattr(message, field, list(getattr(message, field))[:-1])


def _rename(field: str) -> Callable[[Any], None]:
    return lambda message: setattr(message, field, [f"other_{name}" for name in getattr(message, field)])
