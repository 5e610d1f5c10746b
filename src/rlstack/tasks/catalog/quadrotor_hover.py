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
from rlstack.tasks.quadrotor import rewards
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.tasks.quadrotor.task import MOTION, SingleRobotTask, draw_disturbances, rotor_pipeline

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Settings of the observation."""

    max_position_error_m: float = value(1.0, unit="m", above=0.0)
    """Bound on the observed distance to the goal; farther goals keep their direction."""
    action_history: int = value(2, at_least=1, at_most=64)
    """Number of observed past actions."""
    disturbance_estimate: bool = False
    """Whether an observer inside the policy estimates the constant force."""
    torque_estimate: bool = False
    """Whether another one estimates the constant torque."""
    disturbance_bandwidth_hz: float = value(1.0, unit="Hz", above=0.0)
    """Bandwidth of both."""
    integral_per_s: float = value(0.0, unit="1/s", at_least=0.0)
    """Share of the position error, near the goal, that is added to the observed one each second."""
    position_error_change_m_s: float = value(0.0, unit="m/s", at_least=0.0)
    """Greatest change of the bounded position error with its integral; 0 for no limit."""
    heading_integral_per_s: float = value(0.0, unit="1/s", at_least=0.0)
    """The same of the heading error."""


@dataclass(frozen=True, kw_only=True)
class Reward(rewards.Reward):
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
class HoverTask(SingleRobotTask):
    """Reach a commanded pose and stay there, commanding rotor speeds."""

    starts: Starts = field(default_factory=Starts)
    randomisation: Randomisation = field(default_factory=Randomisation)
    observation: Observation = field(default_factory=Observation)
    reward: Reward = field(default_factory=Reward)

    inputs = (*MOTION, "goal_position", "goal_orientation")
    criteria = SuccessCriteria(radius_m=0.2, from_s=3.0, to_s=8.0, lost_m=2.0, duration_s=8.0)
    """Success of a held-out episode: within 0.2 m of the goal from second 3 to second 8."""
    bounds = Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01})
    bounds_over_topics = Bounds(
        at_least={"success": 0.93}, at_most={"lost": 0.02, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )

    bounds_calm = Bounds(
        at_most={
            "heading_error_rad": 0.0175,
            "oscillation_share": 0.03,
            "speed_limit_share": 0.9,
            "tilt_limit_share": 0.9,
            "rate_limit_share": 0.9,
        },
        episodes=20,
    )
    """Of flights without noise and disturbances: 1 degree, 3% of a rotor's range, and 90% of the guard's limits."""

    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes of the published task, whatever the training settings."""
        state = Starts().sample(rng, count, robot)
        perturbation, labels = draw_disturbances(rng, count, robot, disturbances)
        return Scenario(state, np.zeros((count, 3)), np.zeros(count), perturbation, labels)

    def pipeline(self, robot: Quadrotor) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.core.observations import ActionHistory, UpDirection
        from rlstack.tasks.quadrotor import observations

        settings, rate = self.observation, self.rate_hz
        bound_m, share, turned = settings.max_position_error_m, settings.integral_per_s, settings.heading_integral_per_s
        change = settings.position_error_change_m_s
        error = (
            observations.IntegratedPositionError(bound_m, share, rate, change)
            if share or change
            else observations.PositionError(bound_m)
        )
        heading = observations.IntegratedHeading(turned, rate) if turned else observations.Heading()
        chosen: list[Term] = [
            error,
            UpDirection(),
            heading,
            *observations.velocities(),
            observations.RotorSpeedEstimate(robot, self.rate_hz),
            ActionHistory(len(robot.rotors), settings.action_history),
        ]
        if settings.disturbance_estimate:
            chosen.append(observations.DisturbanceEstimate(robot, self.rate_hz, settings.disturbance_bandwidth_hz))
        if settings.torque_estimate:
            chosen.append(observations.TorqueEstimate(robot, self.rate_hz, settings.disturbance_bandwidth_hz))
        return rotor_pipeline(chosen, robot)


TASK = HoverTask
