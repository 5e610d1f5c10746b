"""Self-collision of one or several arms in plain numpy: forward kinematics, capsules around links, their distances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
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

_WIDER = (1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
"""Ratio of a capsule's radius to the smallest possible one, which makes it shorter."""


class CollisionModel:
    """The chain from base to tool of each arm, and capsules around their links.

    Adjacent links, and pairs whose capsules overlap at rest or in most postures, are not checked: capsules are wider
    than links. Links on the gripper's joints skip the same pairs as the hand; sliding fingers count as everywhere in
    their range.

    Raises:
        UserError: The arm's model cannot be read.
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
        found: list[tuple[Capsule, tuple[int, int], tuple[int, int]]] = []
        if not self.blind:
            turning = _jaws(model, robot, self.arm)
            on, moves_with = carriers(model, self.chains), carriers(model, [*self.chains, *turning])
            for link, edges in shell.items():
                capsules = fit(_opened(edges, link, model, robot, self.arm), PIECES)
                found += [(capsule, on[link], moves_with[link]) for capsule in capsules]
        self._ends = np.array([capsule.ends for capsule, _, _ in found]).reshape(-1, 2, 3)
        self._radii = np.array([capsule.radius for capsule, _, _ in found])
        self._owner = np.array([owner for _, owner, _ in found], dtype=int).reshape(-1, 2)
        self._all = [*self.chains, *turning]
        first = np.cumsum([0, *(len(chain.index) + 1 for chain in self._all)])
        self._frame = np.array([first[max(chain, 0)] + k for _, _, (chain, k) in found], dtype=int)
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


class Capsule(NamedTuple):
    """All points within a radius of a line segment."""

    ends: Array
    """(2, 3) m."""
    radius: float
    """m"""


def fit(edges: Array, pieces: int = 1) -> list[Capsule]:
    """Return capsules that enclose solids, which are cut into slabs along their longest extent.

    Each capsule lies along the principal axis of its slab's points, or the frame axis, that makes it smallest.

    Args:
        edges: (E, 2, 3) m, edges of the solids' flat faces.
        pieces: Number of slabs.
    """
    points = edges.reshape(-1, 3)
    axes = _axes(points)
    axis = axes[int(np.argmax(np.ptp(points @ axes.T, axis=0)))]
    along = points @ axis
    cuts = np.linspace(along.min(), along.max(), pieces + 1)
    # a solid's part in a slab lies in the hull of its corners there and of its edges' intersections with the planes
    crossings = [_crossings(edges, axis, cut) for cut in cuts[1:-1]]
    points = np.unique(np.concatenate([points, *crossings]), axis=0)
    along = points @ axis
    slabs = [points[(along >= low - 1e-9) & (along <= high + 1e-9)] for low, high in pairwise(cuts)]
    return [
        min((_about(slab, axis, wider) for axis in _axes(slab) for wider in _WIDER), key=_volume)
        for slab in slabs
        if len(slab)
    ]


def _crossings(edges: Array, axis: Array, cut: float) -> Array:
    """Return where edges (E, 2, 3) cross the plane of points p with p @ axis = cut: (P, 3)."""
    off = edges @ axis - cut
    crosses = off[:, 0] * off[:, 1] < 0.0
    crossing, off = edges[crosses], off[crosses]
    share = off[:, :1] / (off[:, :1] - off[:, 1:])
    return np.asarray(crossing[:, 0] + share * (crossing[:, 1] - crossing[:, 0]))


def _axes(points: Array) -> Array:
    _, _, principal = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    return np.concatenate([principal, np.eye(3)])


def _about(points: Array, axis: Array, wider: float) -> Capsule:
    """Return a capsule along an axis that encloses points, this many times as wide as necessary; its line passes
    through the middle of their extent."""
    aside = np.linalg.svd(axis[None])[2][1:]
    across = points @ aside.T
    middle = 0.5 * (across.min(axis=0) + across.max(axis=0))
    away = np.linalg.norm(across - middle, axis=1)
    radius = wider * float(away.max())
    along, reach = points @ axis, np.sqrt(np.maximum(radius**2 - away**2, 0.0))
    low, high = float((along + reach).min()), float((along - reach).max())
    if low > high:
        low = high = 0.5 * (low + high)
    centre = middle @ aside
    return Capsule(np.stack([centre + low * axis, centre + high * axis]), radius)


def _volume(capsule: Capsule) -> float:
    length = float(np.linalg.norm(capsule.ends[1] - capsule.ends[0]))
    return float(np.pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius))


def segment_distance(first: Array, second: Array) -> Array:
    """Return the distance (...) between segments (..., 2, 3) and (..., 2, 3), m (Ericson 2005, Real-Time Collision
    Detection, 5.1.9)."""
    p, q = first[..., 0, :], second[..., 0, :]
    u, v, w = first[..., 1, :] - p, second[..., 1, :] - q, p - q
    a, e, b = (u * u).sum(-1), (v * v).sum(-1), (u * v).sum(-1)
    c, f = (u * w).sum(-1), (v * w).sum(-1)
    tiny = 1e-12
    both = a * e - b * b
    s = np.where(both > tiny, np.clip((b * f - c * e) / np.maximum(both, tiny), 0.0, 1.0), 0.0)
    t = np.where(e > tiny, (b * s + f) / np.maximum(e, tiny), 0.0)
    t = np.clip(t, 0.0, 1.0)
    s = np.where(a > tiny, np.clip((b * t - c) / np.maximum(a, tiny), 0.0, 1.0), 0.0)
    between = w + s[..., None] * u - t[..., None] * v
    return np.asarray(np.sqrt((between * between).sum(-1)))
