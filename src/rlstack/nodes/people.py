"""The people node: tracks the people around a base from scans and odometry."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.body import Body
from rlstack.interfaces import topics
from rlstack.interfaces.laser_scans import ScanReader, scan_geometry
from rlstack.interfaces.messages import NANOSECONDS, set_stamp
from rlstack.interfaces.people_data import PeopleMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.nodes.map import Poses
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.readers import SCAN_PARAMETERS
from rlstack.nodes.runtime import ManagedNode, run_nodes
from rlstack.perception.people import PeopleTracker, TrackerSettings
from rlstack.robots import frames, load_robot

_DEFAULT = TrackerSettings()

PARAMETERS = (
    Parameter("robot", "turtlebot3_burger", "Name or file of the robot, which has a lidar called scan."),
    Parameter("reach_m", _DEFAULT.reach_m, "Nobody is looked for farther away, m.", minimum=0.5, maximum=100.0),
    Parameter("keep_s", _DEFAULT.keep_s, "How long somebody hidden is taken to go on, s.", minimum=0.0, maximum=60.0),
    Parameter("height_m", 1.7, "Of the markers, m.", minimum=0.1, maximum=3.0),
    Parameter("lock_step", False, "Simulated time waits for a policy that waits for this: no scan may be missed."),
    *SCAN_PARAMETERS,
)

MARKERS = "people_markers"
"""Topic of cylinders and arrows, for viewers."""

_LATE_NS = NANOSECONDS
"""Scans further apart than this are separate sequences: all tracks are dropped."""


class PeopleNode(ManagedNode):
    """Publishes ``people``, in the frame ``odom``, for every scan with odometry, under the scan's stamp.

    Policies and planners that sense people subscribe to it. It detects round objects of a person's width, as a lidar
    at torso height sees them; it cannot tell legs from table legs.

    Args:
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__("people", PARAMETERS, overrides, **options)

    def configure(self) -> None:
        """Create the topics.

        Raises:
            UserError: The robot is not a base, or has no lidar called scan.
        """
        p = self.parameters
        lidar = Body.of(load_robot(p["robot"])).lidar(topics.SCAN)
        mount = lidar.position_m[0], lidar.position_m[1], lidar.rpy_rad[2]
        settings = TrackerSettings(reach_m=p["reach_m"], keep_s=p["keep_s"])
        self._tracker = PeopleTracker(lidar.angles_rad, lidar.range_max_m, 1, mount, settings)
        self._poses, self._waiting = Poses(), deque[tuple[int, Array]](maxlen=16)
        self._stamp_ns = -1
        self._counts = dict.fromkeys(("scans", "scans without odometry", "scans refused", "people in the last"), 0)
        odometry = topics.type_of(topics.ODOM)
        fields = {name: SENSED[name].field for name in ("position", "orientation")}
        self._read_odometry = SignalReader(odometry, fields)
        frame = p["scan_frame"]
        self._read_scan = ScanReader(scan_geometry(lidar), (frame,) if frame else (), zero_is_far=p["zero_is_far"])
        self._message, self._said = PeopleMessage(), None
        self._people = self.publisher(topics.type_of(topics.PEOPLE), topics.PEOPLE, "sensor_out")
        self._markers = self.publisher(topics.type_of(topics.MARKERS), MARKERS, "sensor_out")
        quality: topics.Quality = "sensor_in_reliable" if p["lock_step"] else "sensor_in"
        self.subscriber(odometry, topics.ODOM, self._on_odometry, quality, raw=True)
        self.subscriber(topics.message_type(topics.SCAN_TYPE), topics.SCAN, self._on_scan, quality, raw=True)

    def activate(self) -> None:
        """Start without tracks."""
        self._forget()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report how many scans were processed."""
        missing = "no scan has come that odometry goes with" if not self._counts["scans"] else ""
        return missing, dict(self._counts)

    def _forget(self) -> None:
        self._tracker.reset(1)
        self._waiting.clear()
        self._stamp_ns = -1

    def _on_odometry(self, data: bytes) -> None:
        if not self.active:
            return
        stamp, seen = self._read_odometry(data)
        if not all(np.isfinite(v).all() for v in seen.values()):
            return
        if self._poses.add(stamp, seen["position"], float(frames.yaw(seen["orientation"]))):
            self._forget()
        while self._waiting and self._waiting[0][0] <= stamp:
            self._track(*self._waiting.popleft())

    def _on_scan(self, data: bytes) -> None:
        if not self.active:
            return
        try:
            stamp, signals = self._read_scan(data)
        except ValueError as error:
            self._counts["scans refused"] += 1
            self.warn(f"A scan was refused: {error}.", "scan")
            return
        if stamp <= self._poses.newest_ns:
            self._track(stamp, signals["scan"])
        else:
            self._waiting.append((stamp, signals["scan"]))

    def _track(self, stamp_ns: int, scan: Array) -> None:
        pose = self._poses.at(stamp_ns)
        if pose is None:
            self._counts["scans without odometry"] += 1
            return
        since = stamp_ns - self._stamp_ns
        if self._stamp_ns >= 0 and since == 0:
            if self._said is not None and self.parameters["lock_step"]:
                self._people.publish(self._said)  # a scan is sent again where a subscriber missed it
            return
        if self._stamp_ns < 0 or not 0 < since <= _LATE_NS:
            self._tracker.reset(1)
            since = 0
        self._stamp_ns = stamp_ns
        tracker = self._tracker
        tracker.update(scan[None], np.array([pose]), since / NANOSECONDS)
        there = tracker.confirmed[0]
        place, velocity, radius = tracker.position[0, there], tracker.velocity[0, there], tracker.radius[0, there]
        identity = tracker.identity[0, there]
        self._counts["scans"] += 1
        self._counts["people in the last"] = int(there.sum())
        self._said = self._message.fill(stamp_ns, place, velocity, radius, identity)
        self._people.publish(self._said)
        if self._markers.get_subscription_count():
            self._markers.publish(_markers(stamp_ns, place, velocity, radius, identity, self.parameters["height_m"]))


def _markers(stamp_ns: int, place: Array, velocity: Array, radius: Array, identity: Array, height_m: float) -> Any:
    """Return a cylinder for each person, and an arrow as long as their motion in a second."""
    kind, point = topics.message_type("visualization_msgs/msg/Marker"), topics.message_type("geometry_msgs/msg/Point")
    array = topics.type_of(topics.MARKERS)()
    for (x, y), (vx, vy), size, number in zip(place.tolist(), velocity.tolist(), radius.tolist(), identity.tolist()):
        for name, shape in (("people", kind.CYLINDER), ("velocities", kind.ARROW)):
            marker = kind(ns=name, id=int(number) % 2**31, type=shape, action=kind.ADD)
            marker.header.frame_id = topics.WORLD_FRAME
            set_stamp(marker.header.stamp, stamp_ns)
            marker.lifetime.nanosec = NANOSECONDS // 2
            marker.pose.orientation.w = 1.0
            marker.color.r, marker.color.g, marker.color.b, marker.color.a = 0.9, 0.5, 0.1, 0.6
            if shape == kind.CYLINDER:
                marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = x, y, 0.5 * height_m
                marker.scale.x = marker.scale.y = 2.0 * size
                marker.scale.z = height_m
            else:
                marker.points = [point(x=x, y=y, z=0.1), point(x=x + vx, y=y + vy, z=0.1)]
                marker.scale.x, marker.scale.y = 0.05, 0.1
            array.markers.append(marker)
    return array


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the people node; return the exit status."""
    return run_nodes(PeopleNode, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
