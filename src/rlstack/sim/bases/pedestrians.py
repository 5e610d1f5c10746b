"""Pedestrians around mobile bases, in the batch simulator and in engines."""

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
"""Height of people in engines' worlds: above any lidar of a base."""

_THERE_M = 0.02
"""People with a smaller radius are absent."""


class PedestrianCrowd:
    """P people around each of N robots; see :class:`rlstack.sim.bases.people.WalkingPeople`.

    Args:
        scenes: Their initial positions and waypoints.
        pool: The maps with the boxes and circles that they avoid.
        robot: The robot among them.
        period_s: Control period.
    """

    def __init__(self, scenes: Scenes, pool: MapPool, robot: WheeledBase, period_s: float) -> None:
        self._walking = WalkingPeople(scenes.people, scenes.persons, pool.boxes, pool.circles, robot.radius_m, period_s)
        self._discs = np.array(robot.footprint)
        self._apart: Array | None = None

    @property
    def people(self) -> Array:
        """(N, P, 5): position, radius, velocity, m and m/s."""
        return self._walking.people

    def step(self, pose: Array, twist: Array) -> None:
        """Advance one period, with robots at ``pose`` (N, 3) with ``twist`` (N, 3)."""
        self._walking.step(pose, twist)

    def gap(self, pose: Array) -> Array:
        """Return the least gap (N,) in m between each footprint and the nearest person; negative if they overlap.

        Robots at ``pose`` (N, 3) and people are assumed to have moved straight since the last call, and the least gap
        on the way counts. Call it once per period.
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
    """Return a world with people (P, 5) as kinematic obstacles for :func:`move_pedestrians`."""
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
    """Move the people (P, 5) of a :func:`with_pedestrians` world to their present positions."""
    for number, (x, y, radius) in enumerate(people[:, :3]):
        if radius > _THERE_M:
            engine.move_obstacle(_name(number), np.array([x, y, 0.5 * HEIGHT_M]))


def _name(number: int) -> str:
    return f"person_{number}"
