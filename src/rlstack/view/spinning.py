"""Joints whose positions nobody measures, turned so that they look right: wheels by the way, rotors by their speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.robots.frame_tree import FrameTree, read_frames
from rlstack.robots.visuals import Visual, read_visuals
from rlstack.view.recording import Recording

ROTOR_RAD_S = 14.0
"""Speed at which a rotor is drawn that turns fast: its own would flicker at 30 pictures a second."""
_SHOWN_SHARE = 0.01
"""Share of a slower rotor's speed that is drawn."""
_LEVEL, _UPRIGHT = 0.3, 0.9
"""Upward part of an axis: at most this of a wheel's, at least that of a rotor's."""
_JUMP_M = 0.5
"""What moves farther at once was put there."""


@dataclass(frozen=True)
class _Wheel:
    joint: str
    hub: Array
    """(3,) m in the root."""
    forward: Array
    """(3,) unit vector in the root, along which it rolls where its joint turns forward."""
    radius_m: float


class Spinning:
    """The unlimited joints of a robot, and how far each has turned.

    Args:
        tree: The robot's frames.
        shapes: Its shapes, of which a wheel's are as large as it is.
    """

    def __init__(self, tree: FrameTree, shapes: Iterable[Visual]) -> None:
        shapes, at_rest = list(shapes), tree.poses({})
        self.rotors: list[str] = []
        """Joints with upright axes, without their prefix."""
        self._wheels: list[_Wheel] = []
        for joint in tree.moving:
            if joint.kind != "continuous" or joint.mimics:
                continue
            hub, turned = at_rest[joint.child]
            axis = frames.rotate(turned, np.array(joint.axis))
            if abs(axis[2]) >= _UPRIGHT:
                self.rotors.append(joint.name.rpartition("/")[2])
            elif abs(axis[2]) <= _LEVEL and (radius := _radius(joint.child, shapes)) > 0.0:
                forward = np.cross(axis, [0.0, 0.0, 1.0])
                self._wheels.append(_Wheel(joint.name, hub, forward / np.linalg.norm(forward), radius))
        self.angles: dict[str, float] = {}
        """How far each has turned, rad, by joint."""
        self._pose: tuple[Array, Array] | None = None

    def move(self, position: Array, orientation: Array) -> bool:
        """Roll the wheels by the way to a pose of the root, position (3,) m and orientation (4,) xyzw.

        Returns:
            Whether any have turned.
        """
        before, self._pose = self._pose, (np.array(position), np.array(orientation))
        if before is None or not self._wheels:
            return False
        way = frames.rotate_inverse(before[1], self._pose[0] - before[0])
        if float(np.linalg.norm(way)) > _JUMP_M:
            return False
        yaw = _heading(self._pose[1]) - _heading(before[1])
        yaw = math.atan2(math.sin(yaw), math.cos(yaw))
        for wheel in self._wheels:
            moved = way + yaw * np.array([-wheel.hub[1], wheel.hub[0], 0.0])
            self._turn(wheel.joint, float(moved @ wheel.forward) / wheel.radius_m)
        return True

    def turn_rotors(self, speeds: Mapping[str, float], passed_s: float) -> None:
        """Turn rotors by their speeds, rad/s by joint, infinite or not, for a time, s; slower than in truth."""
        for name, speed in speeds.items():
            if not math.isnan(speed):
                self._turn(name, passed_s * math.copysign(min(_SHOWN_SHARE * abs(speed), ROTOR_RAD_S), speed))

    def _turn(self, joint: str, angle: float) -> None:
        self.angles[joint] = math.remainder(self.angles.get(joint, 0.0) + angle, 2.0 * math.pi)


def spun(recording: Recording) -> list[dict[str, float]]:
    """Return for each sample of a trial where its joints are, rad or m by name; those not recorded have spun."""
    shapes = (*read_visuals(recording.urdf, "collision"), *read_visuals(recording.urdf))
    spinning = Spinning(read_frames(recording.urdf), shapes)
    rotors = dict.fromkeys(spinning.rotors, math.inf)
    found, before = [], 0.0
    for k, now in enumerate(recording.time_s.tolist()):
        spinning.move(recording.position[k], recording.orientation[k])
        spinning.turn_rotors(rotors, now - before)
        before = now
        found.append({**spinning.angles, **recording.joints_at(k)})
    return found


def _radius(link: str, shapes: Iterable[Visual]) -> float:
    """Return the radius of a wheel, m; 0: its shapes do not tell."""
    sizes = [max(shape.size) for shape in shapes if shape.link == link and shape.shape != "mesh"]
    return 0.5 * max(sizes, default=0.0)


def _heading(orientation: Array) -> float:
    x, y, z, w = orientation
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
