"""Cameras and lidars that a driver reads beside its robot: a rotating scanner on a serial port, a camera by OpenCV.

Any driver takes them by the options of its URI: it merges :data:`OPTIONS` into its own, makes :class:`Captures` of
them, and names them in ``captured``. Each has a thread of its own; a capture is the newest one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from rlstack.errors import UserError, unknown_name
from rlstack.hardware.captures.camera import VideoCamera
from rlstack.hardware.captures.rplidar import RpLidar
from rlstack.interfaces.backend import Capture
from rlstack.robots import RobotSpec

OPTIONS: dict[str, Any] = {
    "lidar": "",
    "lidar_baud": 115200,
    "lidar_yaw": 0.0,
    "zero_is_far": False,
    "camera": "",
    "camera_fps": 0.0,
}
"""Options of a URI with their defaults: see docs/hardware.md."""


class Source(Protocol):
    """A camera or lidar."""

    def open(self) -> None:
        """Open it, check it against the robot file and wait for its first capture.

        Raises:
            UserError: It is not there, or not the one of the robot file.
        """

    def capture(self) -> Capture:
        """Return the newest capture, at once.

        Raises:
            UserError: It has failed.
        """

    def close(self) -> None:
        """Close it; a second call does nothing."""


class Captures:
    """A robot's cameras and lidars, as the options of its URI name them; none by default.

    ``lidar=/dev/ttyUSB0`` and ``camera=/dev/video0`` are the robot file's only lidar and camera; where it has several,
    each is named: ``camera=wrist:/dev/video0,scene:/dev/video2``.

    Args:
        robot: The robot.
        options: The URI's, with those of :data:`OPTIONS`.

    Raises:
        UserError: The robot file has no such camera or lidar, or more than one and none is named.
    """

    def __init__(self, robot: RobotSpec, options: Mapping[str, Any] | None = None) -> None:
        given = {**OPTIONS, **(options or {})}
        self._sources: dict[str, Source] = {}
        for name, device in _named("lidar", given["lidar"], robot.lidars, robot.name).items():
            self._sources[name] = RpLidar(
                robot.lidars[name], device, given["lidar_baud"], given["lidar_yaw"], zero_is_far=given["zero_is_far"]
            )
        for name, device in _named("camera", given["camera"], robot.cameras, robot.name).items():
            self._sources[name] = VideoCamera(name, robot.cameras[name], device, given["camera_fps"])

    @property
    def names(self) -> tuple[str, ...]:
        """Their names in the robot file."""
        return tuple(self._sources)

    def open(self) -> None:
        """Open all of them; none stays open if one fails.

        Raises:
            UserError: One is not there, or not the one of the robot file.
        """
        try:
            for source in self._sources.values():
                source.open()
        except BaseException:
            self.close()
            raise

    def capture(self, name: str) -> Capture:
        """Return the newest capture of one.

        Raises:
            UserError: There is no such one, or it has failed.
        """
        if name not in self._sources:
            raise unknown_name("camera or lidar", name, self._sources)
        return self._sources[name].capture()

    def close(self) -> None:
        """Close all of them; a second call does nothing."""
        for source in self._sources.values():
            source.close()


def _named(what: str, option: str, known: Collection[str], robot: str) -> dict[str, str]:
    """Return devices by the names of what they are in the robot file."""
    found: dict[str, str] = {}
    for part in filter(None, option.split(",")):
        name, colon, device = part.partition(":")
        if not colon:
            if len(known) != 1:
                shown = ", ".join(known) or "none"
                raise UserError(
                    f"The option {what}={option} names no {what} of {robot}, which has {shown}: give"
                    f" {what}=NAME:{part}."
                )
            name, device = next(iter(known)), part
        if name not in known:
            raise unknown_name(f"{what} of {robot}", name, known)
        found[name] = device
    return found
