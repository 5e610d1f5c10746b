"""A robot in a viser scene: a frame for each link that has shapes, moved by poses and joint positions."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.robots.frame_tree import read_frames
from rlstack.robots.visuals import Visual, read_visuals
from rlstack.view.shapes import add_shape, wxyz
from rlstack.view.spinning import Spinning

_STILL = 1e-6
"""Smallest change of a link's position, m, or quaternion that is sent."""


class RobotModel:
    """A robot's shapes.

    Where a link's mesh is missing, its collision shapes are shown.

    Args:
        scene: viser's ``SceneApi``.
        name: Name of its node, such as ``/crazyflie``.
        urdf: Its URDF.
        visuals: Its shapes; None: those of the URDF.

    Raises:
        UserError: It is not a URDF, or not a tree.
    """

    def __init__(self, scene: Any, name: str, urdf: str, visuals: Sequence[Visual] | None = None) -> None:
        self._tree = read_frames(urdf)
        self._moving = {joint.name for joint in self._tree.moving}
        described = ElementTree.fromstring(urdf)
        self.name = described.get("name", "")
        """The robot's name in its URDF."""
        self.root = self._tree.root
        """Its frame that has no parent."""
        self.mass_kg = sum(float(one.get("value", "0")) for one in described.iter("mass"))
        limited = (one for one in self._tree.moving if not one.mimics and np.isfinite(one.upper - one.lower))
        self.limits = {self._plain(one.name): (one.lower, one.upper) for one in limited}
        """Least and greatest position of its joints that have both, rad or m, by name without prefix."""
        self.missing: list[str] = []
        """Sentences about meshes that are not shown."""
        self._scene, self._name = scene, name
        self._place = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
        self._base = scene.add_frame(name, show_axes=False)
        self._links: dict[str, Any] = {}
        self._poses: dict[str, tuple[Array, Array]] = {}
        collisions = read_visuals(urdf, "collision")
        visuals = read_visuals(urdf) if visuals is None else visuals
        self.spinning = Spinning(self._tree, (*collisions, *visuals))
        at_rest = self._tree.poses({})
        ends = [np.linalg.norm(at_rest[one.link][0] + one.position) + _half(one) for one in (*visuals, *collisions)]
        self._reach_m = float(max(ends, default=0.1))
        for link in dict.fromkeys(visual.link for visual in (*visuals, *collisions)):
            seen = [visual for visual in visuals if visual.link == link]
            solid = [one for one in collisions if one.link == link and one.shape != "mesh"]
            self._add_frame(link, at_rest)
            try:
                for number, visual in enumerate(seen):
                    add_shape(scene, f"{name}/{link}/{number}", visual)
            except UserError as error:
                self.missing.append(str(error))
                for number, visual in enumerate(solid):
                    add_shape(scene, f"{name}/{link}/{number}", visual)

    @property
    def reach_m(self) -> float:
        """How far its shapes extend from its root, joints at 0, m."""
        return self._reach_m

    def remove(self) -> None:
        """Remove it from the scene."""
        self._base.remove()

    def frame(self, name: str) -> str | None:
        """Return the node of one of its frames, to which more can be added; None: it has no such frame.

        Args:
            name: The frame, with or without its prefix in the URDF, or with one that it has on ``/tf`` alone.
        """
        at_rest = self._tree.poses({})
        name = self._own(name, at_rest)
        if name not in at_rest:
            return None
        if name not in self._links:
            self._add_frame(name, at_rest)
        return f"{self._name}/{name}"

    def pose(self, name: str) -> tuple[Array, Array] | None:
        """Return position (3,), m, and orientation (4,) xyzw of one of its frames in the scene; None: no such frame."""
        if self.frame(name) is None:
            return None
        position, orientation = self._poses[self._own(name, self._poses)]
        place, turn = self._place
        return place + frames.rotate(turn, position), frames.multiply(turn, orientation)

    def _plain(self, name: str) -> str:
        return name.removeprefix(self._tree.root[: self._tree.root.rfind("/") + 1])

    def _own(self, name: str, known: Container[str]) -> str:
        """Return a frame's or joint's name as it is in the URDF, if it is there."""
        prefix = self._tree.root[: self._tree.root.rfind("/") + 1]
        return next((one for one in (name, prefix + name, name.rpartition("/")[2]) if one in known), name)

    def _add_frame(self, link: str, poses: Mapping[str, tuple[Array, Array]]) -> None:
        position, orientation = self._poses[link] = poses[link]
        where = {"position": position, "wxyz": wxyz(orientation)}
        self._links[link] = self._scene.add_frame(f"{self._name}/{link}", show_axes=False, **where)

    def place(self, position: Array, orientation: Array) -> None:
        """Move its root to a position (3,) m and orientation (4,) xyzw."""
        self._place = position, orientation
        self._base.position = position
        self._base.wxyz = wxyz(orientation)

    def move_joints(self, joints: Mapping[str, float]) -> None:
        """Move its joints, rad or m by name, without their prefix or with it; those without a value are at 0."""
        joints = {self._own(name, self._moving): value for name, value in joints.items()}
        for link, (position, orientation) in self._tree.poses(joints).items():
            frame, before = self._links.get(link), self._poses.get(link)
            if frame is None or before is None:
                continue
            if np.abs(position - before[0]).max() > _STILL:
                frame.position = position
            if np.abs(orientation - before[1]).max() > _STILL:
                frame.wxyz = wxyz(orientation)
            self._poses[link] = position, orientation


def _half(visual: Visual) -> float:
    """Return half the largest extent of a shape, m; of a mesh, whose size is a scale, nothing."""
    return 0.0 if visual.shape == "mesh" else 0.5 * max(visual.size)
