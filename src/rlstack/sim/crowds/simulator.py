"""Simulation of pedestrians around mobile bases, in the batch simulator and in engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlstack.arrays import Array, Array32
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS
from rlstack.sim.colours import ORANGE
from rlstack.sim.crowds.scenes import Scenes
from rlstack.sim.crowds.walking_models import WALK_WIDTH, Crowd, CrowdLayout, Orca, SocialForce
from rlstack.sim.engine import Engine
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World

HEIGHT_M = 1.7
"""Height of people in engines' worlds: above any lidar of a base."""

_THERE_M = 0.02
"""People with a smaller radius are absent."""


class CrowdSimulator:
    """P people around each of N robots, in its map.

    Args:
        scenes: Their initial positions and waypoints.
        boxes: (N, 6 B) boxes of the maps.
        still: (N, 5 C) static circles, or None.
        robot: The robot among them.
        period_s: Control period.
        rule: Walking model and its parameters; None: ORCA.
    """

    def __init__(
        self,
        scenes: Scenes,
        boxes: Array32,
        still: Array32 | None,
        robot: WheeledBase,
        period_s: float,
        rule: Orca | SocialForce | None = None,
    ) -> None:
        people, count = scenes.people, len(scenes)
        many = people.shape[1] // CIRCLE_ROWS
        circles = people if still is None else np.concatenate([still, people], axis=1)
        self._shape, self._first = (count, many, CIRCLE_ROWS), circles.shape[1] - people.shape[1]
        self._now = np.ascontiguousarray(circles.T)
        self._next, self._walk = self._now.copy(), np.zeros((WALK_WIDTH * many, count), np.float32)
        self._next_walk = self._walk.copy()
        self._robot = np.zeros((CIRCLE_ROWS, count), np.float32)
        self._robot[2] = robot.radius_m
        self._footprint = np.array(robot.footprint)
        self._offset: Array | None = None
        layout = CrowdLayout(many, circles.shape[1] // CIRCLE_ROWS, boxes.shape[1] // BOX_ROWS)
        self._step = Crowd(layout, period_s, rule or Orca()).prepare(
            {
                "circles": self._now,
                "walk": self._walk,
                "person": np.ascontiguousarray(scenes.persons.T),
                "boxes": np.ascontiguousarray(boxes.T),
                "robot": self._robot,
                "next_circles": self._next,
                "next_walk": self._next_walk,
            }
        )

    @property
    def people(self) -> Array:
        """(N, P, 5): position, radius, velocity, m and m/s."""
        return self._now[self._first :].T.reshape(self._shape).astype(float)

    def step(self, pose: Array, twist: Array) -> None:
        """Advance one period, with robots at ``pose`` (N, 3) with ``twist`` (N, 3)."""
        cos, sin = np.cos(pose[:, 2]), np.sin(pose[:, 2])
        self._robot[:2] = pose[:, :2].T
        self._robot[3], self._robot[4] = twist[:, 0] * cos - twist[:, 1] * sin, twist[:, 0] * sin + twist[:, 1] * cos
        self._step()
        self._now[:], self._walk[:] = self._next, self._next_walk

    def gap(self, pose: Array) -> Array:
        """Return the least gap (N,) in m between each footprint and the nearest person; negative if they overlap.

        Robots at ``pose`` (N, 3) and people are assumed to have moved straight since the last call, and the least gap
        on the way counts. Call it once per period.
        """
        people, (x, y, yaw) = self.people, pose.T
        cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        ahead, left, radius = self._footprint.T
        middle = np.stack([x[:, None] + cos * ahead - sin * left, y[:, None] + sin * ahead + cos * left], axis=-1)
        offset = people[:, :, None, :2] - middle[:, None]
        least = closest_approach(offset if self._offset is None else self._offset, offset)
        self._offset = offset
        return np.asarray((least - people[:, :, None, 2] - radius).min(axis=(1, 2), initial=np.inf))


def closest_approach(before: Array, after: Array) -> Array:
    """Return the least length (...) on the straight line from one offset (..., 2) to the next, m."""
    way = after - before
    share = np.clip(-(before * way).sum(-1) / np.maximum((way**2).sum(-1), 1e-12), 0.0, 1.0)
    return np.asarray(np.linalg.norm(before + share[..., None] * way, axis=-1))


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
