"""Base of the mobile-base tasks: limits, noise, rewards, endings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.spec_response import RESPONSE_PARAMETERS
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.batch_wheeled_base.parameters import Speeds
from rlstack.sim.crowds.moving_obstacles import MovingObstacles
from rlstack.sim.crowds.walking_models import Orca, SocialForce
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.wheeled_base.departures import BaseDepartures
from rlstack.tasks.wheeled_base.rewards import BaseReward, BaseTransition, RewardTerm, reward_terms

if TYPE_CHECKING:
    import torch

    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row, TaskCard
    from rlstack.tasks.wheeled_base.maps import MapArrays
    from rlstack.tasks.wheeled_base.pedestrians import Pedestrians


def check_scan(robot: WheeledBase) -> None:
    """Raise ``UserError`` if the robot has no lidar called ``scan``."""
    if "scan" not in robot.lidars:
        raise UserError(f"{robot.name} has no lidar called 'scan', which this task sees with: add one to its file.")


@dataclass(frozen=True, kw_only=True)
class BaseNoise:
    """Standard deviations of odometry noise; the robot file has the lidar's."""

    position_m: float = value(0.01, unit="m", at_least=0.0)
    heading_rad: float = value(0.01, unit="rad", at_least=0.0)
    linear_velocity_m_s: float = value(0.01, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.02, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class ScanObservation:
    """Settings of the observation."""

    rays: int = value(72, at_least=8, at_most=720)
    """Number of evenly spaced rays of the scan in the observation."""
    half_m: float = value(0.3, unit="m", above=0.0)
    """Range at which closeness is one half."""
    goal_bound_m: float = value(2.0, unit="m", above=0.0)
    """Bound on the observed distance to the goal; farther goals keep their direction."""
    change_periods: int = value(0, at_least=0, at_most=20)
    """Control periods over which the scan's change is observed, beside that by own motion; sectors then take their
    shortest ray. 0: no change, and one ray of each sector."""
    change_scale: float = value(1.0, above=0.0)
    """Factor on that change: something at 1.5 m that comes at 0.5 m/s changes its closeness by 0.02 in 0.4 s."""


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
    departures: BaseDepartures = field(default_factory=BaseDepartures)
    curriculum: Stages = field(default_factory=Stages)
    observation: ScanObservation = field(default_factory=ScanObservation)
    reward: BaseReward = field(default_factory=BaseReward)

    kind = "wheeled_base"
    environment_class = "rlstack.tasks.wheeled_base.environment:BaseEnvironment"
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
        if "scan" in self.inputs:
            check_scan(base)
        return base

    def fastest_m_s(self, robot: WheeledBase) -> float:
        """Return the greatest speed that a policy may command."""
        return self.speeds.range(robot)[1][0]

    def rays(self, robot: WheeledBase) -> tuple[int, ...]:
        """Return the indices of the scan's rays that the policy uses, evenly spaced; none without a scan."""
        if "scan" not in self.inputs:
            return ()
        total, wanted = robot.lidars["scan"].rays, self.observation.rays
        step = max(1, total // wanted)
        return tuple(range(0, step * min(wanted, total), step))

    def scan_term(self, robot: WheeledBase) -> Term:
        """Return the observation's term of the scan."""
        from rlstack.tasks.wheeled_base import observations
        from rlstack.tasks.wheeled_base.scan_motion import ScanMotion

        settings = self.observation
        if settings.change_periods:
            return ScanMotion(
                robot.lidars["scan"],
                settings.rays,
                settings.half_m,
                settings.change_periods,
                settings.change_scale,
            )
        return observations.Closeness(self.rays(robot), settings.half_m)

    @property
    def people_slots(self) -> int:
        """Largest number of pedestrians, or other moving obstacles, around each robot."""
        return 0

    @property
    def people_rule(self) -> Orca | SocialForce:
        """How they walk."""
        return Orca()

    def pedestrians(self, robot: WheeledBase, count: int, device: str) -> Pedestrians | None:
        """Return the pedestrians around ``count`` robots, if any."""
        if not self.people_slots:
            return None
        from rlstack.tasks.wheeled_base.pedestrians import Pedestrians

        boxes, still = self.obstacles
        people, period_s = self.people_slots, 1.0 / self.rate_hz
        return Pedestrians(people, still, boxes, robot.radius_m, period_s, self.people_rule, count, device)

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

    def input_noise(self, robot: WheeledBase) -> dict[str, float]:
        """Return the standard deviation of training's noise by input."""
        noise = self.noise
        return {
            "position": noise.position_m,
            "orientation": noise.heading_rad,
            "linear_velocity": noise.linear_velocity_m_s,
            "angular_velocity": noise.angular_velocity_rad_s,
            **({"scan": robot.lidars["scan"].noise_m} if "scan" in robot.lidars else {}),
        }

    def trained_ranges(self, robot: WheeledBase) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of each quantity that training varies."""
        return {
            "command_delay_s": robot.response.range_of("command_delay_s"),
            "speed_m_s": (0.0, self.fastest_m_s(robot)),
            **self.departures.trained_ranges(),
        }

    def pipeline(self, robot: WheeledBase) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.core.pipeline import Pipeline

        return Pipeline(self.terms(robot), self.outputs[0], *self.speeds.range(robot))

    def reward_terms(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the terms with a weight; each maps a transition to an expression."""
        return self.weighted(reward_terms(self.reward, self.arrival_m))

    def lost(self, view: BaseTransition) -> Any:
        """Return whether the robot collides."""
        return view.clearance < 0.0

    def card(self, robot: WheeledBase, pipeline: Pipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.core.task_card import TaskCard, bound_rows, episode_length, reward_rows
        from rlstack.tasks.wheeled_base.step import BaseStep

        columns = (f"on {', '.join(self.verified_on)}", "over topics", "on other maps") if self.verified_on else ()
        goal = f"comes within {self.arrival_m:g} m of the goal in time, without a collision"
        return TaskCard(
            length=episode_length(self),
            critic=BaseStep.privileged_terms,
            actions=self.actions(pipeline),
            rewards=reward_rows(self.reward_terms(), self.reward.lost),
            endings=self.endings(),
            episode="episode",
            drawn=response_rows(robot),
            criteria=(("succeeds", goal),),
            bounded_columns=columns,
            bounds=bound_rows((self.bounds, self.bounds_over_topics, self.bounds_elsewhere)),
        )

    def actions(self, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        from rlstack.tasks.core.task_card import command_rows

        return command_rows(pipeline)

    def endings(self) -> tuple[Row, ...]:
        """Return name and condition of each ending of a training episode."""
        from rlstack.tasks.core.task_card import timed_out

        return (
            ("lost", "the footprint overlaps an obstacle, or the state is not finite"),
            ("arrived", f"nearer than {self.arrival_m:g} m to the goal"),
            timed_out(self),
        )


def response_rows(robot: WheeledBase) -> tuple[Row, ...]:
    """Return name, range and unit of the parameters of the robots' response to commands, as drawn in training."""
    ranges = {name: robot.response.range_of(name) for name in RESPONSE_PARAMETERS}
    return tuple(
        (name, f"{low:g}" if low == high else f"{low:g} .. {high:g}", "s" if name.endswith("_s") else "1")
        for name, (low, high) in ranges.items()
    )
