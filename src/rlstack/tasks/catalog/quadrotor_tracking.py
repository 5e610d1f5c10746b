"""quadrotor_tracking: follow a time-stamped path, by rotor speeds alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.schema import in_order, value
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.quadrotor import rewards, trajectories
from rlstack.tasks.quadrotor import task as quadrotor
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.tasks.quadrotor.task import MOTION, PATH, SingleRobotTask, draw_disturbances, rotor_pipeline

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term

AHEAD_S = 1.0
"""Time by which training paths exceed an episode, so that a policy never looks beyond their end, s."""

HELD_OUT_EVERY = 5
"""Evaluation paths keep one in this many of a training path's poses, a hundred per second, as published paths do: the
policy's graph reads each one."""


@dataclass(frozen=True, kw_only=True)
class Observation(quadrotor.PathObservation):
    """Settings of the observation."""

    action_history: int = value(2, at_least=1, at_most=64)
    """Number of observed past actions."""


@dataclass(frozen=True, kw_only=True)
class Reward(rewards.Reward):
    """Weights of the reward terms, per second except ``lost``."""

    at_goal: float = value(1.0)
    distance: float = value(-1.0)
    squared: float = value(-30.0)
    rates: float = value(-0.002)
    heading: float = value(-0.2)
    action_change: float = value(-0.02)


@dataclass(frozen=True, kw_only=True)
class TrackingTask(SingleRobotTask):
    """Follow a time-stamped path, commanding rotor speeds."""

    episode_s: float = value(6.0, unit="s", above=0.0)
    speed_share: tuple[float, float] = value((0.2, 0.9), above=0.0, at_most=1.0)
    """Range of training paths' top speeds, as a share of the robot's limit; uniform."""
    acceleration_share: tuple[float, float] = value((0.1, 0.7), above=0.0, at_most=1.0)
    """Range of their largest accelerations, as a share of the thrust margin."""
    starts: Starts = field(default_factory=lambda: Starts(settled_share=0.5))
    randomisation: Randomisation = field(default_factory=Randomisation)
    observation: Observation = field(default_factory=Observation)
    reward: Reward = field(default_factory=Reward)

    inputs = (*MOTION, *PATH)
    criteria = SuccessCriteria(radius_m=0.3, from_s=1.0, to_s=5.5, lost_m=2.0, duration_s=5.5)
    """Success of a held-out episode: within 0.3 m of the path's current point from second 1 to the end."""
    bounds = Bounds(at_least={"success": 0.9}, at_most={"lost": 0.01, "rmse_m": 0.15})
    bounds_over_topics = Bounds(
        at_least={"success": 0.88},
        at_most={"lost": 0.02, "rmse_m": 0.15, "intervened": 0.05},
        episodes=ENOUGH_OVER_TOPICS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        in_order(self, "speed_share", "acceleration_share")

    @property
    def path_window(self) -> tuple[int, ...]:
        """Steps ahead of the path points in the training observation."""
        return self.observation.window(self.rate_hz)

    def sample_paths(self, rng: np.random.Generator, count: int, robot: Quadrotor) -> Paths:
        """Draw training paths: figures at full speed, figures and polynomials from rest, and fixed points."""
        duration = self.episode_s + AHEAD_S
        step = 1.0 / self.rate_hz
        samples = round(duration * self.rate_hz)
        third = count // 3
        fitted: Any = {
            "duration_s": duration,
            "step_s": step,
            "speed_share": self.speed_share,
            "acceleration_share": self.acceleration_share,
        }
        drawn = []
        if third:
            drawn.append(trajectories.random_figures(rng, third, duration_s=duration, step_s=step))
            drawn.append(trajectories.random_lissajous(rng, third, robot, **fitted))
        drawn.append(trajectories.random_polynomials(rng, count - 2 * third, robot, **fitted))
        position = np.concatenate([path.position[:, :samples] for path in drawn])
        position[::10] = 0.0  # a point to stay at
        time = np.tile(np.arange(samples) * step, (count, 1))
        return Paths(time, position, np.zeros((count, samples)))

    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes: paths as in training, from hover near their start, with disturbances."""
        fine = TrackingTask().sample_paths(rng, count, robot)
        path = Paths(*(array[:, ::HELD_OUT_EVERY] for array in (fine.time_s, fine.position, fine.yaw)))
        starts = Starts(position_m=0.1, tilt_rad=0.2, linear_velocity_m_s=0.2, angular_velocity_rad_s=0.2)
        state = starts.sample(rng, count, robot)
        perturbation, labels = draw_disturbances(rng, count, robot, disturbances)
        return Scenario(state, path.position[:, 0].copy(), np.zeros(count), perturbation, labels, path)

    def pipeline(self, robot: Quadrotor) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.core.observations import ActionHistory, UpDirection
        from rlstack.tasks.quadrotor import observations

        settings = self.observation
        chosen: list[Term] = [
            *observations.path(settings.ahead_s, settings.max_position_error_m, settings.integral_per_s, self.rate_hz),
            UpDirection(),
            observations.PathHeading(),
            *observations.velocities(),
            observations.RotorSpeedEstimate(robot, self.rate_hz),
            ActionHistory(len(robot.rotors), settings.action_history),
        ]
        return rotor_pipeline(chosen, robot)


TASK = TrackingTask
