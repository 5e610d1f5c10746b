"""Navigation episodes: N ways from a start to a goal, each in its map, the same for policies and classical planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.moving_obstacles import MovingObstacles, moving_scenes
from rlstack.sim.bases.parameters import drawn
from rlstack.sim.bases.scenes import Scenes
from rlstack.sim.maps.generate import HELD_OUT_SEEDS
from rlstack.sim.maps.pool import MapPool, build_pool

PEOPLED = " + people"
"""Added to the kind of a map where something moves."""

VALIDATION = 100_000
"""The last so many of the held-out seeds are what runs choose their best policy by."""


@dataclass(frozen=True)
class Course:
    """N ways to drive.

    Args:
        pool: N rows: maps with start and goal.
        parameters: (rows, N) of the robots, as in :mod:`rlstack.sim.bases.layout`; each departs from its file.
        limit_s: (N,) time that a robot has, s.
        movers: What moves in the maps; None: nothing does.
    """

    pool: MapPool
    parameters: NDArray[np.float32]
    limit_s: Array
    movers: Scenes | None = None
    tracked: bool = True
    """Whether drivers that sense people are told of those whom a tracker finds in their scan; otherwise the truth."""

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def kinds(self) -> NDArray[np.str_]:
        """(N,) of the maps, such as ``clutter``, or ``clutter + people`` where something may move."""
        return self.pool.kinds if self.movers is None else np.char.add(self.pool.kinds, PEOPLED)

    def take(self, index: NDArray[np.integer] | slice) -> Course:
        """Return the ways at ``index``."""
        pool = self.pool
        numbers = np.arange(len(pool))[index]
        arrays: dict[str, Any] = {
            name: getattr(pool, name)[numbers]
            for name in ("boxes", "circles", "starts", "goals", "shortest_m", "field_index")
        }
        return Course(
            replace(pool, maps=tuple(pool.maps[k] for k in numbers), **arrays),
            self.parameters[:, numbers],
            self.limit_s[numbers],
            None if self.movers is None else self.movers.take(numbers),
            self.tracked,
        )


def held_out_course(
    robot: WheeledBase,
    count: int,
    seed: int,
    *,
    kinds: Sequence[str],
    difficulty: tuple[float, float] = (0.0, 1.0),
    fastest_m_s: float | None = None,
    validation: bool = False,
    movers: MovingObstacles | None = None,
) -> Course:
    """Return ways in maps that nobody trains on.

    Args:
        robot: What drives.
        count: N.
        seed: Which of the held-out maps, and of the robots' departures from their file.
        kinds: Of the maps, in equal shares.
        difficulty: From the least to the greatest in turn.
        validation: Take them from those that the best policy of a run is chosen by, which no report uses.
        fastest_m_s: Of whoever drives, for the time limit: 2.5 times what the shortest way takes, and 15 s.
        movers: What moves in the maps, which are the same without; None: nothing does.
    """
    rng = np.random.default_rng(seed)
    known = HELD_OUT_SEEDS[-VALIDATION:] if validation else HELD_OUT_SEEDS[:-VALIDATION]
    seeds = known.start + rng.choice(len(known), count, replace=False)
    pool = build_pool(kinds, count, seeds=seeds.tolist(), difficulty=difficulty, radius_m=robot.radius_m, fields=False)
    fastest = fastest_m_s or robot.limits.linear_velocity_m_s
    parameters, limit = drawn(robot, count, rng), 15.0 + 2.5 * pool.shortest_m.astype(float) / fastest
    if movers is None or not movers.most:
        return Course(pool, parameters, limit)
    return Course(pool, parameters, limit, moving_scenes(rng, pool.maps, movers, robot.radius_m))
