"""Recordings of flights, as bags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def write_flight(
    path: Path,
    time_s: Floats,
    motion: Mapping[str, Floats],
    command: Floats,
    *,
    rotors: tuple[str, ...] = ("m1", "m2", "m3", "m4"),
    robot: str = "/crazyflie",
    command_clock_s: Floats | float = 0.0,
    omit: str = "",
    measured: Floats | None = None,
) -> Path:
    """Write odometry and rotor commands that answer it, as the nodes publish them, into a new bag.

    Args:
        path: Its folder.
        time_s: (n,) s.
        motion: position, orientation, linear_velocity and angular_velocity, (n, width).
        command: (n, rotors) rad/s.
        rotors: Names of the rotors; they stand in the messages in another order.
        robot: Namespace.
        command_clock_s: How far the commands' clock is ahead.
        omit: A topic to leave out.
        measured: (n, rotors) rad/s, of ``joint_states``; None: nothing measures the rotors.
    """
    from rlstack.data.bags.writing import _Bag

    ahead = np.broadcast_to(command_clock_s, time_s.shape)
    with _Bag(path) as bag:
        types = bag._store.types
        vector, point = types["geometry_msgs/msg/Vector3"], types["geometry_msgs/msg/Point"]
        turn = types["geometry_msgs/msg/Quaternion"]
        for k, at in enumerate(time_s):
            now = 10**9 + round(1e9 * float(at))
            row = {name: array[k].tolist() for name, array in motion.items()}
            pose = types["geometry_msgs/msg/Pose"](point(*row["position"]), turn(*row["orientation"]))
            twist = types["geometry_msgs/msg/Twist"](vector(*row["linear_velocity"]), vector(*row["angular_velocity"]))
            if omit != "odom":
                bag.say(
                    f"{robot}/odom",
                    "nav_msgs/msg/Odometry",
                    now,
                    header=bag.header(now, "odom"),
                    child_frame_id="base_link",
                    pose=types["geometry_msgs/msg/PoseWithCovariance"](pose, np.zeros(36)),
                    twist=types["geometry_msgs/msg/TwistWithCovariance"](twist, np.zeros(36)),
                )
            stamp = now + round(1e9 * float(ahead[k]))
            rows = [] if measured is None else [("joint_states", now, now, measured[k])]
            rows += [] if omit == "cmd/rotors" else [("cmd/rotors", now + 2_000_000, stamp, command[k])]
            for topic, at_ns, stamp_ns, speeds in rows:
                bag.say(
                    f"{robot}/{topic}",
                    "sensor_msgs/msg/JointState",
                    at_ns,
                    header=bag.header(stamp_ns),
                    name=list(rotors[::-1]),
                    position=np.empty(0),
                    velocity=speeds[::-1].astype(float),
                    effort=np.empty(0),
                )
    return path
