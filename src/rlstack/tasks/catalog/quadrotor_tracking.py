"""quadrotor_tracking: follow a time-stamped path, by rotor speeds alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.tasks import figures
from rlstack.tasks.catalog.quadrotor_hover import DISTURBANCES, Curriculum, Noise, mixed
from rlstack.tasks.criteria import ENOUGH_OVER_TOPICS, Criteria, Thresholds
from rlstack.tasks.paths import Paths
from rlstack.tasks.sampling import Randomisation, Starts
from rlstack.tasks.scenario import Scenario

if TYPE_CHECKING:
    from torch import Tensor

    from rlstack.tasks.pipeline import Pipeline
    from rlstack.tasks.view import View

AHEAD_S = 1.0
"""How much longer than an episode training paths go on, so that a policy never looks beyond their end, s."""

HELD_OUT_EVERY = 5
"""Of a training path's poses, a hundred a second, evaluation paths keep one in this many, as paths that are sent
do; the policy's graph looks at each one."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the policy makes of its inputs."""

    max_position_error_m: float = value(1.0, unit="m", above=0.0)
    """A path farther away than this is approached as if it were this far, in its direction."""
    ahead_s: tuple[float, ...] = value((0.05, 0.1, 0.2, 0.3, 0.45, 0.6), unit="s", above=0.0)
    """Where the path is looked at ahead of the present."""
    action_history: int = value(2, at_least=1, at_most=64)
    """How many past actions are observed."""


@dataclass(frozen=True, kw_only=True)
class Reward:
    """Weights of the reward terms; all but ``lost`` are rates a second."""

    at_path: float = value(1.0)
    """exp(-25 d) of the distance d to the path's present point in m."""
    distance: float = value(-1.0)
    """Distance in m."""
    squared: float = value(-30.0)
    """Squared distance in m^2: what the root mean square error counts."""
    rates: float = value(-0.002)
    """Squared body rates in rad^2/s^2."""
    heading: float = value(-0.2)
    """1 - cos of the heading error."""
    action_change: float = value(-0.02)
    """Squared change of the action."""
    lost: float = value(-2.0)
    """Once, when the episode ends as lost."""


@dataclass(frozen=True, kw_only=True)
class TrackingTask:
    """Follow a time-stamped path, commanding rotor speeds."""

    rate_hz: float = value(100.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(6.0, unit="s", above=0.0)
    lost_m: float = value(3.0, unit="m", above=0.0)
    """An episode ends as lost when the robot is farther than this from the path's present point on any axis."""
    lost_rad_s: float = value(20.0, unit="rad/s", above=0.0)
    """It also ends as lost when the robot turns faster than this about any axis."""
    speed_share: tuple[float, float] = value((0.2, 0.9), above=0.0, at_most=1.0)
    """Shares of the robot's greatest speed that training paths reach, uniform in this range."""
    acceleration_share: tuple[float, float] = value((0.1, 0.7), above=0.0, at_most=1.0)
    """The same of the acceleration that its thrust can spare."""
    starts: Starts = field(default_factory=lambda: Starts(settled_share=0.5))
    randomisation: Randomisation = field(default_factory=Randomisation)
    noise: Noise = field(default_factory=Noise)
    observation: Observation = field(default_factory=Observation)
    reward: Reward = field(default_factory=Reward)
    curriculum: Curriculum = field(default_factory=Curriculum)

    inputs = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "path_time",
        "path_position",
        "path_orientation",
    )
    outputs = ("rotor_speed",)

    @property
    def criteria(self) -> Criteria:
        """When a held-out episode succeeds: within 0.3 m of where the path is from second 1 to its end."""
        return Criteria(radius_m=0.3, from_s=1.0, to_s=5.5, lost_m=2.0, duration_s=5.5)

    @property
    def thresholds(self) -> Thresholds:
        """What a policy must reach in the batch simulator."""
        return Thresholds(success=0.9, lost=0.01, rmse_m=0.15)

    @property
    def thresholds_over_topics(self) -> Thresholds:
        """What it must reach in every backend over topics."""
        return Thresholds(success=0.88, lost=0.02, rmse_m=0.15, intervened=0.05, episodes=ENOUGH_OVER_TOPICS)

    @property
    def path_window(self) -> tuple[int, ...]:
        """Steps ahead of the points that a policy is shown in training: those that it looks at."""
        return (0, *(max(1, round(t * self.rate_hz)) for t in self.observation.ahead_s))

    @property
    def max_delay_s(self) -> float:
        """Longest delay of commands that training draws, s."""
        return self.randomisation.delay_s[1]

    def reference(self, robot: RobotSpec) -> RobotSpec:
        """Return the robot that training flies: the robot itself."""
        return robot

    def validation(self, rng: np.random.Generator, count: int, robot: RobotSpec) -> Scenario:
        """Draw what the best policy of a run is chosen by."""
        return self.held_out(rng, count, robot, disturbances=False)

    def sample(self, rng: np.random.Generator, count: int, robot: RobotSpec, scale: float = 1.0) -> Scenario:
        """Draw training episodes without their paths, which all start at the origin."""
        return Scenario(
            state=self.starts.sample(rng, count, robot, scale),
            goal_position=np.zeros((count, 3)),
            goal_yaw=np.zeros(count),
            perturbation=self.randomisation.sample(rng, count, robot),
            labels=np.full(count, "task"),
        )

    def sample_paths(self, rng: np.random.Generator, count: int, robot: RobotSpec) -> Paths:
        """Draw training paths: figures due at full speed at once, others and polynomials from rest, and places."""
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
        drawn = [
            figures.random_figures(rng, third, duration_s=duration, step_s=step),
            figures.random_lissajous(rng, third, robot, **fitted),
            figures.random_polynomials(rng, count - 2 * third, robot, **fitted),
        ]
        position = np.concatenate([path.position[:, :samples] for path in drawn])
        position[::10] = 0.0  # a point to stay at
        time = np.tile(np.arange(samples) * step, (count, 1))
        return Paths(time, position, np.zeros((count, samples)))

    def held_out(self, rng: np.random.Generator, count: int, robot: RobotSpec, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes: paths as in training, from hover near their start, under what may disturb.

        Args:
            rng: Seeded apart from training.
            count: How many.
            robot: What flies.
            disturbances: Deal the episodes out over the task's own disturbances, wind gusts, mass and motor
                changes; with False all have the task's own.
        """
        kinds = DISTURBANCES if disturbances else {"task": Randomisation()}
        labels = np.array([list(kinds)[i % len(kinds)] for i in range(count)])
        fine = TrackingTask().sample_paths(rng, count, robot)
        path = Paths(*(array[:, ::HELD_OUT_EVERY] for array in (fine.time_s, fine.position, fine.yaw)))
        return Scenario(
            state=Starts(position_m=0.1, tilt_rad=0.2, linear_velocity_m_s=0.2, angular_velocity_rad_s=0.2).sample(
                rng, count, robot
            ),
            goal_position=path.position[:, 0].copy(),
            goal_yaw=np.zeros(count),
            perturbation=mixed(rng, labels, kinds, robot),
            labels=labels,
            path=path,
        )

    def pipeline(self, robot: RobotSpec) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks import terms
        from rlstack.tasks.pipeline import Pipeline

        settings, rotors = self.observation, len(robot.rotors)
        chosen: list[terms.Term] = [
            terms.PathError(settings.max_position_error_m),
            terms.PathAhead(settings.ahead_s),
            terms.Up(),
            terms.PathHeading(),
            terms.LinearVelocity(),
            terms.AngularVelocity(),
            terms.RotorSpeedEstimate(robot, self.rate_hz),
            terms.ActionHistory(rotors, settings.action_history),
        ]
        model = robot.rotor_model
        return Pipeline(chosen, "rotor_speed", [model.speed_min_rad_s] * rotors, [model.speed_max_rad_s] * rotors)

    def envelope(self) -> dict[str, float]:
        """Return what the policy was trained for, SI units in the keys."""
        s = self.starts
        return {
            "position_error_m": s.position_m,
            "tilt_rad": s.tilt_rad,
            "linear_velocity_m_s": s.linear_velocity_m_s,
            "angular_velocity_rad_s": s.angular_velocity_rad_s,
            "lost_m": self.lost_m,
            "lost_rad_s": self.lost_rad_s,
            "path_ahead_s": max(self.observation.ahead_s),
        }

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[View], Tensor]]]:
        """Return ``{name: (weight, term)}``; each term maps a View to (N,) values."""
        r = self.reward
        return {
            "at_path": (r.at_path, lambda s: (-25.0 * s.distance).exp()),
            "distance": (r.distance, lambda s: s.distance),
            "squared": (r.squared, lambda s: s.position.square().sum(dim=-1)),
            "rates": (r.rates, lambda s: s.angular_velocity.square().sum(dim=-1)),
            "heading": (r.heading, lambda s: 1.0 - s.heading_cos),
            "action_change": (r.action_change, lambda s: (s.action - s.last_action).square().sum(dim=-1)),
        }

    def lost(self, view: View) -> Tensor:
        """Return (N,) bool: who has left the path or spins too fast; not finite counts as well."""
        near = (view.position.abs() <= self.lost_m).all(dim=-1)
        return ~(near & (view.angular_velocity.abs() <= self.lost_rad_s).all(dim=-1))


TASK = TrackingTask
