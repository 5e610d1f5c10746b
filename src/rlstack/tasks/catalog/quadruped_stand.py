"""quadruped_stand: hold the trunk level at the standing height, from any posture near it, under payloads and pushes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots import RobotSpec
from rlstack.schema import in_order, value
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.quadruped.rewards import RewardTerm, StandReward, reward_terms

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline
    from rlstack.tasks.core.task_card import TaskCard


@dataclass(frozen=True, kw_only=True)
class StandRandomisation:
    """Randomisation of training beyond that of trials, drawn for each episode."""

    push_m_s: tuple[float, float] = value((0.5, 1.6), unit="m/s", at_least=0.0)
    """Speed of pushes, in place of the task's."""
    push_every_s: tuple[float, float] = value((0.5, 1.5), unit="s", at_least=0.0)
    """Time to the first push and between pushes, in place of the one push of a trial."""
    foot_friction: tuple[float, float] = value((0.6, 1.2), unit="1", above=0.0)
    """Friction of the feet, as a share of the robot file's."""
    gains: tuple[float, float] = value((0.8, 1.2), unit="1", above=0.0)
    """Stiffness and damping of each joint, as a share of the robot file's."""

    def __post_init__(self) -> None:
        in_order(self)


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
    """Tolerance of the trunk's height."""
    tolerance_rad: float = value(0.05, unit="rad", above=0.0)
    """Tolerance of the trunk's tilt."""
    action_rad: float = value(0.6, unit="rad", above=0.0)
    """Largest offset of joint targets from the standing posture."""
    start_rad: float = value(0.3, unit="rad", at_least=0.0)
    """Largest start offset of each joint from the standing posture."""
    payload_kg: tuple[float, float] = value((0.1, 4.0), unit="kg", above=0.0)
    push_m_s: tuple[float, float] = value((0.5, 1.3), unit="m/s", at_least=0.0)
    """Horizontal velocity that a push adds to the trunk, in a random direction."""
    push_at_s: tuple[float, float] = value((1.0, 2.0), unit="s", at_least=0.0)
    """Time of the push."""
    lost_m: float = value(0.14, unit="m", above=0.0)
    """A robot whose trunk is lower has fallen."""
    lost_rad: float = value(0.7, unit="rad", above=0.0)
    """A robot whose trunk is tilted by more has fallen."""
    noise: StandNoise = field(default_factory=StandNoise)
    randomisation: StandRandomisation = field(default_factory=StandRandomisation)
    reward: StandReward = field(default_factory=StandReward)

    kind = "quadruped"
    environment_class = "rlstack.tasks.quadruped.environment:StandEnvironment"
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
        self.check_rate(f"{robot.name} is controlled", quadruped.control_rate_hz)
        return quadruped

    def reward_terms(self) -> dict[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the reward but ``lost``, with weights per second."""
        terms = reward_terms(self.reward, self.tolerance_m, self.tolerance_rad)
        return {name: (getattr(self.reward, name), term) for name, term in terms.items()}

    def stands(self, robot: Quadruped, height_m: Array, tilt_rad: Array) -> Mask:
        """Return (...) whether trunks are level at the robot's standing height, within the tolerances."""
        level = tilt_rad <= self.tolerance_rad
        return np.asarray(level & (np.abs(height_m - robot.standing_height_m) <= self.tolerance_m))

    def fallen(self, height_m: Array, tilt_rad: Array) -> Mask:
        """Return (...) whether trunks at these heights and tilts have fallen."""
        return np.asarray((height_m < self.lost_m) | (tilt_rad > self.lost_rad))

    def pipeline(self, robot: Quadruped) -> Pipeline:
        """Return the observation pipeline for ``robot``: joint targets about the standing posture."""
        from rlstack.tasks.core.pipeline import Pipeline
        from rlstack.tasks.quadruped.observations import stand_terms

        low = [max(rest - self.action_rad, drive.lower) for rest, drive in zip(robot.standing, robot.drives)]
        high = [min(rest + self.action_rad, drive.upper) for rest, drive in zip(robot.standing, robot.drives)]
        return Pipeline(stand_terms(robot), self.outputs[0], low, high)

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
        from rlstack.tasks.core.task_card import TaskCard, bound_rows, episode_length, reward_rows, timed_out

        low, high = pipeline.minimum.tolist(), pipeline.maximum.tolist()
        return TaskCard(
            length=episode_length(self),
            actions=tuple((d.name, f"{a:g}", f"{b:g}", "rad") for d, a, b in zip(robot.drives, low, high)),
            rewards=reward_rows(self.reward_terms(), self.reward.lost),
            endings=(
                ("lost", f"lower than {self.lost_m:g} m, tilted by over {self.lost_rad:g} rad, or not finite"),
                timed_out(self),
            ),
            episode="trial",
            scale="actions in -1..1, joint targets about the standing posture",
            criteria=(
                (
                    "succeeds",
                    f"for the last {self.judged_s:g} s at {robot.standing_height_m:g} m within {self.tolerance_m:g} m,"
                    f" level within {self.tolerance_rad:g} rad, and never fallen",
                ),
            ),
            bounded_columns=("in process", "over topics"),
            bounds=bound_rows((self.bounds, self.bounds_over_topics)),
        )


TASK = StandTask
