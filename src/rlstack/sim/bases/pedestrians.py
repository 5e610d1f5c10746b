"""PedestrianCrowd around robots that drive, in the batch simulator and in engines alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.people import WalkingPeople
from rlstack.sim.bases.scenes import Scenes
from rlstack.sim.engine import Engine
from rlstack.sim.maps.pool import MapPool
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from rlstack.sim.worlds._pieces import ORANGE

HEIGHT_M = 1.7
"""Of people in engines' worlds: above any lidar of a base."""

_THERE_M = 0.02
"""Who has a smaller radius is not there."""


class PedestrianCrowd:
    """P people around each of N robots; see :class:`rlstack.sim.bases.people.WalkingPeople`.

    Args:
        scenes: Where they are and where they go.
        pool: The maps, whose boxes and circles they avoid.
        robot: What drives among them.
        period_s: Control period.
    """

    def __init__(self, scenes: Scenes, pool: MapPool, robot: WheeledBase, period_s: float) -> None:
        self._walking = WalkingPeople(scenes.people, scenes.persons, pool.boxes, pool.circles, robot.radius_m, period_s)
        self._discs = np.array(robot.footprint)
        self._apart: Array | None = None

    @property
    def people(self) -> Array:
        """(N, P, 5): place, radius, velocity, m and m/s."""
        return self._walking.people

    def step(self, pose: Array, twist: Array) -> None:
        """Let a period pass, with robots at ``pose`` (N, 3) that move as ``twist`` (N, 3) says."""
        self._walking.step(pose, twist)

    def gap(self, pose: Array) -> Array:
        """Return (N,) m from each footprint to the nearest person; below 0 they overlap.

        Since the last call, robots at ``pose`` (N, 3) and people are taken to have moved straight: the least on the
        way counts. Call it once a period.
        """
        people, (x, y, yaw) = self.people, pose.T
        cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        ahead, left, radius = self._discs.T
        middle = np.stack([x[:, None] + cos * ahead - sin * left, y[:, None] + sin * ahead + cos * left], axis=-1)
        apart = people[:, :, None, :2] - middle[:, None]
        before = apart if self._apart is None else self._apart
        self._apart = apart
        way = apart - before
        share = np.clip(-(before * way).sum(-1) / np.maximum((way**2).sum(-1), 1e-12), 0.0, 1.0)
        least = np.linalg.norm(before + share[..., None] * way, axis=-1) - people[:, :, None, 2] - radius
        return np.asarray(least.min(axis=(1, 2), initial=np.inf))


def with_pedestrians(world: World, people: Array) -> World:
    """Return a world with people (P, 5) in it, who are moved from outside by :func:`move_pedestrians`."""
    bodies = tuple(
        Obstacle(
            name=_name(number),
            shape="cylinder",
            size_m=(2.0 * float(radius), 2.0 * float(radius), HEIGHT_M),
            position_m=(float(x), float(y), 0.5 * HEIGHT_M),
            colour=ORANGE,
            kinematic=True,
        )
        for number, (x, y, radius) in enumerate(people[:, :3])
        if radius > _THERE_M
    )
    return replace(world, obstacles=(*world.obstacles, *bodies))


def move_pedestrians(engine: Engine, people: Array) -> None:
    """Put the people (P, 5) of a :func:`with_pedestrians` world where they are now."""
    for number, (x, y, radius) in enumerate(people[:, :3]):
        if radius > _THERE_M:
            engine.move_obstacle(_name(number), np.array([x, y, 0.5 * HEIGHT_M]))


def _name(number: int) -> str:
    return f"person_{number}"
