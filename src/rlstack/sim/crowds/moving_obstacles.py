"""Moving obstacles in maps: people and other robots that move back and forth over the free floor.

Each moves between waypoints connected by straight paths that leave room for the robot to pass.
:mod:`rlstack.sim.crowds.walking_models` implements how they avoid static obstacles, each other and possibly the robot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.schema import in_order, value
from rlstack.sim.crowds.scenes import Scenes, absent_people
from rlstack.sim.crowds.walking_models import PERSON
from rlstack.sim.maps.floor_map import FloorMap

MARGIN_M = 0.05
"""Margin: beside each path there is room for the robot plus twice this."""
BEGIN_M = 0.5
"""Least initial gap between a mover and the robot, edge to edge."""
LEAST_M = 1.0
"""Least length of a path, in a map of the usual size."""

_PLACES = 28
_ALONG = 33


@dataclass(frozen=True, kw_only=True)
class MovingObstacles:
    """Settings of the moving obstacles in each map."""

    count: tuple[int, int] = value((0, 0), at_least=0, at_most=8)
    """Least and greatest number; fewer if a map has no room."""
    speed_m_s: tuple[float, float] = value((0.05, 0.25), unit="m/s", above=0.0)
    radius_m: tuple[float, float] = value((0.1, 0.25), unit="m", above=0.0)
    sees_robot: float = value(0.5, at_least=0.0, at_most=1.0)
    """Share that avoids the robot; all avoid each other and static obstacles."""

    def __post_init__(self) -> None:
        in_order(self)

    @property
    def most(self) -> int:
        """Greatest number of moving obstacles."""
        return self.count[1]


def moving_scenes(
    rng: np.random.Generator,
    maps: Sequence[FloorMap],
    moving: MovingObstacles,
    radius_m: float,
    places: int | None = None,
) -> Scenes:
    """Return maps with moving obstacles.

    Args:
        rng: Random numbers.
        maps: R maps; maps that share their array of boxes, as in pools, are analysed once.
        moving: Settings of the movers.
        radius_m: Radius of the robot.
        places: Slots for movers in each map; None: the greatest number.

    Raises:
        UserError: There are fewer slots than movers.
    """
    many = moving.most if places is None else places
    if many < moving.most:
        raise UserError(f"{many} slots are too few for up to {moving.most} moving obstacles.")
    circles, persons = absent_people(len(maps), many)
    known: dict[int, tuple[Array, Array]] = {}
    for k, floor in enumerate(maps):
        if id(floor.boxes) not in known:
            known[id(floor.boxes)] = _paths(rng, floor, moving.radius_m[0], radius_m)
        _add_obstacles(rng, floor, moving, radius_m, *known[id(floor.boxes)], circles[k], persons[k])
    flat = [array.reshape(len(maps), -1).astype(np.float32) for array in (circles, persons)]
    return Scenes(tuple(maps), *flat)


def _paths(rng: np.random.Generator, floor: FloorMap, least_m: float, radius_m: float) -> tuple[Array, Array]:
    """Return waypoints (K, 2) and the widths (K, K) of the straight paths between them, m; negative if too short."""
    scale = min(floor.size_m) / 8.0
    drawn = rng.uniform(-0.5, 0.5, (6 * _PLACES, 2)) * np.array(floor.size_m)
    places = drawn[floor.distance(drawn) >= _required_clearance(least_m, radius_m)][:_PLACES]
    count = len(places)
    one, other = np.triu_indices(count, 1)
    length = np.linalg.norm(places[other] - places[one], axis=1)
    share = np.linspace(0.0, 1.0, _ALONG)[:, None, None]
    along = places[one] + share * (places[other] - places[one])
    # between two samples the clearance is less by at most half their distance
    free = floor.distance(along.reshape(-1, 2)).reshape(_ALONG, -1).min(axis=0, initial=np.inf)
    free = np.where(length >= LEAST_M * scale, free - 0.5 * length / (_ALONG - 1), -1.0)
    wide = np.full((count, count), -1.0)
    wide[one, other] = wide[other, one] = free
    return places, wide


def _required_clearance(mover_m: float, radius_m: float) -> float:
    """Return the clearance in m that a mover's path needs, so that the robot can pass on either side."""
    return mover_m + 2.0 * (radius_m + MARGIN_M)


def _add_obstacles(
    rng: np.random.Generator,
    floor: FloorMap,
    moving: MovingObstacles,
    radius_m: float,
    places: Array,
    wide: Array,
    circles: Array,
    persons: Array,
) -> None:
    """Write movers to a map's rows (P, 5) and (P, PERSON_WIDTH)."""
    wanted = int(rng.integers(moving.count[0], moving.count[1] + 1))
    taken = np.zeros((0, 3))
    crosses = _crosses(floor, places)
    for _ in range(wanted):
        radius, speed = rng.uniform(*moving.radius_m), rng.uniform(*moving.speed_m_s)
        fits = wide >= _required_clearance(radius, radius_m)
        begins = np.linalg.norm(places - floor.start[:2], axis=1) >= radius + radius_m + BEGIN_M
        for x, y, other in taken:
            begins &= np.hypot(places[:, 0] - x, places[:, 1] - y) >= radius + other + 2.0 * MARGIN_M
        pairs = np.argwhere(fits & begins[:, None])
        if not len(pairs):
            continue
        # movers that cross the robot's path are encountered; others hardly ever are
        met = pairs[crosses[pairs[:, 0], pairs[:, 1]]]
        first, second = rng.choice(met if len(met) else pairs)
        third = rng.choice(np.flatnonzero(fits[second]))
        chain = [second, third, second, first]
        k = len(taken)
        circles[k, :3] = [*places[first], radius]
        persons[k, PERSON["waypoints"]] = places[chain].ravel()
        persons[k, PERSON["speed"]] = speed
        persons[k, PERSON["avoids"]], persons[k, PERSON["stays"]] = 1.0, 0.0
        persons[k, PERSON["sees_robot"]] = float(rng.random() < moving.sees_robot)
        taken = np.concatenate([taken, circles[k, None, :3]])


def _crosses(floor: FloorMap, places: Array) -> NDArray[np.bool_]:
    """Return which straight paths (K, K) cross the straight line from the robot's start to its goal."""
    start, goal = floor.start[:2], floor.goal[:2]
    along = goal - start

    def side(points: Any, beside: Any, way: Any) -> Any:
        offset = points - beside
        return way[..., 0] * offset[..., 1] - way[..., 1] * offset[..., 0]

    place = side(places, start, along)
    way = places[None] - places[:, None]
    ends = side(start, places[:, None], way) * side(goal, places[:, None], way)
    return np.asarray((place[:, None] * place[None] < 0.0) & (ends < 0.0))
