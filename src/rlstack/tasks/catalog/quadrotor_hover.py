"""quadrotor_hover: reach a commanded pose and stay there, by rotor speeds alone.

The task of Learning to Fly in Seconds (Eschmann, Albani, Loianno, arXiv 2311.13081): its start states,
disturbances, noise and episode length. docs/tasks.md lists and explains the differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.schema import value
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.criteria import Criteria
from rlstack.tasks.quadrotor import task as quadrotor
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.task import MOTION, QuadrotorTask, dealt, rotor_pipeline

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Settings of the observation."""

    max_position_error_m: float = value(1.0, unit="m", above=0.0)
    """Bound on the observed distance to the goal; farther goals keep their direction."""
    action_history: int = value(2, at_least=1, at_most=64)
    """Number of observed past actions."""
    disturbance_estimate: bool = False
    """Whether an observer inside the policy estimates the constant force."""
    disturbance_bandwidth_hz: float = value(1.0, unit="Hz", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Reward(quadrotor.Reward):
    """Weights of the reward terms, per second except ``lost``."""

    near: float = value(2.0)
    at_goal: float = value(2.0)
    distance: float = value(-1.0)
    velocity: float = value(-0.05)
    rates: float = value(-0.0075)
    tilt: float = value(-0.2)
    heading: float = value(-0.1)
    action_change: float = value(-0.05)


@dataclass(frozen=True, kw_only=True)
class HoverTask(QuadrotorTask):
    """Reach a commanded pose and stay there, commanding rotor speeds."""

    starts: Starts = field(default_factory=Starts)
    randomisation: Randomisation = field(default_factory=Randomisation)
    observation: Observation = field(default_factory=Observation)
    reward: Reward = field(default_factory=Reward)

    inputs = (*MOTION, "goal_position", "goal_orientation")

    @property
    def criteria(self) -> Criteria:
        """Success of a held-out episode: within 0.2 m of the goal from second 3 to second 8."""
        return Criteria(radius_m=0.2, from_s=3.0, to_s=8.0, lost_m=2.0, duration_s=8.0)

    @property
    def bounds(self) -> Bounds:
        """Pass bounds in the batch simulator."""
        return Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01})

    @property
    def bounds_over_topics(self) -> Bounds:
        """Pass bounds in every backend over topics, looser because fewer episodes run there."""
        return Bounds(
            at_least={"success": 0.93}, at_most={"lost": 0.02, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
        )

    @property
    def max_delay_s(self) -> float:
        """Longest delay of commands that training draws, s."""
        return self.randomisation.delay_s[1]

    def sample(self, rng: np.random.Generator, count: int, robot: Quadrotor, scale: float = 1.0) -> Scenario:
        """Draw training episodes: starts and perturbations as configured, goal at the origin, heading 0."""
        return Scenario(
            state=self.starts.sample(rng, count, robot, scale),
            goal_position=np.zeros((count, 3)),
            goal_yaw=np.zeros(count),
            perturbation=self.randomisation.sample(rng, count, robot),
            labels=np.full(count, "task"),
        )

    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes of the published task, whatever the training settings, or with one more disturbance.

        Args:
            rng: Generator with a seed that training does not use.
            count: Number of episodes.
            robot: The quadrotor.
            disturbances: Cycle through the task's own disturbances, wind gusts, mass and motor
                changes; with False all have the task's own.
        """
        state = Starts().sample(rng, count, robot)
        perturbation, labels = dealt(rng, count, robot, disturbances)
        return Scenario(state, np.zeros((count, 3)), np.zeros(count), perturbation, labels)

    def pipeline(self, robot: Quadrotor) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.core.terms import ActionHistory
        from rlstack.tasks.quadrotor import terms

        settings = self.observation
        chosen: list[terms.Term] = [
            terms.PositionError(settings.max_position_error_m),
            terms.Up(),
            terms.Heading(),
            terms.LinearVelocity(),
            terms.AngularVelocity(),
            terms.RotorSpeedEstimate(robot, self.rate_hz),
            ActionHistory(len(robot.rotors), settings.action_history),
        ]
        if settings.disturbance_estimate:
            chosen.append(terms.DisturbanceEstimate(robot, self.rate_hz, settings.disturbance_bandwidth_hz))
        return rotor_pipeline(chosen, robot)

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {**self.starts.envelope(), "lost_m": self.lost_m, "lost_rad_s": self.lost_rad_s}


TASK = HoverTask
