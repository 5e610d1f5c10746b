"""The frame tree of a robot and its joints, read from its URDF, so that /tf matches the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.robots.model import MOVING, UrdfJoint, read_tree

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

TURNING, SLIDING = ("revolute", "continuous"), ("prismatic",)


@dataclass(frozen=True)
class Joint:
    """The pose of a child frame in its parent frame.

    Args:
        name: Name of the joint.
        kind: URDF's: ``fixed``, ``revolute``, ``continuous`` or ``prismatic``.
        parent: Frame.
        child: Frame.
        position: Position of the child in the parent with the joint at 0, m.
        orientation: xyzw, turns child vectors into parent vectors with the joint at 0.
        axis: Unit vector, in the child, of its rotation or translation.
        mimics: The joint that it mimics; empty if none.
        multiplier: Factor on the other joint's position.
        offset: Added to that, rad or m.
        lower: Least position, rad or m; without a limit infinite.
        upper: Greatest position, likewise.
    """

    name: str
    kind: str
    parent: str
    child: str
    position: Vector
    orientation: Quaternion
    axis: Vector = (1.0, 0.0, 0.0)
    mimics: str = ""
    multiplier: float = 1.0
    offset: float = 0.0
    lower: float = -math.inf
    upper: float = math.inf

    def pose(self, value: float) -> tuple[Vector, Quaternion]:
        """Return the child's position (m) and orientation (xyzw) in its parent for a joint ``value``, rad or m."""
        if self.kind in TURNING:
            x, y, z = (math.sin(0.5 * value) * along for along in self.axis)
            turned = frames.multiply(self.orientation, (x, y, z, math.cos(0.5 * value)))
            return self.position, tuple(turned.tolist())
        if self.kind in SLIDING:
            moved = self.position + frames.rotate(self.orientation, [value * along for along in self.axis])
            return tuple(moved.tolist()), self.orientation
        return self.position, self.orientation


@dataclass(frozen=True)
class FrameTree:
    """All frames of a robot.

    Args:
        root: The frame that has no parent, ``base_link``.
        fixed: Joints that never move.
        moving: The others.
    """

    root: str
    fixed: tuple[Joint, ...]
    moving: tuple[Joint, ...]

    @property
    def frames(self) -> tuple[str, ...]:
        """The root, then every child."""
        return (self.root, *(joint.child for joint in (*self.fixed, *self.moving)))

    def values(self, given: Mapping[str, float]) -> dict[str, float]:
        """Return the position of every moving joint: from the values by name, from the joint that it mimics, or 0."""
        found = {joint.name: float(given.get(joint.name, 0.0)) for joint in self.moving}
        for joint in self.moving:
            if joint.mimics:
                found[joint.name] = joint.multiplier * found.get(joint.mimics, 0.0) + joint.offset
        return found

    def poses(self, joints: Mapping[str, float]) -> dict[str, tuple[Array, Array]]:
        """Return position (3,), m, and orientation (4,), xyzw, of every frame in the root, for joint values by name."""
        values = self.values(joints)
        found = {self.root: (np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))}
        waiting = [*self.fixed, *self.moving]
        while waiting:  # a tree: each round places at least the children of placed frames
            for joint in waiting:
                if joint.parent in found:
                    at, turned = found[joint.parent]
                    position, orientation = joint.pose(values.get(joint.name, 0.0))
                    found[joint.child] = (at + frames.rotate(turned, position), frames.multiply(turned, orientation))
            waiting = [joint for joint in waiting if joint.child not in found]
        return found


def read_frames(text: str) -> FrameTree:
    """Return the frames of a URDF; raise ``UserError`` if it is not one tree, or has a joint of an unsupported type."""
    where = "The robot description"
    _, read, root = read_tree(text, where)
    joints = [_joint(joint, where) for joint in read]
    return FrameTree(
        root=root,
        fixed=tuple(joint for joint in joints if joint.kind == "fixed"),
        moving=tuple(joint for joint in joints if joint.kind != "fixed"),
    )


def _joint(joint: UrdfJoint, where: str) -> Joint:
    if joint.type not in ("fixed", *MOVING):
        raise UserError(
            f"{where}: the joint '{joint.name}' is {joint.type}: must be fixed, revolute, continuous or prismatic."
        )
    x, y, z, w = frames.from_matrix(joint.rotation).tolist()
    px, py, pz = joint.xyz.tolist()
    ax, ay, az = joint.unit_axis.tolist()
    mimic = {} if joint.mimic is None else joint.mimic.attrib
    return Joint(
        name=joint.name,
        kind=joint.type,
        parent=joint.parent,
        child=joint.child,
        position=(px, py, pz),
        orientation=(x, y, z, w),
        axis=(ax, ay, az),
        mimics=mimic.get("joint", ""),
        multiplier=float(mimic.get("multiplier", 1.0)),
        offset=float(mimic.get("offset", 0.0)),
        lower=joint.lower,
        upper=joint.upper,
    )
