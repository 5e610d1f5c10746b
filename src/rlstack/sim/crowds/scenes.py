"""Random pedestrian scenes: initial positions and waypoints.

Two published settings: CrowdNav's circle crossing (Chen et al., arXiv 1809.08835) and HEIGHT's furnished hall (Liu et
al., arXiv 2411.12150), with the values of their public sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32
from rlstack.errors import UserError
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, ABSENT_SIZE_M, CIRCLE_ROWS
from rlstack.sim.crowds.walking_models import PERSON, PERSON_WIDTH, WAYPOINTS
from rlstack.sim.maps.floor_map import FloorMap, distance

CROSSING_M = 4.0
"""Radius of the circle in CrowdNav."""
DISCOMFORT_M = 0.2
"""Least initial gap in CrowdNav."""

HALL_M = 4.5
"""Half the side of the hall in HEIGHT."""
_WALL_M = 0.1
_CELL_M = 0.1
_TRIES = 400
_CANDIDATES = 96


@dataclass(frozen=True)
class Scenes:
    """R scenes, each with a start and goal for one robot.

    Args:
        maps: Their maps, with start and goal.
        people: (R, 5 P) circles as in :mod:`rlstack.sim.batch_wheeled_base.layout`; absent people are far away.
        persons: (R, PERSON_WIDTH P) as in :mod:`rlstack.sim.crowds.walking_models`.
    """

    maps: tuple[FloorMap, ...]
    people: Array32
    persons: Array32

    def __len__(self) -> int:
        return len(self.maps)

    def take(self, index: NDArray[np.integer]) -> Scenes:
        """Return the scenes at ``index``."""
        return Scenes(tuple(self.maps[k] for k in index), self.people[index], self.persons[index])


@dataclass(frozen=True, kw_only=True)
class Hall:
    """Settings of HEIGHT: a square hall with boxes, crossing people, some standing, few that avoid the robot."""

    walking: tuple[int, int] = (5, 9)
    standing: tuple[int, int] = (0, 2)
    boxes: tuple[int, int] = (8, 12)
    goal_m: tuple[float, float] = (5.0, 6.0)
    """Straight-line distance from start to goal."""
    radius_m: float = 0.25
    speed_m_s: float = 0.5
    sees_robot: float = 0.2
    """Share of walking people."""
    avoiding: float = 1.0
    """Share of walking people that avoid others; the rest walk straight."""
    room_m: float = 0.25
    """Least initial gap between people and boxes or the robot."""

    def crowded(self, times: float) -> Hall:
        """Return a hall with ``times`` as many people on average."""
        # least rounded up and greatest rounded down, to scale their mean
        bounds = [
            (int(np.ceil(times * least - 1e-9)), int(np.floor(times * most + 1e-9)))
            for least, most in (self.walking, self.standing)
        ]
        return replace(self, walking=bounds[0], standing=bounds[1])


def circle_crossing(rng: np.random.Generator, count: int, people: int = 5) -> Scenes:
    """Draw scenes of CrowdNav: people and the robot, which nobody avoids, cross a circle."""
    start = np.zeros((count, people, 2))
    ends = np.array([[0.0, -CROSSING_M], [0.0, CROSSING_M]])
    for k in range(people):
        left = np.arange(count)
        while len(left):
            angle = rng.uniform(0.0, 2.0 * np.pi, len(left))
            place = CROSSING_M * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            place += rng.uniform(-0.5, 0.5, place.shape)
            start[left, k] = place
            others = np.concatenate([start[left, :k], -start[left, :k], np.tile(ends, (len(left), 1, 1))], axis=1)
            apart = np.linalg.norm(place[:, None] - others, axis=2).min(axis=1)
            left = left[apart < 0.6 + DISCOMFORT_M]
    circles, persons = absent_people(count, people)
    circles[..., :2], circles[..., 2] = start, 0.3
    persons[..., PERSON["waypoints"]] = np.tile(-start, (1, 1, WAYPOINTS))
    for name in ("speed", "avoids", "stays"):
        persons[..., PERSON[name]] = 1.0
    size = 2.0 * CROSSING_M + 4.0
    floor = FloorMap(
        kind="circle_crossing",
        seed=0,
        difficulty=0.0,
        radius_m=0.3,
        size_m=(size, size),
        boxes=np.zeros((0, 5)),
        circles=np.zeros((0, 3)),
        start=np.array([0.0, -CROSSING_M, 0.5 * np.pi]),
        goal=np.array([0.0, CROSSING_M, 0.5 * np.pi]),
        shortest_m=2.0 * CROSSING_M,
    )
    return Scenes((floor,) * count, _flat(circles), _flat(persons))


def halls(rng: np.random.Generator, count: int, people: int, hall: Hall, radius_m: float) -> Scenes:
    """Draw scenes in halls.

    Args:
        rng: Random numbers.
        count: R.
        people: P slots for people, at least the greatest number in ``hall``.
        hall: Settings of the halls.
        radius_m: Radius of the robot.

    Raises:
        UserError: There are fewer slots than people.
    """
    if people < hall.walking[1] + hall.standing[1]:
        raise UserError(
            f"{people} slots are too few for up to {hall.walking[1]} walking and {hall.standing[1]} standing people."
        )
    circles, persons = absent_people(count, people)
    maps: list[FloorMap] = []
    while len(maps) < count:
        floor = _draw_hall(rng, hall, radius_m)
        if floor is not None and _add_people(rng, hall, floor, circles[len(maps)], persons[len(maps)]):
            maps.append(floor)
    return Scenes(tuple(maps), _flat(circles), _flat(persons))


def _draw_hall(rng: np.random.Generator, hall: Hall, radius_m: float) -> FloorMap | None:
    """Draw a hall with boxes a metre apart where there is room, and a path; None if none was found."""
    wanted, gap, boxes = int(rng.integers(hall.boxes[0], hall.boxes[1] + 1)), 1.0, np.zeros((0, 4))
    tries = 0
    while len(boxes) < wanted:
        tries += 1
        gap = max(gap - 0.1, 0.0) if tries % 100 == 0 else gap
        half = 0.5 * np.clip(rng.normal(1.0, 0.6, 2), 0.1, 5.0)
        middle = rng.uniform(-HALL_M - 1.0, HALL_M - 1.0, 2) + half
        over = np.abs(boxes[:, :2] - middle) > boxes[:, 2:] + half + gap
        if over.any(axis=1).all():
            boxes = np.concatenate([boxes, [[*middle, *half]]])
    side, wall = HALL_M + 2.0 * _WALL_M, HALL_M + _WALL_M
    walls = [[0, wall, side, _WALL_M], [0, -wall, side, _WALL_M], [wall, 0, _WALL_M, side], [-wall, 0, _WALL_M, side]]
    all_boxes = np.concatenate([np.array(walls), boxes])
    all_boxes = np.concatenate([all_boxes, np.zeros((len(all_boxes), 1))], axis=1)
    none = np.zeros((0, 3))
    start, goal = rng.uniform(-4.0, 4.0, (2, _TRIES, 2))
    apart = np.linalg.norm(goal - start, axis=1)
    fits = (apart >= hall.goal_m[0]) & (apart <= hall.goal_m[1])
    for end in (start, goal):
        fits &= distance(all_boxes, none, end[:, 0], end[:, 1]) > 2.0 * radius_m
    if not fits.any():
        return None
    start, goal = start[fits], goal[fits]
    # prefer a straight line that many boxes block
    share: Array = np.linspace(0.0, 1.0, 40)[:, None, None]
    along: Array = start + (goal - start) * share
    crossed = np.zeros(len(start), dtype=int)
    for box in all_boxes[len(walls) :]:
        crossed += (distance(box[None], none, along[..., 0], along[..., 1]) < 0.0).any(axis=0)
    k = int(np.argmax(crossed >= 4))
    shortest = _path_length(all_boxes, start[k], goal[k], radius_m + 0.03)
    if shortest is None:
        return None
    return FloorMap(
        kind="hall",
        seed=0,
        difficulty=1.0,
        radius_m=radius_m,
        size_m=(2.0 * HALL_M + 4.0 * _WALL_M,) * 2,
        boxes=all_boxes,
        circles=none,
        start=np.array([*start[k], rng.uniform(-np.pi, np.pi)]),
        goal=np.array([*goal[k], 0.0]),
        shortest_m=shortest,
    )


def _path_length(boxes: Array, start: Array, goal: Array, radius_m: float) -> float | None:
    """Return the length of a path over cell centres, m; None if there is none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    side = round(2.0 * HALL_M / _CELL_M)
    middle = np.linspace(0.5 * _CELL_M - HALL_M, HALL_M - 0.5 * _CELL_M, side)
    free = distance(boxes, np.zeros((0, 3)), middle[:, None], middle[None, :]) >= radius_m
    number = np.arange(side * side).reshape(side, side)
    one, other, length = [], [], []
    for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
        a = (slice(0, side - dx), slice(max(0, -dy), side - max(0, dy)))
        b = (slice(dx, side), slice(max(0, dy), side + min(0, dy)))
        both = free[a] & free[b]
        one.append(number[a][both])
        other.append(number[b][both])
        length.append(np.full(len(one[-1]), np.hypot(dx, dy) * _CELL_M))
    graph = coo_array(
        (np.concatenate(length), (np.concatenate(one), np.concatenate(other))), shape=(side * side, side * side)
    ).tocsr()
    ends = [tuple(np.clip(((end + HALL_M) / _CELL_M).astype(int), 0, side - 1)) for end in (start, goal)]
    found = float(dijkstra(graph, directed=False, indices=number[ends[0]])[number[ends[1]]])
    return found if np.isfinite(found) else None


def _add_people(rng: np.random.Generator, hall: Hall, floor: FloorMap, circles: Array, persons: Array) -> bool:
    """Place people that cross the floor as on a circle of 4 m; return False if there is no room."""
    walking = int(rng.integers(hall.walking[0], hall.walking[1] + 1))
    standing = int(rng.integers(hall.standing[0], hall.standing[1] + 1))
    robot, goal, wide = floor.start[:2], floor.goal[:2], hall.radius_m + hall.room_m
    further = rng.uniform(wide - HALL_M, HALL_M - wide, (_CANDIDATES, 2))
    further = further[floor.distance(further) >= wide]
    if len(further) < WAYPOINTS:
        return False
    taken = robot[None]
    for k in range(walking + standing):
        walks = k < walking
        for spread in (2.0, 3.0, 4.5):
            angle = rng.uniform(0.0, 2.0 * np.pi, _CANDIDATES)
            place = CROSSING_M * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            place += rng.uniform(-spread, spread, place.shape)
            fits = (np.abs(place).max(axis=1) <= HALL_M - wide) & (floor.distance(place) >= wide)
            fits &= np.linalg.norm(place[:, None] - taken, axis=2).min(axis=1) >= floor.radius_m + wide
            if walks:
                fits &= floor.distance(-place) >= wide
            else:
                fits &= np.linalg.norm(place - goal, axis=1) > 2.0 * (floor.radius_m + hall.radius_m)
            if fits.any():
                break
        else:
            return False
        chosen = place[np.argmax(fits)]
        taken = np.concatenate([taken, chosen[None]])
        circles[k, :3] = [*chosen, hall.radius_m]
        then = further[rng.integers(len(further), size=WAYPOINTS)]
        places = np.concatenate([-chosen[None], then[1:]]) if walks else np.tile(chosen, (WAYPOINTS, 1))
        persons[k, PERSON["waypoints"]] = places.reshape(-1)
        persons[k, PERSON["avoids"]] = float(not walks or rng.random() < hall.avoiding)
        persons[k, PERSON["sees_robot"]] = float(walks and rng.random() < hall.sees_robot)
        persons[k, PERSON["stays"]] = float(not walks)
        persons[k, PERSON["speed"]] = hall.speed_m_s
    return True


def absent_people(count: int, people: int) -> tuple[Array, Array]:
    """Return circles (R, P, 5) and persons (R, P, PERSON_WIDTH) of absent people."""
    circles, persons = np.zeros((count, people, CIRCLE_ROWS)), np.zeros((count, people, PERSON_WIDTH))
    # at different positions, so that no person is mistaken for itself
    circles[..., 0] = ABSENT_M + 10.0 * np.arange(people)
    circles[..., 1], circles[..., 2] = ABSENT_M, ABSENT_SIZE_M
    persons[..., PERSON["waypoints"]] = np.tile(circles[..., :2], (1, 1, WAYPOINTS))
    persons[..., PERSON["speed"]] = persons[..., PERSON["stays"]] = 1.0
    return circles, persons


def _flat(array: Array) -> Array32:
    return array.reshape(len(array), -1).astype(np.float32)
