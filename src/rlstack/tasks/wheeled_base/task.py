"""Base of the mobile-base tasks: limits, noise, rewards, endings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.bases.moving_obstacles import MovingObstacles
from rlstack.sim.bases.parameters import Speeds
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.wheeled_base.rewards import BaseTransition

if TYPE_CHECKING:
    import torch

    from rlstack.tasks.core.card import Row, TaskCard
    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.wheeled_base.environment import BaseEnvironment
    from rlstack.tasks.wheeled_base.maps import MapArrays
    from rlstack.tasks.wheeled_base.pedestrians import Pedestrians


@dataclass(frozen=True, kw_only=True)
class BaseNoise:
    """Standard deviations of odometry noise; the robot file has the lidar's."""

    position_m: float = value(0.01, unit="m", at_least=0.0)
    heading_rad: float = value(0.01, unit="rad", at_least=0.0)
    linear_velocity_m_s: float = value(0.01, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.02, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class BaseReward:
    """Weights of the reward terms, per second except ``lost``. Each task sets its own."""

    progress: float = value(1.0)
    """Speed along the path to the goal as a share of the greatest."""
    facing: float = value(0.0)
    """Cosine from the heading to the path: gives a stationary robot a gradient to turn."""
    near: float = value(0.0)
    """Squared share of the margin that is missing."""
    margin_m: float = value(0.1, unit="m", above=0.0)
    """Clearance below which ``near`` applies."""
    ahead: float = value(0.0)
    """The same for the robot's predicted position at constant velocity."""
    ahead_s: float = value(0.7, unit="s", above=0.0)
    """Prediction time."""
    turning: float = value(0.0)
    """Squared turning rate, rad/s."""
    action_change: float = value(0.0)
    """Squared change of the action."""
    rest: float = value(0.0)
    """Squared share of the greatest speed, at the goal."""
    heading: float = value(0.0)
    """1 - cos of the heading error, at the goal."""
    lost: float = value(-2.0)
    """Once, at a collision."""


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Curriculum of maps over the training steps."""

    stages: int = value(1, at_least=1, at_most=10)
    """Number of sets of maps, in increasing difficulty."""
    full_after: float = value(0.3, at_least=0.0, at_most=1.0)
    """Share of the training steps after which the hardest set is used."""

    def stage(self, done: float) -> int:
        """Return the stage at the share ``done`` of the training steps."""
        if self.full_after == 0.0:
            return self.stages - 1
        return min(int(done / self.full_after * (self.stages - 1) + 1e-9), self.stages - 1)


@dataclass(frozen=True, kw_only=True)
class BaseTask(Task, ABC):
    """A task for mobile bases that command a twist."""

    rate_hz: float = value(10.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(60.0, unit="s", above=0.0)
    arrival_m: float = value(0.2, unit="m", above=0.0)
    """Distance from the goal within which the robot has arrived."""
    speeds: Speeds = field(default_factory=Speeds)
    noise: BaseNoise = field(default_factory=BaseNoise)
    curriculum: Stages = field(default_factory=Stages)
    reward: BaseReward = field(default_factory=BaseReward)

    kind = "wheeled_base"
    inputs: ClassVar[tuple[str, ...]] = ()
    """The policy's inputs."""
    differentiable: ClassVar[bool] = True
    verification: ClassVar[str] = "wheeled_base"
    """The kind of robot whose verification part evaluates and verifies policies, or ``module:OBJECT``."""
    verified_on: ClassVar[tuple[str, ...]] = ()
    """Kinds of maps on which verification applies ``bounds``; empty: no verification on maps."""
    bounds: ClassVar[Bounds] = Bounds(at_least={"success": 0.95})
    """Pass bounds on them, in process."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(at_least={"success": 0.95}, episodes=ENOUGH_OVER_TOPICS)
    """Pass bounds over topics."""
    bounds_elsewhere: ClassVar[Bounds | None] = None
    """Pass bounds on the other kinds of maps, for policies trained on them; None: none."""
    verified_among: ClassVar[MovingObstacles | None] = None
    """Moving obstacles in verification's column with movers; None: there is no such column."""
    bounds_among: ClassVar[Bounds | None] = None
    """Pass bounds there, for policies trained among movers; None: none."""
    planners: ClassVar[tuple[str, ...]] = ()
    """Classical planners in reports; the first is the policy's baseline."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The policy's outputs."""
        return ("twist",)

    @property
    def obstacles(self) -> tuple[int, int]:
        """Largest numbers of static boxes and circles in each robot's map."""
        return 24, 8

    def reference(self, robot: RobotSpec) -> WheeledBase:
        """Return the robot to train on.

        Raises:
            UserError: It is not a wheeled base, or lacks a sensor of the task.
        """
        base: WheeledBase = super().reference(robot)
        if "scan" in self.inputs and "scan" not in base.lidars:
            raise UserError(f"{robot.name} has no lidar called 'scan', which this task sees with: add one to its file.")
        return base

    def fastest_m_s(self, robot: WheeledBase) -> float:
        """Return the greatest speed that a policy may command."""
        return self.speeds.range(robot)[1][0]

    def rays(self, robot: WheeledBase) -> tuple[int, ...]:
        """Return the indices of the scan's rays that the policy uses, evenly spaced; none without a scan."""
        return ()

    def pedestrians(self, robot: WheeledBase, count: int, device: str, seed: int) -> Pedestrians | None:
        """Return the pedestrians among ``count`` robots, if any."""
        return None

    def more_signals(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task's further input signals, from the step's rows."""
        return {}

    @abstractmethod
    def draw_maps(self, robot: WheeledBase, stage: int, rng: np.random.Generator, device: torch.device) -> MapArrays:
        """Draw the maps of a stage of the curriculum."""

    @abstractmethod
    def terms(self, robot: WheeledBase) -> list[Term]:
        """Return the terms of the observation."""

    @abstractmethod
    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""

    def environment(
        self, robot: WheeledBase, pipeline: Pipeline, count: int, device: str, seed: int
    ) -> BaseEnvironment:
        """Return N copies of the task for training."""
        from rlstack.tasks.wheeled_base.environment import BaseEnvironment

        return BaseEnvironment(self, robot, pipeline, count, device=device, seed=seed)

    def pipeline(self, robot: WheeledBase) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.core.pipeline import Pipeline

        return Pipeline(self.terms(robot), self.outputs[0], *self.speeds.range(robot))

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[BaseTransition], Any]]]:
        """Return ``{name: (weight, term)}`` of the terms with a weight; each maps a transition to an expression."""
        terms: dict[str, Callable[[BaseTransition], Any]] = {
            "progress": lambda s: s.progress,
            "facing": lambda s: s.facing,
            "near": lambda s: s.too_near(self.reward.margin_m),
            "ahead": lambda s: s.too_near_in(self.reward.ahead_s, self.reward.margin_m),
            "turning": lambda s: s.yaw_rate * s.yaw_rate,
            "action_change": lambda s: s.action_change,
            "rest": lambda s: s.speed_share * s.near_goal(self.arrival_m),
            "heading": lambda s: (1.0 - s.heading_cos) * s.near_goal(2.0 * self.arrival_m),
        }
        weights = {name: getattr(self.reward, name) for name in terms}
        return {name: (weight, terms[name]) for name, weight in weights.items() if weight != 0.0}

    def lost(self, view: BaseTransition) -> Any:
        """Return whether the robot collides."""
        return view.clearance < 0.0

    def card(self, robot: WheeledBase, pipeline: Pipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.wheeled_base.card import base_card

        return base_card(self, robot, pipeline)

    def actions(self, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        from rlstack.tasks.core.card import commands

        return commands(pipeline)

    def endings(self) -> tuple[Row, ...]:
        """Return name and condition of each ending of a training episode."""
        return (
            ("lost", "the footprint overlaps something, or a number is not finite"),
            ("arrived", f"nearer than {self.arrival_m:g} m to the goal"),
            ("timed out", f"after {self.episode_s:g} s; the value of going on is counted"),
        )
