"""Base of the quadrotor tasks: inputs, rewards, endings, disturbances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.core.task import Task
from rlstack.tasks.quadrotor.sampling import Randomisation
from rlstack.tasks.quadrotor.scenario import Scenario

if TYPE_CHECKING:
    from torch import Tensor

    from rlstack.tasks.core.card import TaskCard
    from rlstack.tasks.core.pipeline import Pipeline
    from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
    from rlstack.tasks.quadrotor.rewards import QuadrotorTransition
    from rlstack.tasks.quadrotor.terms import Term

MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")
"""Inputs of every quadrotor policy."""

PATH = ("path_time", "path_position", "path_orientation")
"""Further input of a policy that follows a path."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of the input noise (Learning to Fly in Seconds)."""

    position_m: float = value(0.001, unit="m", at_least=0.0)
    orientation_rad: float = value(0.001, unit="rad", at_least=0.0)
    linear_velocity_m_s: float = value(0.002, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.002, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class Reward:
    """Weights of the reward terms, per second except ``lost``. Each task sets its own."""

    near: float = value(0.0)
    """exp(-4 d) of the distance d in m to the goal, or to the path's current point."""
    at_goal: float = value(0.0)
    """exp(-25 d)."""
    distance: float = value(0.0)
    """Distance in m: has a slope far away, where the exponentials are flat."""
    squared: float = value(0.0)
    """Squared distance in m^2, as in a root mean square error."""
    velocity: float = value(0.0)
    """Speed in m/s, relative to the path's."""
    rates: float = value(0.0)
    """Squared body rates in rad^2/s^2: with motor lag, a fast attitude loop oscillates."""
    tilt: float = value(0.0)
    """1 - cos of the tilt."""
    heading: float = value(0.0)
    """1 - cos of the heading error."""
    action_change: float = value(0.0)
    """Squared change of the action."""
    lost: float = value(-2.0)
    """Once, when the robot is lost."""


@dataclass(frozen=True, kw_only=True)
class Curriculum:
    """Difficulty of the task over the training steps."""

    start_scale: float = value(1.0, above=0.0, at_most=1.0)
    """Scale of the start distribution at step 0; it reaches 1 at ``full_after``."""
    full_after: float = value(0.3, at_least=0.0, at_most=1.0)
    """Share of the training steps after which the task has its full difficulty."""

    def progress(self, done: float) -> float:
        """Return 0..1 for the share ``done`` of the training steps."""
        return 1.0 if self.full_after == 0.0 else min(done / self.full_after, 1.0)


@dataclass(frozen=True, kw_only=True)
class QuadrotorTask(Task, ABC):
    """A task for quadrotors that command rotor speeds.

    A subclass defines ``inputs``, ``criteria``, ``bounds``, ``bounds_over_topics``, ``sample``, ``held_out``,
    ``pipeline`` and ``envelope``, and narrows ``reward`` to its own weights.
    """

    rate_hz: float = value(100.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(5.0, unit="s", above=0.0)
    lost_m: float = value(3.0, unit="m", above=0.0)
    """A robot is lost when it is farther than this from its reference on any axis."""
    lost_rad_s: float = value(20.0, unit="rad/s", above=0.0)
    """A robot is lost when it rotates faster than this about any axis."""
    noise: Noise = field(default_factory=Noise)
    curriculum: Curriculum = field(default_factory=Curriculum)
    reward: Reward = field(default_factory=Reward)

    kind = "quadrotor"
    outputs = ("rotor_speed",)
    verification = "quadrotor"
    differentiable = True

    @property
    def max_delay_s(self) -> float:
        """Longest delay of commands that training draws, s."""
        return 0.0

    @property
    def path_window(self) -> tuple[int, ...]:
        """Steps ahead of the path points in the training observation; empty without a path."""
        return ()

    @property
    def family(self) -> dict[str, tuple[float, float]]:
        """Ranges of the vehicles' parameters, for a policy of more than one robot."""
        return {}

    def reference(self, robot: RobotSpec) -> Quadrotor:
        """Return the robot to train on: ``robot`` itself.

        Raises:
            UserError: It is a robot of another kind.
        """
        checked: Quadrotor = super().reference(robot)
        return checked

    @abstractmethod
    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw held-out evaluation episodes."""

    def environment(
        self, robot: Quadrotor, pipeline: Pipeline, count: int, device: str, seed: int
    ) -> QuadrotorEnvironment:
        """Return N copies of the task for training."""
        from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment

        return QuadrotorEnvironment(self, robot, pipeline, count, device=device, seed=seed)

    def card(self, robot: Quadrotor, pipeline: Pipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.quadrotor.card import quadrotor_card

        return quadrotor_card(self, robot, pipeline)

    def validation(self, rng: np.random.Generator, count: int, robot: Quadrotor) -> Scenario:
        """Draw the validation episodes that select the best policy of a run."""
        return self.held_out(rng, count, robot, disturbances=False)

    def reward_terms(self) -> Mapping[str, tuple[float, Callable[[QuadrotorTransition], Tensor]]]:
        """Return ``{name: (weight, term)}`` of the terms with a weight; each term maps a transition to (N,)."""
        terms: dict[str, Callable[[QuadrotorTransition], Tensor]] = {
            "near": lambda s: (-4.0 * s.distance).exp(),
            "at_goal": lambda s: (-25.0 * s.distance).exp(),
            "distance": lambda s: s.distance,
            "squared": lambda s: s.position.square().sum(dim=-1),
            "velocity": lambda s: s.speed,
            "rates": lambda s: s.angular_velocity.square().sum(dim=-1),
            "tilt": lambda s: 1.0 - s.up_z,
            "heading": lambda s: 1.0 - s.heading_cos,
            "action_change": lambda s: (s.action - s.last_action).square().sum(dim=-1),
        }
        weights = {name: getattr(self.reward, name) for name in terms}
        return {name: (weight, terms[name]) for name, weight in weights.items() if weight != 0.0}

    def lost(self, view: QuadrotorTransition) -> Tensor:
        """Return (N,) bool: robots that left the region, spin too fast, or have a state that is not finite."""
        near = (view.position.abs() <= self.lost_m).all(dim=-1)
        return ~(near & (view.angular_velocity.abs() <= self.lost_rad_s).all(dim=-1))


def check_ahead(ahead_s: tuple[float, ...]) -> None:
    """Raise ``ValueError`` if a path-following policy has no look-ahead points."""
    if not ahead_s:
        raise ValueError("ahead_s: [] is not allowed: must be at least one time, such as [0.1].")


def path_steps(ahead_s: tuple[float, ...], rate_hz: float) -> tuple[int, ...]:
    """Return the steps ahead of a path's present point and of its points ``ahead_s`` s ahead."""
    return (0, *(max(1, round(t * rate_hz)) for t in ahead_s))


def rotor_pipeline(terms: list[Term], robot: Quadrotor) -> Pipeline:
    """Return the pipeline of a policy that commands one robot's rotors over their range of speeds."""
    from rlstack.tasks.core.pipeline import Pipeline

    model, rotors = robot.rotor_model, len(robot.rotors)
    return Pipeline(terms, "rotor_speed", [model.speed_min_rad_s] * rotors, [model.speed_max_rad_s] * rotors)


def dealt(
    rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool
) -> tuple[Perturbation, NDArray[np.str_]]:
    """Draw the disturbances of held-out episodes, and their labels.

    Args:
        rng: Generator with a seed that training does not use.
        count: Number of episodes.
        robot: The quadrotor.
        disturbances: Cycle through :data:`DISTURBANCES`; with False all episodes have the task's own.
    """
    kinds = DISTURBANCES if disturbances else {"task": Randomisation()}
    labels = np.array([list(kinds)[i % len(kinds)] for i in range(count)])
    fields = dict(vars(Perturbation.none(count, len(robot.rotors))))
    for kind, randomisation in kinds.items():
        drawn, mine = vars(randomisation.sample(rng, count, robot)), labels == kind
        fields = {n: np.where(mine.reshape(-1, *[1] * (a.ndim - 1)), drawn[n], a) for n, a in fields.items()}
    return Perturbation(**fields), labels


DISTURBANCES = {
    "task": Randomisation(),
    "wind gusts": Randomisation(gust_sigma=0.05, gust_start_s=(1.0, 6.0), gust_duration_s=(0.3, 1.0)),
    "mass +-10%": Randomisation(mass=(0.9, 1.1), inertia=(0.9, 1.1)),
    "motors +-5%, lag +-20%": Randomisation(thrust=(0.95, 1.05), time_constant=(0.8, 1.2)),
}
"""Disturbances of held-out episodes, by their label in the report."""
