"""Pools of maps as arrays for the batch simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array32
from rlstack.errors import UserError
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, ABSENT_SIZE_M
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.generate import MOST_BOXES, MOST_CIRCLES, draw_maps, safe_m, search_frame, training_maps
from rlstack.sim.maps.geodesic import Fields, solve_fields


@dataclass(frozen=True, eq=False)
class MapPool:
    """R pairs of start and goal, each with its map; several may share a map."""

    maps: tuple[FloorMap, ...]
    boxes: Array32
    """(R, 6 B): x, y of the centre, cosine and sine of the yaw, half extents, m; box by box; absent ones 1 km off."""
    circles: Array32
    """(R, 5 C): x, y, radius, and the velocity along x and y, which is 0; circle after circle."""
    starts: Array32
    """(R, 3): x, y, m, and yaw, rad."""
    goals: Array32
    """(R, 3): x, y, m, and yaw, rad."""
    shortest_m: Array32
    """(R,): length of the shortest path, m."""
    field_index: NDArray[np.int64]
    """(R,): index of each row's field."""
    fields: Fields | None
    """Fields of distance and direction to the goal, one per goal; None: not computed."""

    def __len__(self) -> int:
        return len(self.maps)

    @property
    def kinds(self) -> NDArray[np.str_]:
        """(R,): the kind of each row's map."""
        return np.array([m.kind for m in self.maps])

    @property
    def difficulty(self) -> Array32:
        """(R,): the difficulty of each row's map."""
        return np.array([m.difficulty for m in self.maps], dtype=np.float32)


def pool_of(
    maps: Sequence[FloorMap], *, boxes: int = MOST_BOXES, circles: int = MOST_CIRCLES, fields: bool = True
) -> MapPool:
    """Return a pool of maps.

    Args:
        maps: One or more maps; fields require equal sizes and robot radii. Maps that share the array of their goal, as
            :func:`~rlstack.sim.maps.generate.draw_maps` returns them, share a field.
        boxes: B, slots for boxes.
        circles: C, slots for circles.
        fields: Whether to compute fields.

    Raises:
        UserError: There are no maps, one has too many boxes or circles, or fields are requested for unequal maps.
    """
    if not maps:
        raise UserError("A pool of maps needs at least one map.")
    for drawn in maps:
        if len(drawn.boxes) > boxes or len(drawn.circles) > circles:
            raise UserError(
                f"The map {drawn.title} has {len(drawn.boxes)} boxes and {len(drawn.circles)} circles; the pool has"
                f" slots for {boxes} and {circles}: raise boxes or circles."
            )
    sizes = {(m.radius_m, m.size_m) for m in maps}
    if fields and len(sizes) > 1:
        raise UserError("Fields need maps of one size for robots of one radius: make a pool of each.")
    known: dict[int, int] = {}
    index = [known.setdefault(id(m.goal), len(known)) for m in maps]
    first = [maps[index.index(k)] for k in range(len(known))]
    radius, size = maps[0].radius_m, maps[0].size_m
    return MapPool(
        maps=tuple(maps),
        boxes=np.stack([box_rows(m, boxes) for m in maps]),
        circles=np.stack([circle_rows(m, circles) for m in maps]),
        starts=np.stack([m.start for m in maps]).astype(np.float32),
        goals=np.stack([m.goal for m in maps]).astype(np.float32),
        shortest_m=np.array([m.shortest_m for m in maps], dtype=np.float32),
        field_index=np.array(index, dtype=np.int64),
        fields=solve_fields(first, search_frame(radius, size), safe_m(radius)) if fields else None,
    )


def build_pool(
    kinds: Sequence[str],
    count: int,
    *,
    rng: np.random.Generator | None = None,
    seeds: Sequence[int] | None = None,
    difficulty: tuple[float, float] = (0.0, 1.0),
    radius_m: float = 0.105,
    starts: int = 1,
    boxes: int = MOST_BOXES,
    circles: int = MOST_CIRCLES,
    fields: bool = True,
    **settings: Any,
) -> MapPool:
    """Return a pool of drawn maps: training maps from ``rng``, or maps of given seeds, such as held-out ones.

    Args:
        kinds: Kinds of map, in equal shares.
        count: Number of rows; each start counts.
        rng: Draws seeds of :data:`~rlstack.sim.maps.generate.TRAINING_SEEDS` and difficulties.
        seeds: One seed per map, instead of ``rng``; difficulties then increase from least to greatest, evenly spaced
            within each kind.
        difficulty: Least and greatest difficulty.
        radius_m: Radius of the robot.
        starts: Starts per map.
        boxes: Slots for boxes.
        circles: Slots for circles.
        fields: Whether to compute fields.
        settings: Further arguments of :func:`~rlstack.sim.maps.generate.draw_maps`.

    Raises:
        UserError: As for :func:`~rlstack.sim.maps.generate.draw_maps`; or there is neither ``rng`` nor enough seeds.
    """
    if seeds is None:
        if rng is None:
            raise UserError("build_pool: give rng, to train, or seeds.")
        settings = {"kinds": kinds, "difficulty": difficulty, "radius_m": radius_m, "starts": starts, **settings}
        maps = training_maps(rng, count, **settings)
    else:
        maps = []
        needed = -(-count // starts)
        if len(seeds) < needed:
            raise UserError(f"build_pool: {len(seeds)} seeds are too few for {needed} maps.")
        rounds = max(-(-needed // len(kinds)) - 1, 1)
        for number, seed in enumerate(seeds[:needed]):
            level = difficulty[0] + (difficulty[1] - difficulty[0]) * min(number // len(kinds) / rounds, 1.0)
            kind = kinds[number % len(kinds)]
            maps += draw_maps(kind, seed, level, radius_m, starts=min(starts, count - len(maps)), **settings)
    return pool_of(maps, boxes=boxes, circles=circles, fields=fields)


def box_rows(drawn: FloorMap, count: int = MOST_BOXES) -> Array32:
    """Return a map's boxes (6 count,) in the batch simulator's layout."""
    rows = np.tile(np.array([ABSENT_M, ABSENT_M, 1.0, 0.0, ABSENT_SIZE_M, ABSENT_SIZE_M], dtype=np.float32), (count, 1))
    x, y, half_x, half_y, yaw = drawn.boxes.T
    rows[: len(drawn.boxes)] = np.stack([x, y, np.cos(yaw), np.sin(yaw), half_x, half_y], axis=1)
    return rows.ravel()


def circle_rows(drawn: FloorMap, count: int = MOST_CIRCLES) -> Array32:
    """Return a map's circles (5 count,) in the batch simulator's layout, at rest."""
    rows = np.tile(np.array([ABSENT_M, ABSENT_M, ABSENT_SIZE_M, 0.0, 0.0], dtype=np.float32), (count, 1))
    rows[: len(drawn.circles), :3] = drawn.circles
    return rows.ravel()
