"""Small floors to drive on, and how it went."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.parameters import nominal
from rlstack.sim.batch_wheeled_base.simulator import WheeledBaseSimulator
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.pool import pool_of
from rlstack.verification.navigation_episodes import NavigationEpisodes

WALLS = [
    (0.0, 2.05, 2.1, 0.05, 0.0),
    (0.0, -2.05, 2.1, 0.05, 0.0),
    (2.05, 0.0, 0.05, 2.1, 0.0),
    (-2.05, 0.0, 0.05, 2.1, 0.0),
]


def burger() -> WheeledBase:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    return robot


def floor(
    boxes: list[tuple[float, ...]] = [],  # noqa: B006
    start: tuple[float, float, float] = (-1.5, 0.0, 0.0),
    goal: tuple[float, float, float] = (1.5, 0.0, 0.0),
    circles: list[tuple[float, ...]] = [],  # noqa: B006
) -> FloorMap:
    """Return a floor of 4 x 4 m with walls around it."""
    straight = float(np.hypot(goal[0] - start[0], goal[1] - start[1]))
    return FloorMap(
        kind="clutter",
        seed=0,
        difficulty=0.0,
        radius_m=0.15,
        size_m=(4.2, 4.2),
        boxes=np.array([*WALLS, *boxes], dtype=float),
        circles=np.array(circles, dtype=float).reshape(-1, 3),
        start=np.array(start),
        goal=np.array(goal),
        shortest_m=straight,
    )


def course(robot: WheeledBase, *floors: FloorMap, limit_s: float = 40.0) -> NavigationEpisodes:
    return NavigationEpisodes(pool_of(floors, fields=False), nominal(robot, len(floors)), np.full(len(floors), limit_s))


def simulator(robot: WheeledBase, *floors: FloorMap) -> WheeledBaseSimulator:
    pool = pool_of(floors, fields=False)
    robots = WheeledBaseSimulator(
        robot, pool.boxes, pool.circles, rate_hz=10.0, parameters=nominal(robot, len(floors)), seed=0
    )
    robots.place(pool.starts.astype(float))
    return robots


def sensed(robots: WheeledBaseSimulator, goal: tuple[float, float] | Any) -> dict[str, np.ndarray]:
    from rlstack.verification.navigation_trials import NavigationSensors

    pose, twist = robots.pose(), robots.twist()
    goals = np.broadcast_to(np.asarray(goal, dtype=float), (len(pose), 2))
    goals = np.column_stack((goals, np.zeros(len(pose))))
    names = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "scan",
        "goal_position",
        "goal_orientation",
    )
    senses = NavigationSensors(robots, names, 10.0)  # type: ignore[arg-type]  # there are no people
    return senses.signals(pose, twist, goals)
