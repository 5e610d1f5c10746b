"""base_racing: fast laps on unseen tracks, from the scan and odometry's speeds alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.maps.generate import TRAINING_SEEDS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.wheeled_base.task import check_scan

if TYPE_CHECKING:
    from rlstack.tasks.core.task_card import TaskCard
    from rlstack.tasks.wheeled_base.racing.pipeline import RacingPipeline


@dataclass(frozen=True, kw_only=True)
class RacingNoise:
    """Standard deviations of sensor noise, beside those of the robot's lidar."""

    linear_velocity_m_s: float = value(0.03, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.03, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class RacingStarts:
    """Uniform distribution of starts; training spreads them over the whole track."""

    aside: float = value(0.5, unit="1", at_least=0.0, at_most=1.0)
    """Lateral offset to either side, as a share of the free width."""
    heading_rad: float = value(0.3, unit="rad", at_least=0.0)
    speed_m_s: float = value(4.0, unit="m/s", at_least=0.0)
    """Largest start speed; the least is 0."""


@dataclass(frozen=True, kw_only=True)
class RacingReward:
    """Weights of the reward terms, per second except ``progress`` and ``lost``."""

    progress: float = value(1.0)
    """Progress along the centre line, m."""
    wall: float = value(-30.0)
    """Squared missing share of the margin between the car's outline and the nearer wall."""
    margin_m: float = value(0.12, unit="m", above=0.0)
    bend_change: float = value(-0.0005)
    """Squared rate of the commanded curvature, 1/(m s)^2."""
    speed_change: float = value(-0.02)
    """Squared change of the action that sets the speed."""
    grip: float = value(-2.0)
    """Squared share by which lateral and longitudinal acceleration together exceed ``grip_m_s2``."""
    grip_m_s2: float = value(9.0, unit="m/s^2", above=0.0)
    lost: float = value(-3.0)
    """Once, on contact."""


@dataclass(frozen=True, kw_only=True)
class RacingTask(Task):
    """Drive laps as fast as the tyres allow, without touching a wall."""

    rate_hz: float = value(20.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(20.0, unit="s", above=0.0)
    tracks: int = value(128, at_least=1, at_most=100_000)
    """Number of training tracks, with seeds from 0."""
    ray_step: int = value(20, at_least=1)
    """Stride of the observed rays of the scan."""
    front_step: int = value(5, at_least=1)
    """Stride within ``front_rad`` of straight ahead."""
    front_rad: float = value(0.35, unit="rad", at_least=0.0)
    grip_share: tuple[float, float] = value((0.95, 1.05), unit="1", above=0.0)
    """Range of the tyres' grip in training, as a share of the robot file's."""
    through_m: float = value(0.2, unit="m", at_least=0.0)
    """Depth in a wall at which a car is reset in training: until then the penalty has a gradient."""
    scan_gradient: bool = True
    """Whether gradients flow through the ranges' dependence on the pose."""
    noise: RacingNoise = field(default_factory=RacingNoise)
    starts: RacingStarts = field(default_factory=RacingStarts)
    reward: RacingReward = field(default_factory=RacingReward)

    kind = "wheeled_base"
    environment_class = "rlstack.tasks.wheeled_base.racing.environment:RacingEnvironment"
    judge_class = "rlstack.tasks.wheeled_base.racing.recorded_judge:RacingJudge"
    inputs = ("scan", "linear_velocity", "angular_velocity")
    outputs = ("twist",)
    differentiable = True
    verification: ClassVar[str] = "rlstack.kinds.wheeled_base.verification_racing:VERIFICATION"
    bounds: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.95}, at_most={"contact": 0.02, "lap_ratio": 1.1}, episodes=20
    )
    """Pass bounds, in process."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.9}, at_most={"contact": 0.05, "lap_ratio": 1.2, "intervened": 0.05}, episodes=20
    )
    """Pass bounds over topics, where the guard slows down near walls."""

    @property
    def training_seeds(self) -> range:
        """Seeds of the training tracks."""
        return TRAINING_SEEDS[: self.tracks]

    def reference(self, robot: RobotSpec) -> WheeledBase:
        """Return the robot to train on: ``robot`` itself.

        Raises:
            UserError: It is not a car, or has no lidar called ``scan``.
        """
        car: WheeledBase = super().reference(robot)
        if car.drive != "ackermann":
            raise UserError(f"{robot.name} does not steer like a car, as base_racing needs: --robot racecar.")
        check_scan(car)
        return car

    def ray_slices(self, robot: WheeledBase) -> tuple[slice, ...]:
        """Return the observed rays of the robot's scan."""
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
        from rlstack.sim.batch_wheeled_base.layout import PARAMETERS
        from rlstack.sim.batch_wheeled_base.parameters import nominal
        from rlstack.tasks.wheeled_base.observations import Twist
        from rlstack.tasks.wheeled_base.racing import pipeline

        limits = robot.limits
        driving = pipeline.Driving(
            slowest_m_s=0.5,
            fastest_m_s=limits.linear_velocity_m_s,
            change_m_s=limits.linear_acceleration_m_s2 / self.rate_hz,
            ahead_m_s=1.0,
            bend_1_m=float(nominal(robot, 1)[PARAMETERS["steering"]][0, 0]),
        )
        motion = Twist("motion", "5 m/s, 3 rad/s", (0.2, 1 / 3))
        chosen = [pipeline.Ranges(self.ray_slices(robot)), motion, pipeline.Commanded(driving)]
        return pipeline.RacingPipeline(chosen, driving)

    def card(self, robot: WheeledBase, pipeline: RacingPipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.core.task_card import TaskCard, episode_length, timed_out
        from rlstack.tasks.wheeled_base.racing.step import TERMS, RacingStep
        from rlstack.tasks.wheeled_base.task import response_rows

        driving, units = pipeline.driving, {"progress": "1/m", "lost": "once"}
        lost = f"{self.through_m:g} m through a wall, turning faster than 20 rad/s, or not finite"
        return TaskCard(
            length=episode_length(self),
            critic=RacingStep.privileged_terms,
            actions=(
                ("change of the speed", f"{-driving.change_m_s:g}", f"{driving.change_m_s:g}", "m/s a period"),
                ("curvature", f"{-driving.bend_1_m:g}", f"{driving.bend_1_m:g}", "1/m"),
            ),
            rewards=tuple((name, f"{getattr(self.reward, name):g}", units.get(name, "1/s")) for name in TERMS),
            endings=(("lost", lost), timed_out(self)),
            episode="race",
            drawn=response_rows(robot),
            criteria=(("succeeds", "two laps from rest without contact"),),
        )

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {"start_speed_m_s": self.starts.speed_m_s, "start_heading_rad": self.starts.heading_rad}

    def draw_parameters(self, robot: WheeledBase, count: int, rng: np.random.Generator) -> Any:
        """Return parameter rows (PARAMETER_WIDTH, N) of cars with training's randomisation."""
        from rlstack.sim.batch_wheeled_base.layout import PARAMETERS
        from rlstack.sim.batch_wheeled_base.parameters import drawn

        rows = drawn(robot, count, rng)
        rows[PARAMETERS["grip"]] *= rng.uniform(*self.grip_share, count)
        return rows


TASK = RacingTask
