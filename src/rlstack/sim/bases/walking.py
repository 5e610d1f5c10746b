"""People of N scenes who walk while something else drives the robots: arrays of numpy, on the CPU."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array, Array32
from rlstack.sim.bases.layout import BOX_ROWS, CIRCLE_ROWS
from rlstack.sim.bases.people import WALK_WIDTH, Crowd, Layout, Orca, SocialForce


class WalkingPeople:
    """P people around each of N robots, in its map.

    Args:
        people: (N, 5 P) where they start, as in :mod:`rlstack.sim.bases.layout`.
        persons: (N, PERSON_WIDTH P) as in :mod:`rlstack.sim.bases.people`.
        boxes: (N, 6 B) of the maps.
        still: (N, 5 C) circles that stand still; None: there are none.
        radius_m: Of the robot, for those who see it.
        period_s: Control period.
        rule: How they walk; ORCA if left out.
    """

    def __init__(
        self,
        people: Array32,
        persons: Array32,
        boxes: Array32,
        still: Array32 | None,
        radius_m: float,
        period_s: float,
        rule: Orca | SocialForce | None = None,
    ) -> None:
        count, many = len(people), people.shape[1] // CIRCLE_ROWS
        circles = people if still is None else np.concatenate([still, people], axis=1)
        self._shape, self._first = (count, many, CIRCLE_ROWS), circles.shape[1] - people.shape[1]
        self._now = np.ascontiguousarray(circles.T)
        self._next, self._walk = self._now.copy(), np.zeros((WALK_WIDTH * many, count), np.float32)
        self._next_walk = self._walk.copy()
        self._robot = np.zeros((CIRCLE_ROWS, count), np.float32)
        self._robot[2] = radius_m
        layout = Layout(many, circles.shape[1] // CIRCLE_ROWS, boxes.shape[1] // BOX_ROWS)
        self._step = Crowd(layout, period_s, rule or Orca()).prepare(
            {
                "circles": self._now,
                "walk": self._walk,
                "person": np.ascontiguousarray(persons.T),
                "boxes": np.ascontiguousarray(boxes.T),
                "robot": self._robot,
                "next_circles": self._next,
                "next_walk": self._next_walk,
            }
        )

    @property
    def people(self) -> Array:
        """(N, P, 5): place, radius, velocity, m and m/s."""
        return self._now[self._first :].T.reshape(self._shape).astype(float)

    def step(self, pose: Array, twist: Array) -> None:
        """Let a period pass, with robots at ``pose`` (N, 3) that move as ``twist`` (N, 3) says."""
        cos, sin = np.cos(pose[:, 2]), np.sin(pose[:, 2])
        self._robot[:2] = pose[:, :2].T
        self._robot[3], self._robot[4] = twist[:, 0] * cos - twist[:, 1] * sin, twist[:, 0] * sin + twist[:, 1] * cos
        self._step()
        self._now[:], self._walk[:] = self._next, self._next_walk
