"""base_racing: laps against the clock on tracks that were never seen, from the scan and odometry's speeds alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.maps.tracks import TRAINING_SEEDS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.task import Task

if TYPE_CHECKING:
    from rlstack.tasks.core.card import TaskCard
    from rlstack.tasks.core.pipeline import Pipeline
    from rlstack.tasks.wheeled_base.racing.environment import RacingEnvironment
    from rlstack.tasks.wheeled_base.racing.pipeline import RacingPipeline


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of what the policy senses, beside those of the robot's lidar."""

    linear_velocity_m_s: float = value(0.03, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.03, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Where and how cars start, uniformly within these bounds; training spreads them over the whole track."""

    aside: float = value(0.5, unit="1", at_least=0.0, at_most=1.0)
    """Off the middle to either side, as a share of the room that the car has."""
    heading_rad: float = value(0.3, unit="rad", at_least=0.0)
    speed_m_s: float = value(4.0, unit="m/s", at_least=0.0)
    """From 0."""


@dataclass(frozen=True, kw_only=True)
class Reward:
    """Weights of the reward terms; all but ``progress`` and ``lost`` are rates a second."""

    progress: float = value(1.0)
    """m along the middle of the track."""
    wall: float = value(-30.0)
    """Square of the share of the margin that is missing between the car's outline and the nearer wall."""
    margin_m: float = value(0.12, unit="m", above=0.0)
    bend_change: float = value(-0.0005)
    """Squared rate of the commanded curvature, 1/(m s)^2."""
    speed_change: float = value(-0.02)
    """Squared change of the action that sets the speed."""
    grip: float = value(-2.0)
    """Square of the share by which steering and changing speed together ask the tyres for more than ``grip_m_s2``."""
    grip_m_s2: float = value(9.0, unit="m/s^2", above=0.0)
    lost: float = value(-3.0)
    """Once, on contact."""


@dataclass(frozen=True, kw_only=True)
class RacingTask(Task):
    """Drive laps as fast as the tyres let it, without touching a wall."""

    rate_hz: float = value(20.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(20.0, unit="s", above=0.0)
    tracks: int = value(128, at_least=1, at_most=100_000)
    """Of the training seeds, from 0 on."""
    ray_step: int = value(20, at_least=1)
    """Every how manyth ray of the scan it looks at."""
    front_step: int = value(5, at_least=1)
    """The same within ``front_rad`` of straight ahead."""
    front_rad: float = value(0.35, unit="rad", at_least=0.0)
    grip_share: tuple[float, float] = value((0.95, 1.05), unit="1", above=0.0)
    """Range of the tyres' grip in training, as a share of the robot file's."""
    through_m: float = value(0.2, unit="m", at_least=0.0)
    """How far a car may go through a wall in training before it starts anew: what pushes it back must be felt."""
    scan_gradient: bool = True
    """Whether gradients go through what a change of the pose does to the ranges."""
    noise: Noise = field(default_factory=Noise)
    starts: Starts = field(default_factory=Starts)
    reward: Reward = field(default_factory=Reward)

    kind = "wheeled_base"
    inputs = ("scan", "linear_velocity", "angular_velocity")
    outputs = ("twist",)
    differentiable = True
    verification: ClassVar[str] = "rlstack.kinds.wheeled_base.verification_racing:VERIFICATION"
    bounds: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.95}, at_most={"contact": 0.02, "lap_ratio": 1.1}, episodes=20
    )
    """What a policy must reach in process."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.9}, at_most={"contact": 0.05, "lap_ratio": 1.2, "intervened": 0.05}, episodes=20
    )
    """The same over topics, where the guard slows down near walls."""

    @property
    def training_seeds(self) -> range:
        """Of the tracks that are trained on."""
        return TRAINING_SEEDS[: self.tracks]

    def reward_terms(self) -> dict[str, float]:
        """Return the weight of each term of the reward but ``lost``, by name; the step has their formulas."""
        from rlstack.tasks.wheeled_base.racing.step import TERMS

        return {name: getattr(self.reward, name) for name in TERMS if name != "lost"}

    def reference(self, robot: RobotSpec) -> WheeledBase:
        """Return the robot that training drives: the robot itself.

        Raises:
            UserError: It is no car, or has no lidar called ``scan``.
        """
        car: WheeledBase = super().reference(robot)
        if car.drive != "ackermann":
            raise UserError(f"{robot.name} does not steer like a car, as base_racing needs: --robot racecar.")
        if "scan" not in car.lidars:
            raise UserError(f"{robot.name} has no lidar called 'scan', which this task sees with: add one to its file.")
        return car

    def ray_slices(self, robot: WheeledBase) -> tuple[slice, ...]:
        """Return which rays of the robot's scan the policy looks at."""
        lidar = robot.lidars["scan"]
        middle = lidar.rays // 2
        step, fine = self.ray_step, self.front_step
        half = int(self.front_rad / lidar.angle_increment_rad) // fine * fine
        coarse = slice(middle % step, lidar.rays, step)
        if half == 0:
            return (coarse,)
        right, left = middle - half, middle + half
        first = coarse.start + -(-(left + 1 - coarse.start) // step) * step
        return (
            slice(coarse.start, right, step),
            slice(right, left + 1, fine),
            slice(first, lidar.rays, step),
        )

    def ray_indices(self, robot: WheeledBase) -> tuple[int, ...]:
        """Return the indices of those rays, in the observation's order."""
        return tuple(i for rays in self.ray_slices(robot) for i in range(rays.start, rays.stop, rays.step))

    def pipeline(self, robot: WheeledBase) -> RacingPipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.sim.bases.layout import PARAMETERS
        from rlstack.sim.bases.parameters import nominal
        from rlstack.tasks.wheeled_base.racing import pipeline as terms

        limits = robot.limits
        driving = terms.Driving(
            slowest_m_s=0.5,
            fastest_m_s=limits.linear_velocity_m_s,
            change_m_s=limits.linear_acceleration_m_s2 / self.rate_hz,
            ahead_m_s=1.0,
            bend_1_m=float(nominal(robot, 1)[PARAMETERS["steering"]][0, 0]),
        )
        chosen = [terms.Ranges(self.ray_slices(robot)), terms.Motion(), terms.Commanded(driving)]
        return terms.RacingPipeline(chosen, driving)

    def environment(
        self, robot: WheeledBase, pipeline: Pipeline, count: int, device: str, seed: int
    ) -> RacingEnvironment:
        """Return N copies of the task for training."""
        from rlstack.tasks.wheeled_base.racing.environment import RacingEnvironment

        return RacingEnvironment(self, robot, pipeline, count, device=device, seed=seed)

    def card(self, robot: WheeledBase, pipeline: RacingPipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.wheeled_base.racing.card import racing_card

        return racing_card(self, robot, pipeline)

    def envelope(self) -> dict[str, float]:
        """Return what the policy was trained for, SI units in the keys."""
        return {"start_speed_m_s": self.starts.speed_m_s, "start_heading_rad": self.starts.heading_rad}

    def draw_parameters(self, robot: WheeledBase, count: int, rng: np.random.Generator) -> Any:
        """Return the rows (PARAMETER_WIDTH, N) of cars that depart from the file as in training."""
        from rlstack.sim.bases.layout import PARAMETERS
        from rlstack.sim.bases.parameters import drawn

        rows = drawn(robot, count, rng)
        rows[PARAMETERS["grip"]] *= rng.uniform(*self.grip_share, count)
        return rows


TASK = RacingTask
