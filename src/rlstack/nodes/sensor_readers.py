"""Readers for sensor topics: parameters for scans, and the rates of lidars and cameras."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.interfaces import topics
from rlstack.interfaces.image_reader import ImageReader
from rlstack.interfaces.messages import NANOSECONDS, seconds_to_ns
from rlstack.interfaces.scan_geometry import scan_geometry
from rlstack.interfaces.scan_messages import ScanReader
from rlstack.interfaces.signal_reader import Read, topic_reader
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.placed_messages import PlacedMessages
from rlstack.policies import Port
from rlstack.robots import Lidar, RobotSpec

SCAN_PARAMETERS = (
    Parameter(
        "scan_frame",
        "",
        "Another name of the lidar's frame, as in the headers of this robot's scans, whatever TF says of it.",
    ),
    Parameter(
        "zero_is_far",
        False,
        "Whether the lidar's driver reports 0 for no return, as some older ones do; otherwise 0 is unmeasured.",
    ),
)
"""Parameters of every node that reads scans."""


def scan_reader(lidar: Lidar, parameters: ParameterSet, placed: PlacedMessages) -> ScanReader:
    """Return a reader of the scans of a robot file's lidar.

    Args:
        lidar: It has one ring.
        parameters: Those of the node, with :data:`SCAN_PARAMETERS`.
        placed: Knows the frames of lidars that stand elsewhere.
    """
    return ScanReader(
        scan_geometry(lidar),
        _other_names(parameters),
        zero_is_far=parameters["zero_is_far"],
        place=placed.on_robot,
    )


def _other_names(parameters: ParameterSet) -> tuple[str, ...]:
    return (parameters["scan_frame"],) if parameters["scan_frame"] else ()


def reader(ports: Sequence[Port], parameters: ParameterSet, robot: RobotSpec | None, placed: PlacedMessages) -> Read:
    """Return a reader of the signals of ``ports`` from serialized messages of their topic.

    Args:
        ports: A contract's ports on one topic. The age of an image is not read: it depends on the answered observation.
        parameters: Those of the node, with :data:`SCAN_PARAMETERS`.
        robot: The robot; its cameras' frames may have further names.
        placed: Knows the frames of messages.
    """
    for port in ports:
        if port.picture is not None:
            camera = robot.cameras.get(port.topic.partition("/")[0]) if robot else None
            return ImageReader(port.picture, port.name, camera.frames if camera else ())
    return topic_reader(
        ports[0].type,
        {p.name: p.field for p in ports},
        {p.name: p.element_names for p in ports},
        scan=ports[0].scan,
        scan_frames=_other_names(parameters),
        zero_is_far=parameters["zero_is_far"],
        place=placed.place,
        mount=placed.on_robot,
    )


def every_ns(robot: RobotSpec) -> dict[str, int]:
    """Return the period of messages by topic, ns, including latency: of a robot's lidars and of people."""
    found = {name: scan_every_ns(lidar) for name, lidar in robot.lidars.items()}
    return {**found, topics.PEOPLE: found[topics.SCAN]} if topics.SCAN in found else found


def cameras_of(robot: RobotSpec) -> dict[str, tuple[float, int]]:
    """Return the rate, Hz, and latency, ns, of a robot's cameras, by the topic of their images."""
    return {
        topics.camera_topic(name, topics.IMAGE): (camera.rate_hz, seconds_to_ns(camera.latency_s))
        for name, camera in robot.cameras.items()
    }


def scan_every_ns(lidar: Lidar) -> int:
    """Return how much older than an observation its newest scan may be when none is in transit, ns."""
    return round(NANOSECONDS * (1.0 / lidar.rate_hz + lidar.latency_s))
