"""base_navigation: drive to a goal pose among obstacles that are not known before, by scan and odometry alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.schema import value
from rlstack.sim.bases.moving_obstacles import MovingObstacles, moving_scenes
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.wheeled_base.task import BaseReward, BaseTask, Stages

if TYPE_CHECKING:
    import torch

    from rlstack.tasks.core.pipeline import Term
    from rlstack.tasks.wheeled_base.maps import MapArrays
    from rlstack.tasks.wheeled_base.pedestrians import Pedestrians


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the policy makes of its inputs."""

    rays: int = value(72, at_least=8, at_most=720)
    """How many of the scan's rays are looked at, evenly spaced."""
    half_m: float = value(0.3, unit="m", above=0.0)
    """Range at which something is half as close as can be."""
    goal_bound_m: float = value(2.0, unit="m", above=0.0)
    """A goal farther away than this is seen as if it were this far, in its direction."""


@dataclass(frozen=True, kw_only=True)
class Maps:
    """What maps are trained on."""

    kinds: tuple[str, ...] = ("clutter", "rooms", "corridors", "doorways", "dead_ends", "mazes")
    """In equal shares."""
    count: int = value(1536, at_least=1)
    """Ways to go that are drawn for each stage of the curriculum, on a third as many maps."""
    difficulty: tuple[float, float] = value((0.0, 1.0), at_least=0.0, at_most=1.0)
    """The easiest and the hardest, of the last stage."""


@dataclass(frozen=True, kw_only=True)
class NavigationTask(BaseTask):
    """Drive to a goal pose, commanding a twist."""

    maps: Maps = field(default_factory=Maps)
    moving: MovingObstacles = field(default_factory=MovingObstacles)
    """What moves in them; nothing, if left out."""
    observation: Observation = field(default_factory=Observation)
    reward: BaseReward = field(
        default_factory=lambda: BaseReward(progress=1.0, near=-2.0, turning=-0.01, action_change=-0.02, rest=-0.5)
    )
    curriculum: Stages = field(default_factory=Stages)

    inputs = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "scan",
        "goal_position",
        "goal_orientation",
    )
    verified_on = ("clutter",)
    # not worse than the tuned local planner beyond chance, and in at most 1.1 times its time
    bounds = Bounds(at_least={"success": 0.95, "lead_high": 0.0}, at_most={"collided": 0.03, "time_ratio": 1.1})
    bounds_over_topics = Bounds(
        at_least={"success": 0.93},
        at_most={"collided": 0.05, "time_ratio": 1.1, "intervened": 0.05},
        episodes=ENOUGH_OVER_TOPICS,
    )
    bounds_elsewhere = Bounds(at_least={"success": 0.8, "lead_high": 0.0})
    verified_among = MovingObstacles(count=(1, 3))
    bounds_among = Bounds(at_least={"success": 0.8, "lead_high": 0.0})
    planners = ("dwa", "astar_dwa")

    def rays(self, robot: WheeledBase) -> tuple[int, ...]:
        """Return every so many of the scan's rays."""
        total = robot.lidars["scan"].rays
        step = max(1, total // self.observation.rays)
        return tuple(range(0, step * min(self.observation.rays, total), step))

    def draw_maps(self, robot: WheeledBase, stage: int, rng: np.random.Generator, device: torch.device) -> MapArrays:
        """Draw maps, none of them held out."""
        from rlstack.sim.maps.pool import build_pool
        from rlstack.tasks.wheeled_base.maps import MapArrays

        easiest, hardest = self.maps.difficulty
        hardest = easiest + (hardest - easiest) * (stage + 1) / self.curriculum.stages
        pool = build_pool(
            self.maps.kinds,
            self.maps.count,
            rng=rng,
            difficulty=(easiest, hardest),
            radius_m=robot.radius_m,
            starts=3,
            boxes=self.obstacles[0],
            circles=self.obstacles[1],
        )
        if not self.moving.most:
            return MapArrays(pool, device, anywhere=0.5, goal_m=2.0 * self.arrival_m)
        from rlstack.tasks.wheeled_base.maps import MovingMapArrays

        scenes = moving_scenes(rng, pool.maps, self.moving, robot.radius_m)
        return MovingMapArrays(pool, scenes, robot.radius_m, device, anywhere=0.5, goal_m=2.0 * self.arrival_m)

    def pedestrians(self, robot: WheeledBase, count: int, device: str, seed: int) -> Pedestrians | None:
        """Return what moves among ``count`` robots."""
        if not self.moving.most:
            return None
        from rlstack.sim.bases.people import Orca
        from rlstack.tasks.wheeled_base.pedestrians import Pedestrians

        boxes, still = self.obstacles
        return Pedestrians(self.moving.most, still, boxes, robot.radius_m, 1.0 / self.rate_hz, Orca(), count, device)

    def terms(self, robot: WheeledBase) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.core.terms import ActionHistory
        from rlstack.tasks.wheeled_base import terms

        settings = self.observation
        return [
            terms.GoalOffset(settings.goal_bound_m),
            terms.GoalHeading(),
            terms.Twist(),
            ActionHistory(2, name="last_action", memory="past_actions"),
            terms.Closeness(self.rays(robot), settings.half_m),
        ]

    def envelope(self) -> dict[str, float]:
        """Return what the policy was trained for, SI units in the keys."""
        known = {"arrival_m": self.arrival_m, "episode_s": self.episode_s}
        if not self.moving.most:
            return known
        return {**known, "people": float(self.moving.most), "people_speed_m_s": self.moving.speed_m_s[1]}


TASK = NavigationTask
