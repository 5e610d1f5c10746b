"""base_navigation: drive to a goal pose among unknown obstacles, by scan and odometry alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.schema import value
from rlstack.sim.crowds.moving_obstacles import MovingObstacles, moving_scenes
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.wheeled_base.rewards import BaseReward, BaseTransition
from rlstack.tasks.wheeled_base.task import BaseTask

if TYPE_CHECKING:
    import torch

    from rlstack.tasks.core.pipeline import Term
    from rlstack.tasks.wheeled_base.maps import MapArrays


@dataclass(frozen=True, kw_only=True)
class NavigationMaps:
    """Settings of the training maps."""

    kinds: tuple[str, ...] = ("clutter", "rooms", "corridors", "doorways", "dead_ends", "mazes")
    """Kinds of maps, in equal shares."""
    count: int = value(1536, at_least=1)
    """Paths drawn for each stage of the curriculum, on a third as many maps."""
    difficulty: tuple[float, float] = value((0.0, 1.0), at_least=0.0, at_most=1.0)
    """Least and greatest difficulty, the latter in the last stage."""


@dataclass(frozen=True, kw_only=True)
class NavigationTask(BaseTask):
    """Drive to a goal pose, commanding a twist."""

    maps: NavigationMaps = field(default_factory=NavigationMaps)
    moving: MovingObstacles = field(default_factory=MovingObstacles)
    """Moving obstacles in the maps; default: none."""
    through_m: float = value(0.0, unit="m", at_least=0.0)
    """Depth at which a collision ends a training episode: until then its gradient leads out of it."""
    reward: BaseReward = field(
        default_factory=lambda: BaseReward(progress=1.0, near=-2.0, turning=-0.01, action_change=-0.02, rest=-0.5)
    )

    inputs = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "scan",
        "goal_position",
        "goal_orientation",
    )
    judge_class = "rlstack.tasks.wheeled_base.recorded_judge:NavigationJudge"
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

    @property
    def obstacles(self) -> tuple[int, int]:
        """Largest numbers of static boxes and circles in each robot's map."""
        from rlstack.sim.maps.generate import most_circles

        return super().obstacles[0], most_circles(self.maps.kinds)

    def draw_maps(self, robot: WheeledBase, stage: int, rng: np.random.Generator, device: torch.device) -> MapArrays:
        """Draw training maps, which exclude held-out ones."""
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
        scenes = moving_scenes(rng, pool.maps, self.moving, robot.radius_m) if self.moving.most else None
        goal_m = 2.0 * self.arrival_m
        return MapArrays(pool, device, scenes=scenes, radius_m=robot.radius_m, anywhere=0.5, goal_m=goal_m)

    @property
    def people_slots(self) -> int:
        """Largest number of moving obstacles."""
        return self.moving.most

    def terms(self, robot: WheeledBase) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.core.observations import ActionHistory
        from rlstack.tasks.wheeled_base import observations

        settings = self.observation
        return [
            observations.GoalOffset(settings.goal_bound_m),
            observations.GoalHeading(),
            observations.Twist(),
            ActionHistory(2, name="last_action", memory="past_actions"),
            self.scan_term(robot),
        ]

    def lost(self, view: BaseTransition) -> Any:
        """Return whether the robot collides, ``through_m`` deep."""
        return view.clearance < -self.through_m

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        known = {"arrival_m": self.arrival_m, "episode_s": self.episode_s}
        if not self.moving.most:
            return known
        return {**known, "people": float(self.moving.most), "people_speed_m_s": self.moving.speed_m_s[1]}


TASK = NavigationTask
