"""Navigation episodes: N starts and goals, each in its map, the same for policies and classical planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.parameters import drawn
from rlstack.sim.crowds.moving_obstacles import MovingObstacles, moving_scenes
from rlstack.sim.crowds.scenes import Scenes
from rlstack.sim.maps.generate import HELD_OUT_SEEDS, most_circles
from rlstack.sim.maps.pool import MapPool, build_pool

PEOPLED = " + people"
"""Suffix of the kind of a map with moving people."""

VALIDATION = 100_000
"""Number of held-out seeds, at the end, reserved for choosing a run's best policy."""


@dataclass(frozen=True)
class NavigationEpisodes:
    """N navigation episodes.

    Args:
        pool: N maps with start and goal.
        parameters: (rows, N) robot parameters, randomized about the robot file: rows of
            :data:`rlstack.sim.batch_wheeled_base.layout.PARAMETERS`.
        limit_s: (N,) time limits, s.
        movers: People in the maps; None: none.
    """

    pool: MapPool
    parameters: NDArray[np.float32]
    limit_s: Array
    movers: Scenes | None = None
    tracked: bool = True
    """Whether drivers receive people tracked in their scan; otherwise the ground truth."""

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def kinds(self) -> NDArray[np.str_]:
        """(N,) kinds of the maps, such as ``clutter``, or ``clutter + people`` with people."""
        return self.pool.kinds if self.movers is None else np.char.add(self.pool.kinds, PEOPLED)

    def take(self, index: NDArray[np.integer] | slice) -> NavigationEpisodes:
        """Return the episodes at ``index``."""
        pool = self.pool
        numbers = np.arange(len(pool))[index]
        arrays: dict[str, Any] = {
            name: getattr(pool, name)[numbers]
            for name in ("boxes", "circles", "starts", "goals", "shortest_m", "field_index")
        }
        return NavigationEpisodes(
            replace(pool, maps=tuple(pool.maps[k] for k in numbers), **arrays),
            self.parameters[:, numbers],
            self.limit_s[numbers],
            None if self.movers is None else self.movers.take(numbers),
            self.tracked,
        )


def held_out_episodes(
    robot: WheeledBase,
    count: int,
    seed: int,
    *,
    kinds: Sequence[str],
    difficulty: tuple[float, float] = (0.0, 1.0),
    fastest_m_s: float | None = None,
    validation: bool = False,
    movers: MovingObstacles | None = None,
) -> NavigationEpisodes:
    """Return episodes in held-out maps, which training does not use.

    Args:
        robot: The robot.
        count: N.
        seed: Seed of the choice of maps, and of the robots' parameters.
        kinds: Kinds of the maps, in equal shares.
        difficulty: Range of difficulties, taken in turn.
        validation: Take the maps reserved for choosing a run's best policy, which no report uses.
        fastest_m_s: Top speed for the time limit: 2.5 times the duration of the shortest path, plus 15 s.
        movers: People in the maps, which are otherwise the same; None: none.
    """
    rng = np.random.default_rng(seed)
    known = HELD_OUT_SEEDS[-VALIDATION:] if validation else HELD_OUT_SEEDS[:-VALIDATION]
    seeds = known.start + rng.choice(len(known), count, replace=False)
    pool = build_pool(
        kinds,
        count,
        seeds=seeds.tolist(),
        difficulty=difficulty,
        radius_m=robot.radius_m,
        circles=most_circles(kinds),
        fields=False,
    )
    fastest = fastest_m_s or robot.limits.linear_velocity_m_s
    parameters, limit = drawn(robot, count, rng), 15.0 + 2.5 * pool.shortest_m.astype(float) / fastest
    if movers is None or not movers.most:
        return NavigationEpisodes(pool, parameters, limit)
    return NavigationEpisodes(pool, parameters, limit, moving_scenes(rng, pool.maps, movers, robot.radius_m))
