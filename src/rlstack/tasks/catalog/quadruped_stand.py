"""quadruped_stand: hold the trunk level at the standing height, from any posture near it, under payloads and pushes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.task import Task

if TYPE_CHECKING:
    from rlstack.tasks.core.card import TaskCard
    from rlstack.tasks.core.pipeline import Pipeline
    from rlstack.tasks.quadruped.environment import StandEnvironment


@dataclass(frozen=True, kw_only=True)
class StandReward:
    """Weights, rates a second, but for ``lost``, which comes once."""

    height: float = value(1.0)
    """exp(-(error / tolerance_m)^2)"""
    level: float = value(1.0)
    """exp(-(tilt / tolerance_rad)^2)"""
    speed: float = value(-0.5)
    """Squared speed of the trunk, m^2/s^2."""
    turning: float = value(-0.02)
    """Squared angular velocity of the trunk, rad^2/s^2."""
    posture: float = value(-0.2)
    """Sum over the joints of squared offsets from the standing posture, rad^2."""
    action_change: float = value(-0.1)
    """Sum of squared changes of the action."""
    lost: float = value(-4.0)


@dataclass(frozen=True, kw_only=True)
class StandNoise:
    """Standard deviations of white noise."""

    orientation: float = value(0.01, unit="rad", at_least=0.0)
    linear_velocity: float = value(0.05, unit="m/s", at_least=0.0)
    angular_velocity: float = value(0.05, unit="rad/s", at_least=0.0)
    joint_position: float = value(0.01, unit="rad", at_least=0.0)
    joint_velocity: float = value(0.3, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class StandTask(Task):
    """Hold the trunk level at the standing height, from any posture near it, under payloads and pushes."""

    rate_hz: float = value(50.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(4.0, unit="s", above=0.0)
    judged_s: float = value(1.0, unit="s", above=0.0)
    """A trial succeeds if the robot stands, within the tolerances, for so long at its end, and never fell."""
    tolerance_m: float = value(0.01, unit="m", above=0.0)
    """Of the trunk's height."""
    tolerance_rad: float = value(0.05, unit="rad", above=0.0)
    """Of the trunk's tilt."""
    action_rad: float = value(0.6, unit="rad", above=0.0)
    """Largest offset of joint targets from the standing posture."""
    start_rad: float = value(0.3, unit="rad", at_least=0.0)
    """Largest start offset of each joint from the standing posture."""
    payload_kg: tuple[float, float] = value((0.1, 4.0), unit="kg", above=0.0)
    push_m_s: tuple[float, float] = value((0.5, 1.3), unit="m/s", at_least=0.0)
    """Horizontal velocity that a push adds to the trunk, in a random direction."""
    push_at_s: tuple[float, float] = value((1.0, 2.0), unit="s", at_least=0.0)
    """When it comes."""
    lost_m: float = value(0.14, unit="m", above=0.0)
    """A trunk that is lower has fallen."""
    lost_rad: float = value(0.7, unit="rad", above=0.0)
    """So has one that is tilted by more."""
    noise: StandNoise = field(default_factory=StandNoise)
    reward: StandReward = field(default_factory=StandReward)

    kind = "quadruped"
    inputs: ClassVar[tuple[str, ...]] = (
        *("orientation", "linear_velocity", "angular_velocity"),
        *("joint_position", "joint_velocity"),
    )
    """The policy's inputs."""
    outputs: ClassVar[tuple[str, ...]] = ("joint_target",)
    differentiable: ClassVar[bool] = False
    verification: ClassVar[str] = "quadruped"
    bounds: ClassVar[Bounds] = Bounds(at_least={"success": 0.9}, at_most={"lost": 0.05})
    """Pass bounds in each simulator, in process."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.9}, at_most={"lost": 0.1, "intervened": 0.1}, episodes=ENOUGH_OVER_TOPICS
    )
    """Pass bounds over topics, through the deployed nodes."""

    def __post_init__(self) -> None:
        if self.push_at_s[1] + self.judged_s > self.episode_s:
            raise ValueError(
                f"push_at_s: {list(self.push_at_s)} is not allowed: pushes must end {self.judged_s:g} s (judged_s)"
                f" before the episode does, {self.episode_s:g} s (episode_s)."
            )

    def reference(self, robot: RobotSpec) -> Quadruped:
        """Return the robot that training moves.

        Raises:
            UserError: It is of another kind, or is not controlled in whole multiples of the task's rate.
        """
        quadruped: Quadruped = super().reference(robot)
        share = quadruped.control_rate_hz / self.rate_hz
        if abs(share - round(share)) > 1e-6:
            raise UserError(
                f"task_settings: rate_hz: {self.rate_hz:g} is not allowed: {robot.name} is controlled at"
                f" {robot.control_rate_hz:g} Hz, which is no whole multiple of it."
            )
        return quadruped

    @property
    def steps(self) -> int:
        """Steps of an episode."""
        return max(1, round(self.episode_s * self.rate_hz))

    @property
    def rates(self) -> dict[str, float]:
        """Weights of the reward's terms but ``lost``, in order."""
        return {name: weight for name, weight in dataclasses.asdict(self.reward).items() if name != "lost"}

    def stands(self, robot: Quadruped, height_m: Array, tilt_rad: Array) -> Mask:
        """Return (...) whether trunks are level at the robot's standing height, within the tolerances."""
        level = tilt_rad <= self.tolerance_rad
        return np.asarray(level & (np.abs(height_m - robot.standing_height_m) <= self.tolerance_m))

    def fallen(self, height_m: Array, tilt_rad: Array) -> Mask:
        """Return (...) whether trunks at these heights and tilts have fallen."""
        return np.asarray((height_m < self.lost_m) | (tilt_rad > self.lost_rad))

    def pipeline(self, robot: Quadruped) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.quadruped.pipeline import stand_pipeline

        return stand_pipeline(robot, self.action_rad)

    def environment(self, robot: Quadruped, pipeline: Pipeline, count: int, device: str, seed: int) -> StandEnvironment:
        """Return N copies of the task to learn from."""
        from rlstack.tasks.quadruped.environment import StandEnvironment

        return StandEnvironment(self, robot, pipeline, count, device=device, seed=seed)

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {
            "start_rad": self.start_rad,
            "payload_max_kg": self.payload_kg[1],
            "push_max_m_s": self.push_m_s[1],
            "episode_s": self.episode_s,
        }

    def card(self, robot: Quadruped, pipeline: Pipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.core.card import TaskCard, asked_rows, seconds

        low, high = pipeline.minimum.tolist(), pipeline.maximum.tolist()
        return TaskCard(
            length=seconds(self),
            critic=(),
            actions=tuple((d.name, f"{a:g}", f"{b:g}", "rad") for d, a, b in zip(robot.drives, low, high)),
            rewards=(
                *((name, f"{weight:g}", "1/s") for name, weight in self.rates.items()),
                ("lost", f"{self.reward.lost:g}", "once"),
            ),
            endings=(
                ("lost", f"lower than {self.lost_m:g} m, tilted by over {self.lost_rad:g} rad, or not finite"),
                ("timed out", f"after {self.episode_s:g} s; the value of going on is counted"),
            ),
            episode="trial",
            scale="actions in -1..1, joint targets about the standing posture",
            judged=(
                (
                    "succeeds",
                    f"for the last {self.judged_s:g} s at {robot.standing_height_m:g} m within {self.tolerance_m:g} m,"
                    f" level within {self.tolerance_rad:g} rad, and never fallen",
                ),
            ),
            asked_of=("in process", "over topics"),
            asked=asked_rows((self.bounds, self.bounds_over_topics)),
        )


TASK = StandTask
