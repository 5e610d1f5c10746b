"""Self-collision of one or several arms in plain numpy: forward kinematics, and capsules around links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.guard_capsules import fit, segment_distance
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.collision_geometry import read_collision_edges
from rlstack.robots.kinematics import Chain, chain_in, chain_of
from rlstack.robots.model import Model

NEIGHBOURS = 2
"""Links with at least this many joints between them are checked; joint ranges keep closer ones apart."""

PIECES = 3
"""Capsules per link."""

_POSTURES = 300
"""Number of random postures for finding links that never meet or always overlap."""


class CollisionModel:
    """The chain from base to tool of each arm, and capsules around their links.

    Adjacent links, and pairs whose capsules overlap at rest or in most postures, are not checked: capsules are wider
    than links. Links on the gripper's joints skip the same pairs as the hand; sliding fingers count as everywhere in
    their range.

    Args:
        robot: The arm.

    Raises:
        UserError: Its model cannot be read.
    """

    def __init__(self, robot: Manipulator) -> None:
        self._rest = np.array([drive.rest for drive in robot.drives])
        self.blind = ""
        """Why there are no capsules; empty if there are."""
        shell: dict[str, Array] = {}
        try:
            model, shell = read_collision_edges(robot)
            self.chains: list[Chain] = [chain_in(model, robot, tool) for tool in tools_of(robot)]
        except UserError as error:
            self.chains, self.blind = [chain_of(robot, tool) for tool in tools_of(robot)], str(error)
        self.arm = np.array(sorted({k for chain in self.chains for k in chain.index}))
        """Which joints lead to a tool; the others belong to grippers."""
        turning: list[Chain] = []
        ends: list[Array] = []
        radii: list[float] = []
        owner: list[tuple[int, int]] = []
        frame: list[tuple[int, int]] = []
        if not self.blind:
            turning = _jaws(model, robot, self.arm)
            on, moves_with = carriers(model, self.chains), carriers(model, [*self.chains, *turning])
            for link, edges in shell.items():
                for capsule in fit(_opened(edges, link, model, robot, self.arm), PIECES):
                    ends.append(capsule.ends)
                    radii.append(capsule.radius)
                    owner.append(on[link])
                    frame.append(moves_with[link])
        self._ends = np.array(ends).reshape(-1, 2, 3)
        self._radii, self._owner = np.array(radii), np.array(owner, dtype=int).reshape(-1, 2)
        self._all = [*self.chains, *turning]
        first = np.cumsum([0, *(len(chain.index) + 1 for chain in self._all)])
        self._frame = np.array([first[max(chain, 0)] + k for chain, k in frame], dtype=int)
        self._tools = first[1 : len(self.chains) + 1] - 1
        self._half = 0.5 * np.linalg.norm(self._ends[:, 1] - self._ends[:, 0], axis=-1)
        self._pairs = self._found_pairs(robot)
        if not self.blind and not len(self._pairs[0]):
            self.blind = f"no links of {robot.name} are known to be able to meet"

    def place(self, joints: Array) -> tuple[Array, Array]:
        """Return tool positions (N, tools, 3) m in base_link, and the smallest distance (N,) m between links.

        Args:
            joints: (N, joints) rad or m, in the robot file's order.
        """
        moved = self._moved(joints)
        tools = moved[:, self._tools] @ np.array([chain.screws.tool for chain in self.chains])
        return tools[..., :3, 3], self._gap(moved)

    def _moved(self, joints: Array) -> Array:
        """Return (N, frames, 4, 4): each chain's link motions relative to all joints at zero, its base first."""
        parts = []
        for chain in self._all:
            s, index = chain.screws, list(chain.index)
            angle = joints[:, index, None, None]
            alone = np.sin(angle) * s.sine + (1.0 - np.cos(angle)) * s.versine + angle * s.linear + s.unit
            moved = np.empty((len(joints), len(index) + 1, 4, 4))
            moved[:, 0] = s.unit
            for k in range(len(index)):
                moved[:, k + 1] = moved[:, k] @ alone[:, k]
            parts.append(moved)
        return np.concatenate(parts, axis=1)

    def _gap(self, moved: Array) -> Array:
        one, other = self._pairs
        if not len(one):
            return np.full(len(moved), np.inf)
        ends = self._ends_of(moved)
        middle = ends.mean(axis=2)
        off = middle[:, one] - middle[:, other]
        apart = np.sqrt((off * off).sum(-1)) - self._radii[one] - self._radii[other]
        # segments are no further apart than their middles, and nearer by at most half of each: few pairs can be nearest
        near = ~(apart - self._half[one] - self._half[other] > apart.min(axis=1, keepdims=True)).all(axis=0)
        one, other = one[near], other[near]
        apart = segment_distance(ends[:, one], ends[:, other]) - self._radii[one] - self._radii[other]
        return np.asarray(apart.min(axis=1))

    def _ends_of(self, moved: Array) -> Array:
        """Return the capsules' ends (N, C, 2, 3)."""
        motion = moved[:, self._frame]
        return np.asarray(self._ends @ motion[..., :3, :3].swapaxes(-1, -2) + motion[..., None, :3, 3])

    def _found_pairs(self, robot: Manipulator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the capsules of links that can meet."""
        one, other = np.triu_indices(len(self._radii), 1)
        (chain, k), (others, n) = self._owner[one].T, self._owner[other].T
        far = ((chain != others) & (chain >= 0) & (others >= 0)) | (np.abs(k - n) > NEIGHBOURS)
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


def tools_of(robot: Manipulator) -> list[str]:
    """Return the links that are tools, one for each arm."""
    if not robot.arms:
        return [robot.tool_link]
    return [arm.prefix + str(getattr(load_robot(arm.robot), "tool_link", "")) for arm in robot.arms]


def carriers(model: Model, chains: Sequence[Chain]) -> dict[str, tuple[int, int]]:
    """Return for each link its chain and the number of joints before it; -1, 0 for none."""
    child = {joint.child: joint.name for joint in model.joints}
    place = {name: (c, k + 1) for c, chain in enumerate(chains) for k, name in enumerate(chain.joints)}
    found: dict[str, tuple[int, int]] = {}
    for link in model.links:
        at: str | None = link
        found[link] = (-1, 0)
        while at is not None:
            if child.get(at) in place:
                found[link] = place[child[at]]
                break
            at = model.parents.get(at)
    return found


def _jaws(model: Model, robot: Manipulator, arm: NDArray[np.intp]) -> list[Chain]:
    """Return the chains to the links that the gripper's joints rotate."""
    hands = {drive.name for k, drive in enumerate(robot.drives) if k not in arm and drive.type != "prismatic"}
    return [chain_in(model, robot, joint.child) for joint in model.joints if joint.name in hands]


def _opened(edges: Array, link: str, model: Model, robot: Manipulator, arm: NDArray[np.intp]) -> Array:
    """Return a link's edges (E, 2, 3), and those that it sweeps where the gripper's joints slide it."""
    hands = {drive.name: drive for k, drive in enumerate(robot.drives) if k not in arm}
    above = {joint.child: joint for joint in model.joints}
    while link in above:
        joint = above[link]
        if joint.name in hands:
            drive = hands[joint.name]
            if drive.type != "prismatic":  # its own chain moves it, along with the links above
                break
            low, high = edges + drive.lower * joint.axis, edges + drive.upper * joint.axis
            edges = np.concatenate([low, high, np.stack([low, high], 2).reshape(-1, 2, 3)])
        link = joint.parent
    return edges
