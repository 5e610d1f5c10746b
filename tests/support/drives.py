"""Small courses, a driver that knows no obstacles, and recorded drives made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.batch_wheeled_base.parameters import nominal
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.pool import pool_of
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.trial_records import NavigationRecord

WALLS = [
    (0.0, 2.05, 2.1, 0.05, 0.0),
    (0.0, -2.05, 2.1, 0.05, 0.0),
    (2.05, 0.0, 0.05, 2.1, 0.0),
    (-2.05, 0.0, 0.05, 2.1, 0.0),
]


def room(seed: int, *, blocked: bool = False, kind: str = "clutter", metres: float = 1.0) -> FloorMap:
    """Return a room of 4 x 4 m, with the goal straight ahead; blocked: behind a box."""
    boxes = [*WALLS, (0.5 * metres, 0.0, 0.05, 0.3, 0.0)] if blocked else WALLS
    return FloorMap(
        kind=kind,
        seed=seed,
        difficulty=0.5,
        radius_m=0.105,
        size_m=(4.2, 4.2),
        boxes=np.array(boxes),
        circles=np.array([[-1.0, 1.0, 0.2]]),
        start=np.array([0.0, 0.0, 0.0]),
        goal=np.array([metres, 0.0, 0.0]),
        shortest_m=metres,
    )


def course_of(robot: WheeledBase, maps: Sequence[FloorMap], limit_s: float = 12.0) -> NavigationEpisodes:
    """Return ways over maps, for robots as their file says."""
    return NavigationEpisodes(pool_of(maps, fields=False), nominal(robot, len(maps)), np.full(len(maps), limit_s))


class Homing:
    """Turns to the goal and goes there, whatever is in the way."""

    inputs = ("position", "orientation", "goal_position")
    outputs = ("twist",)

    def __init__(self, status: int | None = None, speed: float = 0.2) -> None:
        self._status, self._speed = status, speed

    def reset(self, batch: int = 1) -> None:
        if self._status is not None:
            self.status = np.full(batch, self._status, dtype=np.int8)

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        offset = inputs["goal_position"] - inputs["position"]
        away = frames.wrap_angle(np.arctan2(offset[:, 1], offset[:, 0]) - frames.yaw(inputs["orientation"]))
        return {"twist": np.stack([self._speed * (np.abs(away) < 0.5), 2.0 * away], axis=1)}


def recorded(
    endings: Sequence[str],
    time_s: Sequence[float],
    *,
    driver: str = "mine",
    simulator: str = "batch",
    speed: float = 0.5,
    shortest_m: float = 2.0,
    kinds: Sequence[str] | None = None,
    **more: Any,
) -> NavigationRecord:
    """Return drives straight ahead at one speed, m/s, sampled at 10 Hz."""
    count, steps = len(endings), round(10.0 * max(time_s)) + 1
    time = 0.1 * np.arange(steps)[:, None]
    over = time > np.array(time_s) + 1e-9
    pose, twist = np.zeros((steps, count, 3)), np.zeros((steps, count, 3))
    pose[..., 0], twist[..., 0] = speed * time, speed
    for array in (pose, twist):
        array[over] = np.nan
    return NavigationRecord(
        driver=driver,
        simulator=simulator,
        rate_hz=10.0,
        pose=pose,
        twist=twist,
        command=twist[..., [0, 2]],
        clearance_m=np.where(over, np.nan, 0.3 + 0.01 * np.arange(count)),
        ending=np.array(endings, dtype="<U12"),
        time_s=np.array(time_s, dtype=float),
        shortest_m=np.full(count, shortest_m),
        labels=np.array(kinds or ["clutter"] * count),
        wall_s=1.5,
        **more,
    )
