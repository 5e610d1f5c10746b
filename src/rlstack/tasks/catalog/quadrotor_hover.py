"""quadrotor_hover: reach a commanded pose and stay there, by rotor speeds alone.

The task of Learning to Fly in Seconds (Eschmann, Albani, Loianno, arXiv 2311.13081): its start states,
disturbances, noise and episode length. What differs, and why, is in docs/tasks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.criteria import ENOUGH_OVER_TOPICS, Criteria, Thresholds
from rlstack.tasks.sampling import Randomisation, Starts
from rlstack.tasks.scenario import Scenario

if TYPE_CHECKING:
    from torch import Tensor

    from rlstack.tasks.pipeline import Pipeline
    from rlstack.tasks.view import View


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of what the policy senses (Learning to Fly in Seconds)."""

    position_m: float = value(0.001, unit="m", at_least=0.0)
    orientation_rad: float = value(0.001, unit="rad", at_least=0.0)
    linear_velocity_m_s: float = value(0.002, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.002, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the policy makes of its inputs."""

    max_position_error_m: float = value(1.0, unit="m", above=0.0)
    """A goal farther away than this is approached as if it were this far, in its direction."""
    action_history: int = value(2, at_least=1, at_most=64)
    """How many past actions are observed."""
    disturbance_estimate: bool = False
    """Whether an observer inside the policy estimates the constant force."""
    disturbance_bandwidth_hz: float = value(1.0, unit="Hz", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Reward:
    """Weights of the reward terms; all but ``lost`` are rates a second."""

    near: float = value(2.0)
    """exp(-4 d) of the distance d to the goal in m."""
    at_goal: float = value(2.0)
    """exp(-25 d)."""
    distance: float = value(-1.0)
    """Distance in m: what still pulls from afar, where the exponentials are flat."""
    velocity: float = value(-0.05)
    """Speed in m/s."""
    rates: float = value(-0.0075)
    """Squared body rates in rad^2/s^2: the motor lag turns a hasty attitude loop into an oscillation."""
    tilt: float = value(-0.2)
    """1 - cos of the tilt."""
    heading: float = value(-0.1)
    """1 - cos of the heading error."""
    action_change: float = value(-0.05)
    """Squared change of the action."""
    lost: float = value(-2.0)
    """Once, when the episode ends as lost."""


@dataclass(frozen=True, kw_only=True)
class Curriculum:
    """How the task gets harder over the training steps."""

    start_scale: float = value(1.0, above=0.0, at_most=1.0)
    """Scale of the start distribution at step 0; it reaches 1 at ``full_after``."""
    full_after: float = value(0.3, at_least=0.0, at_most=1.0)
    """Share of the training steps after which the task is as hard as it gets."""

    def progress(self, done: float) -> float:
        """Return 0..1 for the share ``done`` of the training steps."""
        return 1.0 if self.full_after == 0.0 else min(done / self.full_after, 1.0)


@dataclass(frozen=True, kw_only=True)
class HoverTask:
    """Reach a commanded pose and stay there, commanding rotor speeds."""

    rate_hz: float = value(100.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(5.0, unit="s", above=0.0)
    lost_m: float = value(3.0, unit="m", above=0.0)
    """An episode ends as lost when the robot is farther than this from the goal on any axis."""
    lost_rad_s: float = value(20.0, unit="rad/s", above=0.0)
    """It also ends as lost when the robot turns faster than this about any axis."""
    starts: Starts = field(default_factory=Starts)
    randomisation: Randomisation = field(default_factory=Randomisation)
    noise: Noise = field(default_factory=Noise)
    observation: Observation = field(default_factory=Observation)
    reward: Reward = field(default_factory=Reward)
    curriculum: Curriculum = field(default_factory=Curriculum)

    inputs = ("position", "orientation", "linear_velocity", "angular_velocity", "goal_position", "goal_orientation")
    outputs = ("rotor_speed",)

    @property
    def criteria(self) -> Criteria:
        """When a held-out episode succeeds: within 0.2 m of the goal from second 3 to second 8."""
        return Criteria(radius_m=0.2, from_s=3.0, to_s=8.0, lost_m=2.0, duration_s=8.0)

    @property
    def thresholds(self) -> Thresholds:
        """What a policy must reach in the batch simulator."""
        return Thresholds(success=0.95, lost=0.01)

    @property
    def thresholds_over_topics(self) -> Thresholds:
        """What it must reach in every backend over topics; fewer episodes are flown there, so one more may fail."""
        return Thresholds(success=0.93, lost=0.02, intervened=0.05, episodes=ENOUGH_OVER_TOPICS)

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
        """Draw training episodes: starts and perturbations as configured, goal at the origin, heading 0."""
        return Scenario(
            state=self.starts.sample(rng, count, robot, scale),
            goal_position=np.zeros((count, 3)),
            goal_yaw=np.zeros(count),
            perturbation=self.randomisation.sample(rng, count, robot),
            labels=np.full(count, "task"),
        )

    def held_out(self, rng: np.random.Generator, count: int, robot: RobotSpec, disturbances: bool = True) -> Scenario:
        """Draw evaluation episodes of the published task, whatever was trained on, or of it with one more disturbance.

        Args:
            rng: Seeded apart from training.
            count: How many.
            robot: What flies.
            disturbances: Deal the episodes out over the task's own disturbances, wind gusts, mass and motor
                changes; with False all have the task's own.
        """
        kinds = DISTURBANCES if disturbances else {"task": Randomisation()}
        labels = np.array([list(kinds)[i % len(kinds)] for i in range(count)])
        return Scenario(
            state=Starts().sample(rng, count, robot),
            goal_position=np.zeros((count, 3)),
            goal_yaw=np.zeros(count),
            perturbation=mixed(rng, labels, kinds, robot),
            labels=labels,
        )

    def pipeline(self, robot: RobotSpec) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks import terms
        from rlstack.tasks.pipeline import Pipeline

        settings, rotors = self.observation, len(robot.rotors)
        chosen: list[terms.Term] = [
            terms.PositionError(settings.max_position_error_m),
            terms.Up(),
            terms.Heading(),
            terms.LinearVelocity(),
            terms.AngularVelocity(),
            terms.RotorSpeedEstimate(robot, self.rate_hz),
            terms.ActionHistory(rotors, settings.action_history),
        ]
        if settings.disturbance_estimate:
            chosen.append(terms.DisturbanceEstimate(robot, self.rate_hz, settings.disturbance_bandwidth_hz))
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
        }

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[View], Tensor]]]:
        """Return ``{name: (weight, term)}``; each term maps a View to (N,) values."""
        r = self.reward
        return {
            "near": (r.near, lambda s: (-4.0 * s.distance).exp()),
            "at_goal": (r.at_goal, lambda s: (-25.0 * s.distance).exp()),
            "distance": (r.distance, lambda s: s.distance),
            "velocity": (r.velocity, lambda s: s.speed),
            "rates": (r.rates, lambda s: s.angular_velocity.square().sum(dim=-1)),
            "tilt": (r.tilt, lambda s: 1.0 - s.up_z),
            "heading": (r.heading, lambda s: 1.0 - s.heading_cos),
            "action_change": (r.action_change, lambda s: (s.action - s.last_action).square().sum(dim=-1)),
        }

    def lost(self, view: View) -> Tensor:
        """Return (N,) bool: who has left the region or spins too fast; not finite counts as well."""
        near = (view.position.abs() <= self.lost_m).all(dim=-1)
        return ~(near & (view.angular_velocity.abs() <= self.lost_rad_s).all(dim=-1))


def mixed(
    rng: np.random.Generator, labels: NDArray[np.str_], kinds: Mapping[str, Randomisation], robot: RobotSpec
) -> Perturbation:
    """Draw for each label a perturbation of the kind of that name."""
    fields = dict(vars(Perturbation.none(len(labels), len(robot.rotors))))
    for kind, randomisation in kinds.items():
        drawn, mine = vars(randomisation.sample(rng, len(labels), robot)), labels == kind
        fields = {n: np.where(mine.reshape(-1, *[1] * (a.ndim - 1)), drawn[n], a) for n, a in fields.items()}
    return Perturbation(**fields)


DISTURBANCES = {
    "task": Randomisation(),
    "wind gusts": Randomisation(gust_sigma=0.05, gust_start_s=(1.0, 6.0), gust_duration_s=(0.3, 1.0)),
    "mass +-10%": Randomisation(mass=(0.9, 1.1), inertia=(0.9, 1.1)),
    "motors +-5%, lag +-20%": Randomisation(thrust=(0.95, 1.05), time_constant=(0.8, 1.2)),
}
"""What held-out episodes are flown under, by the label that the report shows."""

TASK = HoverTask
