"""The people node: tracks the people around a base from scans and odometry."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.base_model import BaseModel
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, set_stamp
from rlstack.interfaces.people_messages import PeopleMessage
from rlstack.nodes.frames import frames_of
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.posed_scans import PARAMETERS as SCAN_PARAMETERS
from rlstack.nodes.posed_scans import Pose, PosedScans
from rlstack.nodes.runtime import ManagedNode
from rlstack.perception.people import PeopleTracker, TrackerSettings
from rlstack.robots import load_robot

_DEFAULT = TrackerSettings()

PARAMETERS = (
    Parameter("robot", "turtlebot3_burger", "Robot with a lidar called scan, a name or file."),
    Parameter(
        "reach_m", _DEFAULT.reach_m, "Greatest distance at which people are detected, m.", minimum=0.5, maximum=100.0
    ),
    Parameter("keep_s", _DEFAULT.keep_s, "Time for which a hidden person is predicted, s.", minimum=0.0, maximum=60.0),
    Parameter("height_m", 1.7, "Height of the markers, m.", minimum=0.1, maximum=3.0),
    Parameter("lock_step", False, "Receive every scan: simulated time waits for a policy that waits for this node."),
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
    """

    NAME: ClassVar[str] = "people"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Create the topics.

        Raises:
            UserError: The robot is not a base, or has no lidar called scan.
        """
        p = self.parameters
        lidar = BaseModel.of(load_robot(p["robot"])).lidar(topics.SCAN)
        mount = lidar.position_m[0], lidar.position_m[1], lidar.rpy_rad[2]
        settings = TrackerSettings(reach_m=p["reach_m"], keep_s=p["keep_s"])
        self._tracker = PeopleTracker(lidar.angles_rad, lidar.range_max_m, 1, mount, settings)
        self._stamp_ns = -1
        quality: topics.Quality = "sensor_in_reliable" if p["lock_step"] else "sensor_in"
        self._scans = PosedScans(self, lidar, self._track, self._forget, quality)
        self._counts = self._scans.counts
        self._counts["people in the last"] = 0
        self._frame = frames_of(p).odom
        self._message, self._last = PeopleMessage(self._frame), None
        self._people = self.publisher(topics.type_of(topics.PEOPLE), topics.PEOPLE, "sensor_out")
        self._markers = self.publisher(topics.type_of(topics.MARKERS), MARKERS, "sensor_out")

    def activate(self) -> None:
        """Start without tracks."""
        self._forget()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report how many scans were processed."""
        return self._scans.status()

    def _forget(self) -> None:
        self._tracker.reset(1)
        self._scans.clear()
        self._stamp_ns = -1

    def _track(self, stamp_ns: int, scan: Array, pose: Pose) -> None:
        since = stamp_ns - self._stamp_ns
        if self._stamp_ns >= 0 and since == 0:
            if self._last is not None and self.parameters["lock_step"]:
                self._people.publish(self._last)  # a scan is sent again where a subscriber missed it
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
        self._last = self._message.fill(stamp_ns, place, velocity, radius, identity)
        self._people.publish(self._last)
        if self._markers.get_subscription_count():
            markers = _markers(stamp_ns, place, velocity, radius, identity, self.parameters["height_m"])
            for marker in markers.markers:
                marker.header.frame_id = self._frame
            self._markers.publish(markers)


def _markers(stamp_ns: int, place: Array, velocity: Array, radius: Array, identity: Array, height_m: float) -> Any:
    """Return a cylinder for each person, and an arrow as long as their motion in a second."""
    kind, point = topics.message_type("visualization_msgs/msg/Marker"), topics.message_type("geometry_msgs/msg/Point")
    array = topics.type_of(topics.MARKERS)()
    for (x, y), (vx, vy), size, number in zip(place.tolist(), velocity.tolist(), radius.tolist(), identity.tolist()):
        for name, shape in (("people", kind.CYLINDER), ("velocities", kind.ARROW)):
            marker = kind(ns=name, id=int(number) % 2**31, type=shape, action=kind.ADD)
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


main = PeopleNode.main

if __name__ == "__main__":
    raise SystemExit(main())
