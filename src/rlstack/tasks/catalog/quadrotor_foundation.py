"""quadrotor_foundation: one policy for a whole family of quadrotors, which adapts to the vehicle from its motion.

The family is that of RAPTOR (Eschmann, Albani, Loianno, arXiv 2509.11481); see :mod:`rlstack.tasks.quadrotor.family`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.quadrotor import rewards, trajectories
from rlstack.tasks.quadrotor import task as quadrotor
from rlstack.tasks.quadrotor.family import THRUST_CURVE, Family, nominal_robot, sample_family
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.sampling import Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.tasks.quadrotor.task import LAYOUT, MOTION, PATH, QuadrotorTask, draw_disturbances

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row

AHEAD_S = 1.0
"""Time by which training paths exceed an episode, s."""


@dataclass(frozen=True, kw_only=True)
class Observation(quadrotor.PathObservation):
    """Settings of the observation."""

    ahead_s: tuple[float, ...] = value((0.15, 0.35), unit="s", above=0.0)
    """Times ahead of the observed path points."""
    action_history: int = value(1, at_least=1, at_most=64)
    """Number of observed past actions."""


@dataclass(frozen=True, kw_only=True)
class Reward(rewards.Reward):
    """Weights of the reward terms, per second except ``lost``."""

    near: float = value(2.0)
    at_goal: float = value(2.0)
    distance: float = value(-2.0)
    velocity: float = value(-0.1)
    rates: float = value(-0.01)
    heading: float = value(-0.2)
    action_change: float = value(-0.05)


@dataclass(frozen=True, kw_only=True)
class FoundationTask(QuadrotorTask):
    """Hover and follow paths with any quadrotor of a family, commanding rotor speeds."""

    episode_s: float = value(10.0, unit="s", above=0.0)
    lost_m: float = value(5.0, unit="m", above=0.0)
    lost_rad_s: float = value(35.0, unit="rad/s", above=0.0)
    resting: float = value(0.5, at_least=0.0, at_most=1.0)
    """Share of paths that rest at one point."""
    slow_bias: float = value(1.0, at_least=0.0)
    """Training weights vehicles by this power of one over their torque to inertia: slow ones are hard to fly and rare
    in the family."""
    half_rate_share: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of training episodes in which the policy is called in every second control period."""
    vehicles: Family = field(default_factory=Family)
    observation: Observation = field(default_factory=Observation)
    reward: Reward = field(default_factory=Reward)

    inputs = (*MOTION, *PATH, *LAYOUT)
    criteria = SuccessCriteria(radius_m=1.0, from_s=9.0, to_s=10.0, lost_m=5.0, duration_s=10.0)
    """Success as in RAPTOR: within 1 m throughout the last of ten seconds."""
    bounds = Bounds(at_least={"success": 0.95}, at_most={"lost": 0.05, "error_m": 0.15})
    bounds_over_topics = Bounds(
        at_least={"success": 0.95},
        at_most={"lost": 0.05, "error_m": 0.15, "intervened": 0.05},
        episodes=ENOUGH_OVER_TOPICS,
    )

    @property
    def max_delay_s(self) -> float:
        """Longest delay of commands that training draws, s."""
        return self.vehicles.delay_s[1]

    @property
    def path_window(self) -> tuple[int, ...]:
        """Steps ahead of the path points in the training observation."""
        return self.observation.window(self.rate_hz)

    @property
    def family(self) -> dict[str, tuple[float, float]]:
        """Ranges of the vehicles' parameters, for the policy file."""
        return self.vehicles.ranges

    def reference(self, robot: RobotSpec) -> Quadrotor:
        """Return the robot that all vehicles are scaled from: ``robot`` with the family's thrust curve."""
        return nominal_robot(super().reference(robot))

    def sample(self, rng: np.random.Generator, count: int, robot: Quadrotor, scale: float = 1.0) -> Scenario:
        """Draw training episodes, each with its own vehicle; all paths start at the origin."""
        vehicles = sample_family(rng, 4 * count, robot, self.vehicles)
        weight = vehicles.parameters["roll_torque_to_inertia_rad_s2"] ** -self.slow_bias
        chosen = rng.choice(len(vehicles), count, replace=False, p=weight / weight.sum())
        return vehicles.take(chosen).scenario(rng, robot, start="ten_arms_each_axis", scale=scale)

    def sample_paths(self, rng: np.random.Generator, count: int, robot: Quadrotor) -> Paths:
        """Draw training paths: fixed points and figures, half of which start at full speed."""
        duration, step = self.episode_s + AHEAD_S, 1.0 / self.rate_hz
        samples = round(duration * self.rate_hz)
        moving = max(2, round(count * (1.0 - self.resting)))
        position = np.zeros((count, samples, 3))
        for begin, end, ease_s in ((0, moving // 2, 0.0), (moving // 2, moving, 1.0)):
            path = trajectories.random_figures(rng, end - begin, duration_s=duration, ease_s=ease_s, step_s=step)
            position[begin:end] = path.position[:, :samples]
        return Paths(np.tile(np.arange(samples) * step, (count, 1)), position, np.zeros((count, samples)))

    def validation(self, rng: np.random.Generator, count: int, robot: Quadrotor) -> Scenario:
        """Draw the validation episodes that select a run's best policy: vehicles at rest, with disturbances."""
        path = _rest(count, self.criteria.duration_s)
        return sample_family(rng, count, robot, self.vehicles).scenario(rng, robot, path=path)

    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes of one robot: from within ten arm lengths, with disturbances."""
        arm = float(np.linalg.norm(robot.rotor_positions[:, :2], axis=1).max())
        state = Starts(position_m=10.0 * arm / np.sqrt(3.0)).sample(rng, count, robot)
        perturbation, labels = draw_disturbances(rng, count, robot, disturbances)
        path = _rest(count, self.criteria.duration_s)
        return Scenario(state, np.zeros((count, 3)), np.zeros(count), perturbation, labels, path)

    def pipeline(self, robot: Quadrotor) -> Pipeline:
        """Return the observation pipeline, which is the same for every robot."""
        from rlstack.tasks.core.observations import ActionHistory, UpDirection
        from rlstack.tasks.quadrotor import observations
        from rlstack.tasks.quadrotor.pipeline import CanonicalPipeline

        settings = self.observation
        chosen: list[Term] = [
            *observations.path(settings.ahead_s, settings.max_position_error_m, settings.integral_per_s, self.rate_hz),
            UpDirection(),
            observations.PathHeading(),
            *observations.velocities(),
            ActionHistory(4, settings.action_history),
        ]
        return CanonicalPipeline(chosen, "rotor_speed", THRUST_CURVE)

    def actions(self, robot: Quadrotor, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        from rlstack.tasks.quadrotor.pipeline import CanonicalPipeline

        places = (f"{place} in the common frame" for place in CanonicalPipeline.PLACES)
        return tuple((place, "slowest", "fastest", "of the robot's speeds") for place in places)

    def trained_ranges(self, robot: Quadrotor) -> dict[str, tuple[float, float]]:
        """Return the delays that training varies; the ranges of the vehicles are those of :attr:`family`."""
        late = self.vehicles.delay_s
        ranges = {} if late == (0.0, 0.0) else {"command_delay_s": late}
        return {**ranges, "control_rate_hz": (0.5 * self.rate_hz, self.rate_hz)} if self.half_rate_share else ranges

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {
            "tilt_rad": float(np.pi / 2),
            "linear_velocity_m_s": 1.0,
            "angular_velocity_rad_s": 1.0,
            "lost_m": self.lost_m,
            "lost_rad_s": self.lost_rad_s,
            "path_ahead_s": max(self.observation.ahead_s),
        }


def _rest(count: int, duration_s: float) -> Paths:
    """Return paths that stay at the origin."""
    return Paths(np.tile([0.0, duration_s], (count, 1)), np.zeros((count, 2, 3)), np.zeros((count, 2)))


TASK = FoundationTask
