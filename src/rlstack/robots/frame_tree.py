"""The frames of a robot and how its joints move them, read from its URDF: what /tf says is what the model shows."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.robots.sensing import rotation_from_rpy

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

TURNING, SLIDING = ("revolute", "continuous"), ("prismatic",)


@dataclass(frozen=True)
class Joint:
    """How a child frame is placed in its parent frame.

    Args:
        name: Of the joint.
        kind: URDF's: ``fixed``, ``revolute``, ``continuous`` or ``prismatic``.
        parent: Frame.
        child: Frame.
        position: Of the child in the parent with the joint at 0, m.
        orientation: xyzw, turns child vectors into parent vectors with the joint at 0.
        axis: Unit vector, in the child, that it turns about or slides along.
        mimics: Another joint that it follows; empty: none.
        multiplier: Of the other joint's position.
        offset: Added to that, rad or m.
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

    def pose(self, value: float) -> tuple[Vector, Quaternion]:
        """Return position (m) and orientation (xyzw) of the child in the parent with the joint at ``value``, rad or m.

        Plain numbers throughout: this runs for each joint each time.
        """
        (ax, ay, az), (x, y, z, w) = self.axis, self.orientation
        if self.kind in TURNING:
            sine, cosine = math.sin(0.5 * value), math.cos(0.5 * value)
            bx, by, bz = ax * sine, ay * sine, az * sine
            turned = (
                w * bx + x * cosine + y * bz - z * by,
                w * by - x * bz + y * cosine + z * bx,
                w * bz + x * by - y * bx + z * cosine,
                w * cosine - x * bx - y * by - z * bz,
            )
            return self.position, turned
        if self.kind in SLIDING:
            # v + 2 w (u x v) + 2 u x (u x v), the rotation of v = axis * value by (u, w)
            vx, vy, vz = ax * value, ay * value, az * value
            tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
            px, py, pz = self.position
            moved = (
                px + vx + w * tx + y * tz - z * ty,
                py + vy + w * ty + z * tx - x * tz,
                pz + vz + w * tz + x * ty - y * tx,
            )
            return moved, self.orientation
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
        """Return the position of every moving joint: as given by name, as it mimics another, or 0."""
        found = {joint.name: float(given.get(joint.name, 0.0)) for joint in self.moving}
        for joint in self.moving:
            if joint.mimics:
                found[joint.name] = joint.multiplier * found.get(joint.mimics, 0.0) + joint.offset
        return found

    def poses(self, joints: Mapping[str, float]) -> dict[str, tuple[Array, Array]]:
        """Return position (3,), m, and orientation (4,), xyzw, of every frame in the root, joints by name as given."""
        values = self.values(joints)
        found = {self.root: (np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))}
        waiting = [*self.fixed, *self.moving]
        while waiting:  # a tree: each round places at least those next to what is placed
            for joint in waiting:
                if joint.parent in found:
                    at, turned = found[joint.parent]
                    position, orientation = joint.pose(values.get(joint.name, 0.0))
                    found[joint.child] = (at + frames.rotate(turned, position), frames.multiply(turned, orientation))
            waiting = [joint for joint in waiting if joint.child not in found]
        return found


def read_frames(text: str) -> FrameTree:
    """Return the frames of a URDF.

    Raises:
        UserError: It is no URDF, its joints do not make one tree, or a joint is of a kind that cannot be shown.
    """
    try:
        robot = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(f"The robot description is not valid XML: {error}.") from error
    if robot.tag != "robot":
        raise UserError(f"The robot description is no URDF: it begins with <{robot.tag}>, not with <robot>.")
    where = f"The robot description of '{robot.get('name', '')}'"
    links = [link.get("name", "") for link in robot.findall("link")]
    joints = [_joint(element, where) for element in robot.findall("joint")]
    for joint in joints:
        for link in (joint.parent, joint.child):
            if link not in links:
                raise UserError(f"{where}: the joint '{joint.name}' names the link '{link}', which it does not have.")
    children = [joint.child for joint in joints]
    doubled = sorted({child for child in children if children.count(child) > 1})
    if doubled:
        raise UserError(f"{where}: more than one joint leads to the link '{doubled[0]}': a URDF must be a tree.")
    roots = [link for link in links if link not in children]
    if len(roots) != 1:
        shown = ", ".join(roots) or "none"
        raise UserError(f"{where} must have exactly one link that no joint leads to, and has {shown}.")
    reached, fresh = {roots[0]}, [roots[0]]
    while fresh:
        here = fresh.pop()
        onward = [joint.child for joint in joints if joint.parent == here]
        reached.update(onward)
        fresh += onward
    if lost := sorted(set(links) - reached):
        raise UserError(f"{where}: no joints lead from '{roots[0]}' to the link '{lost[0]}': a URDF must be a tree.")
    return FrameTree(
        root=roots[0],
        fixed=tuple(joint for joint in joints if joint.kind == "fixed"),
        moving=tuple(joint for joint in joints if joint.kind != "fixed"),
    )


def _joint(element: ElementTree.Element, where: str) -> Joint:
    name, kind = element.get("name", ""), element.get("type", "")
    if kind not in ("fixed", *TURNING, *SLIDING):
        raise UserError(
            f"{where}: the joint '{name}' is {kind or 'of no type'}: must be fixed, revolute, continuous or prismatic."
        )
    try:
        position = _numbers(element.find("origin"), "xyz", (0.0, 0.0, 0.0))
        turned = _numbers(element.find("origin"), "rpy", (0.0, 0.0, 0.0))
        ax, ay, az = _numbers(element.find("axis"), "xyz", (1.0, 0.0, 0.0))
        length = math.sqrt(ax * ax + ay * ay + az * az)
        if kind != "fixed" and not length > 0.0:
            raise ValueError("its axis has no direction")
        mimic = element.find("mimic")
        multiplier = float(_attribute(mimic, "multiplier") or 1.0)
        offset = float(_attribute(mimic, "offset") or 0.0)
    except ValueError as error:
        raise UserError(f"{where}: the joint '{name}' cannot be read: {error}.") from error
    x, y, z, w = frames.from_matrix(rotation_from_rpy(turned)).tolist()
    scale = 1.0 / length if length > 0.0 else 0.0
    return Joint(
        name=name,
        kind=kind,
        parent=_attribute(element.find("parent"), "link"),
        child=_attribute(element.find("child"), "link"),
        position=position,
        orientation=(x, y, z, w),
        axis=(ax * scale, ay * scale, az * scale),
        mimics=_attribute(mimic, "joint"),
        multiplier=multiplier,
        offset=offset,
    )


def _attribute(element: ElementTree.Element | None, name: str) -> str:
    return "" if element is None else element.get(name, "")


def _numbers(element: ElementTree.Element | None, name: str, otherwise: Vector) -> Vector:
    words = _attribute(element, name).split()
    if not words:
        return otherwise
    found = tuple(float(word) for word in words)
    if len(found) != 3 or not all(map(math.isfinite, found)):
        raise ValueError(f'{name}="{" ".join(words)}" must be three numbers')
    return found[0], found[1], found[2]
