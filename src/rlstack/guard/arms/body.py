"""Where an arm's tool and links are, in plain numpy: forward kinematics and capsules about its links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.guard.arms.capsules import fit, segment_distance
from rlstack.robots import Manipulator
from rlstack.robots.kinematics import Chain, chain_in, chain_of
from rlstack.robots.model import Model
from rlstack.robots.shell import read_shell

Array = NDArray[np.float64]

NEIGHBOURS = 2
"""Links with so many joints between them are kept from each other by these joints' ranges."""

PIECES = 2
"""Capsules to a link."""

_POSTURES = 300
"""Drawn to find links that can never meet, or always overlap."""


class ArmBody:
    """The chain of an arm from base to tool, and capsules about its links.

    Links that are joined, and pairs whose capsules overlap at rest or in most postures, pass each other: capsules are
    wider than links. What hangs on the gripper's joints counts as part of the hand, the gripper open.

    Args:
        robot: Which arm.

    Raises:
        UserError: Its model cannot be read.
    """

    def __init__(self, robot: Manipulator) -> None:
        self._rest = np.array([drive.rest for drive in robot.drives])
        self.blind = ""
        """Why there are no capsules; empty: there are."""
        points: dict[str, Array] = {}
        try:
            model, points = read_shell(robot)
            self.chain: Chain = chain_in(model, robot, robot.tool_link)
        except UserError as error:
            self.chain, self.blind = chain_of(robot), str(error)
        self._index = list(self.chain.index)
        ends: list[Array] = []
        radii: list[float] = []
        owner: list[int] = []
        if not self.blind:
            on = _carriers(model, self.chain)
            for link, cloud in points.items():
                for capsule in fit(_opened(cloud, link, model, robot), PIECES):
                    ends.append(capsule.ends)
                    radii.append(capsule.radius)
                    owner.append(on[link])
        self._ends = np.array(ends).reshape(-1, 2, 3)
        self._radii, self._owner = np.array(radii), np.array(owner, dtype=int)
        self._pairs = self._found_pairs(robot)
        if not self.blind and not len(self._pairs[0]):
            self.blind = f"no links of {robot.name} are known to be able to meet"

    def place(self, joints: Array) -> tuple[Array, Array]:
        """Return where the tool is, (N, 3) m in base_link, and how near (N,) m links come to each other.

        Args:
            joints: (N, joints) rad or m, in the robot file's order.
        """
        moved = self._moved(joints)
        tool = moved[:, -1] @ self.chain.screws.tool
        return tool[:, :3, 3], self._gap(moved)

    def _moved(self, joints: Array) -> Array:
        """Return (N, J + 1, 4, 4): how each joint's link has moved since all joints were at zero, the base first."""
        s = self.chain.screws
        angle = joints[:, self._index, None, None]
        alone = np.sin(angle) * s.sine + (1.0 - np.cos(angle)) * s.versine + angle * s.linear + s.unit
        moved = np.empty((len(joints), len(self._index) + 1, 4, 4))
        moved[:, 0] = s.unit
        for k in range(len(self._index)):
            moved[:, k + 1] = moved[:, k] @ alone[:, k]
        return moved

    def _gap(self, moved: Array) -> Array:
        one, other = self._pairs
        if not len(one):
            return np.full(len(moved), np.inf)
        ends = self._ends_of(moved)
        apart = segment_distance(ends[:, one], ends[:, other]) - self._radii[one] - self._radii[other]
        return np.asarray(apart.min(axis=1))

    def _ends_of(self, moved: Array) -> Array:
        """Return the capsules' ends (N, C, 2, 3)."""
        motion = moved[:, self._owner]
        return np.asarray(self._ends @ motion[..., :3, :3].swapaxes(-1, -2) + motion[..., None, :3, 3])

    def _found_pairs(self, robot: Manipulator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the capsules of links that may meet."""
        one, other = np.triu_indices(len(self._radii), 1)
        far = np.abs(self._owner[one] - self._owner[other]) > NEIGHBOURS
        one, other = one[far], other[far]
        if not len(one):
            return one, other
        reach = [(max(d.lower, -np.pi), min(d.upper, np.pi)) for d in robot.drives]
        low, high = np.array(reach).T
        drawn = np.random.default_rng(0).uniform(low, high, (_POSTURES, len(low)))
        ends = self._ends_of(self._moved(np.concatenate([self._rest[None], drawn])))
        apart = segment_distance(ends[:, one], ends[:, other]) - self._radii[one] - self._radii[other]
        kept = (apart[0] > 0.0) & ((apart <= 0.0).mean(axis=0) < 0.5)
        return one[kept], other[kept]


def _carriers(model: Model, chain: Chain) -> dict[str, int]:
    """Return by link how many joints of the chain carry it."""
    child = {joint.child: joint.name for joint in model.joints}
    found: dict[str, int] = {}
    for link in model.links:
        at: str | None = link
        found[link] = 0
        while at is not None:
            if child.get(at) in chain.joints:
                found[link] = chain.joints.index(child[at]) + 1
                break
            at = model.parents.get(at)
    return found


def _opened(points: Array, link: str, model: Model, robot: Manipulator) -> Array:
    """Return a link's points, and where the gripper's joints may slide them."""
    slides = {drive.name: drive for drive in robot.drives if drive.type == "prismatic"}
    hands = {joint.name for joint in robot.gripper}
    for joint in model.joints:
        if joint.child == link and joint.name in hands and joint.name in slides:
            drive = slides[joint.name]
            return np.concatenate([points + drive.lower * joint.axis, points + drive.upper * joint.axis])
    return points
