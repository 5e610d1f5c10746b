"""Trials in a room with landmarks: what stands where, and what a sentence says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.schema import in_order, value
from rlstack.tasks.core.phrases import Thing, Things
from rlstack.tasks.core.scatter import scatter

Range = tuple[float, float]

LANDMARKS = Things(
    shapes={"door": ("door",), "pillar": ("pillar", "column"), "box": ("box", "crate")},
    held_out=frozenset({("green", "door"), ("purple", "pillar"), ("yellow", "box")}),
)

SIDES = ("left", "right")
"""Words for one of two landmarks of a shape, as the robot sees them at its start."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """A rectangular room, seen from the robot's start at its origin, which looks along x.

    Doors are panels on the far wall; pillars and boxes stand before it.
    """

    depth_m: float = value(2.0, unit="m", above=0.0)
    """Distance of the far wall."""
    behind_m: float = value(0.6, unit="m", above=0.0)
    """Distance of the wall behind."""
    half_width_m: float = value(2.0, unit="m", above=0.0)
    """Distance of the walls to the left and to the right."""
    height_m: float = value(1.0, unit="m", above=0.0)
    """Height of the walls."""
    distance_m: Range = value((1.1, 1.6), unit="m", above=0.0)
    """Distance of pillars and boxes from the start."""
    bearing_rad: float = value(0.65, unit="rad", above=0.0, at_most=1.2)
    """Largest direction of a landmark from the start, to either side."""
    apart_rad: float = value(0.4, unit="rad", at_least=0.0)
    """Least difference of two landmarks' directions: no landmark is before another one."""
    apart_m: float = value(0.7, unit="m", at_least=0.0)
    """Least distance of two landmarks' middles."""
    door_width_m: float = value(0.4, unit="m", above=0.0)
    door_height_m: float = value(0.5, unit="m", above=0.0)
    pillar_width_m: float = value(0.2, unit="m", above=0.0)
    pillar_height_m: float = value(0.4, unit="m", above=0.0)
    box_m: float = value(0.25, unit="m", above=0.0)
    """Length of a box's edges."""

    def __post_init__(self) -> None:
        in_order(self)
        if self.distance_m[1] >= self.depth_m:
            raise ValueError(f"distance_m: {list(self.distance_m)} is not allowed: must be below depth_m.")

    @property
    def corners(self) -> tuple[Array, Array]:
        """(2,) m each, the floor's corners."""
        return np.array([-self.behind_m, -self.half_width_m]), np.array([self.depth_m, self.half_width_m])

    def half(self, thing: Thing) -> tuple[float, float, float]:
        """Return the half lengths of a landmark, m: its own x, which is a door's thickness, y and z."""
        if thing.shape == "door":
            return 0.02 * self.depth_m, self.door_width_m / 2.0, self.door_height_m / 2.0
        if thing.shape == "pillar":
            return self.pillar_width_m / 2.0, self.pillar_width_m / 2.0, self.pillar_height_m / 2.0
        return self.box_m / 2.0, self.box_m / 2.0, self.box_m / 2.0


@dataclass(frozen=True)
class LandmarkTrials:
    """Initial conditions of N episodes with M landmarks; the first one is the instructed one.

    Args:
        start: (N, 4) x, y, z, m, and yaw, rad, of the robot.
        place: (N, M, 3) m, centres of the landmarks.
        half: (N, M, 3) m, half lengths along their own axes.
        yaw: (N, M) rad.
        pillar: (N, M) bool, whether each is a cylinder; else a box.
        colour: (N, M, 3) 0 to 1.
        instruction: (N, 128) uint8, see :mod:`rlstack.interfaces.instruction`.
    """

    start: Array
    place: Array
    half: Array
    yaw: Array
    pillar: NDArray[np.bool_]
    colour: Array
    instruction: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Any) -> LandmarkTrials:
        """Return the trials at ``index``."""
        return LandmarkTrials(**{one.name: getattr(self, one.name)[index] for one in fields(self)})

    def put(self, index: NDArray[np.intp], other: LandmarkTrials) -> None:
        """Copy the n trials of ``other`` to those at ``index``."""
        for one in fields(self):
            getattr(self, one.name)[index] = getattr(other, one.name)

    def gaps(self, position: Array) -> Array:
        """Return the distances (N, M) m of positions (N, 3) m from the landmarks' surfaces, seen from above."""
        offset = position[:, None, :2] - self.place[..., :2]
        cos, sin = np.cos(self.yaw), np.sin(self.yaw)
        along = cos * offset[..., 0] + sin * offset[..., 1]
        across = cos * offset[..., 1] - sin * offset[..., 0]
        outside = np.maximum(np.abs(np.stack([along, across], axis=-1)) - self.half[..., :2], 0.0)
        round_ = np.linalg.norm(offset, axis=-1) - self.half[..., 0]
        return np.where(self.pillar, round_, np.linalg.norm(outside, axis=-1))


def empty_trials(count: int, landmarks: int, length: int) -> LandmarkTrials:
    """Return trials of N robots that have not begun, with instructions of ``length`` bytes."""
    return LandmarkTrials(
        start=np.zeros((count, 4)),
        place=np.zeros((count, landmarks, 3)),
        half=np.full((count, landmarks, 3), 0.1),
        yaw=np.zeros((count, landmarks)),
        pillar=np.zeros((count, landmarks), np.bool_),
        colour=np.zeros((count, landmarks, 3)),
        instruction=np.zeros((count, length), np.uint8),
    )


def arrange(rng: np.random.Generator, room: Room, looks: Sequence[Sequence[Thing]]) -> tuple[Array, Array]:
    """Return where the M landmarks of N trials stand, none before another: (N, M, 3) m, and their yaw (N, M) rad.

    Raises:
        UserError: The room is too small, or directions are too far apart.
    """
    half = np.array([[room.half(thing) for thing in things] for things in looks])
    doors = np.array([[thing.shape == "door" for thing in things] for things in looks])

    count, most = doors.shape[1], room.bearing_rad
    spare = 2.0 * most - (count - 1) * room.apart_rad
    if spare < 0.0:
        raise UserError(
            f"task_settings: room: apart_rad: {room.apart_rad:g} is not allowed with {count} landmarks within"
            f" bearing_rad {most:g} to either side: choose a smaller one, or fewer landmarks."
        )

    def draw(index: NDArray[np.intp]) -> Array:
        shape = doors[index].shape
        bearing = np.sort(rng.uniform(0.0, spare, shape), axis=1) - most + room.apart_rad * np.arange(count)
        bearing = rng.permuted(bearing, axis=1)
        wall = room.depth_m - half[index, :, 0]
        away = np.where(doors[index], wall / np.cos(bearing), rng.uniform(*room.distance_m, shape))
        return np.stack([away * np.cos(bearing), away * np.sin(bearing), half[index, :, 2]], axis=-1)

    place = scatter(draw, lambda index, tried: np.ones(len(index), np.bool_), len(looks), room.apart_m)
    turned = rng.uniform(-math.pi / 4.0, math.pi / 4.0, doors.shape)
    return place, np.where(doors, 0.0, turned)


def side_of(place: Array, which: int, other: int) -> str:
    """Return which of two landmarks among (M, 3) m one is, seen from the start."""
    bearing = np.arctan2(place[:, 1], place[:, 0])
    return SIDES[int(bearing[which] < bearing[other])]
