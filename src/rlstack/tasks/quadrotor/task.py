"""Base of the quadrotor tasks: inputs, rewards, endings, disturbances."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.schema import value
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.quadrotor.rewards import TERMS, QuadrotorTransition, Reward, RewardTerm
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria

if TYPE_CHECKING:
    from torch import Tensor

    from rlstack.tasks.core.pipeline import Pipeline
    from rlstack.tasks.core.task_card import Row, TaskCard
    from rlstack.tasks.quadrotor.observations import Term

MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")
"""Inputs of every quadrotor policy."""

PATH = ("path_time", "path_position", "path_orientation")
"""Further input of a policy that follows a path."""


LAYOUT = ("rotor_position", "rotor_yaw_sign", "rotor_speed_min", "rotor_speed_max", "rotor_thrust_coefficients")
"""Further input of a policy for a family of quadrotors, from the robot file."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of the input noise (Learning to Fly in Seconds)."""

    position_m: float = value(0.001, unit="m", at_least=0.0)
    orientation_rad: float = value(0.001, unit="rad", at_least=0.0)
    linear_velocity_m_s: float = value(0.002, unit="m/s", at_least=0.0)
    angular_velocity_rad_s: float = value(0.002, unit="rad/s", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class PathObservation:
    """Settings of the observation of a path."""

    max_position_error_m: float = value(1.0, unit="m", above=0.0)
    """Bound on the observed distance to the path; farther paths keep their direction."""
    ahead_s: tuple[float, ...] = value((0.05, 0.1, 0.2, 0.3, 0.45, 0.6), unit="s", above=0.0)
    """Times ahead of the observed path points."""
    integral_per_s: float = value(0.0, unit="1/s", at_least=0.0)
    """Share of the position error, near the path, that is added to the observed one each second."""

    def __post_init__(self) -> None:
        if not self.ahead_s:
            raise ValueError("ahead_s: [] is not allowed: must be at least one time, such as [0.1].")

    def window(self, rate_hz: float) -> tuple[int, ...]:
        """Return the steps ahead of a path's present point and of its points ``ahead_s`` s ahead."""
        return (0, *(max(1, round(t * rate_hz)) for t in self.ahead_s))


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
    """A task for quadrotors that command rotor speeds, or rates and thrust.

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
    residual: str = ""
    """File of `rlstack identify --residual`: training's simulator adds its forces; empty: physics alone."""
    noise: Noise = field(default_factory=Noise)
    curriculum: Curriculum = field(default_factory=Curriculum)
    reward: Reward = field(default_factory=Reward)

    kind = "quadrotor"
    environment_class = "rlstack.tasks.quadrotor.environment:QuadrotorEnvironment"
    criteria: ClassVar[SuccessCriteria]
    """Success and failure of a held-out episode."""
    bounds: ClassVar[Bounds]
    """Pass bounds in the batch simulator."""
    bounds_over_topics: ClassVar[Bounds]
    """Pass bounds in every backend over topics."""
    outputs = ("rotor_speed",)
    verification = "quadrotor"
    differentiable = True

    def __post_init__(self) -> None:
        if self.residual:  # a run that is resumed elsewhere must find it
            object.__setattr__(self, "residual", str(Path(self.residual).expanduser().absolute()))

    @property
    def max_delay_s(self) -> float:
        """Longest delay of commands that training draws, s."""
        return 0.0

    @property
    def half_rate_share(self) -> float:
        """Share of training episodes in which the policy is called in every second control period."""
        return 0.0

    @property
    def path_window(self) -> tuple[int, ...]:
        """Steps ahead of the path points in the training observation; empty without a path."""
        return ()

    @property
    def family(self) -> dict[str, tuple[float, float]]:
        """Ranges of the vehicles' parameters, for a policy of more than one robot."""
        return {}

    @abstractmethod
    def held_out(self, rng: np.random.Generator, count: int, robot: Quadrotor, disturbances: bool = True) -> Scenario:
        """Draw held-out evaluation episodes.

        Args:
            rng: Generator with a seed that training does not use.
            count: Number of episodes.
            robot: The quadrotor.
            disturbances: Cycle through the task's own disturbances, wind gusts, mass and motor changes; with False all
                have the task's own.
        """

    def card(self, robot: Quadrotor, pipeline: Pipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.core.task_card import TaskCard, bound_rows, episode_length, reward_rows, timed_out
        from rlstack.tasks.quadrotor.privileged import privileged_terms

        criteria = self.criteria
        limits = [field for field in dataclasses.fields(self) if field.name.startswith("lost_")]
        beyond = [f"beyond {f.name} = {getattr(self, f.name):g} {f.metadata['unit']}" for f in limits]
        return TaskCard(
            length=episode_length(self),
            critic=privileged_terms(self, robot).terms(robot, bool(self.path_window)),
            actions=self.actions(robot, pipeline),
            rewards=reward_rows(self.reward_terms(), self.reward.lost),
            endings=(("lost", ", ".join([*beyond, "or not finite"])), timed_out(self)),
            episode="flight",
            criteria=(
                (
                    "succeeds",
                    f"never farther than {criteria.radius_m:g} m from {criteria.from_s:g} s to {criteria.to_s:g} s"
                    f" of {criteria.duration_s:g} s",
                ),
                ("lost", f"ever farther than {criteria.lost_m:g} m"),
            ),
            bounded_columns=("batch simulator", "over topics"),
            bounds=bound_rows((self.bounds, self.bounds_over_topics)),
        )

    def actions(self, robot: Quadrotor, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        limits = zip(robot.rotor_names, pipeline.minimum.tolist(), pipeline.maximum.tolist())
        return tuple((rotor, f"{low:g}", f"{high:g}", "rad/s") for rotor, low, high in limits)

    def validation(self, rng: np.random.Generator, count: int, robot: Quadrotor) -> Scenario:
        """Draw the validation episodes that select the best policy of a run."""
        return self.held_out(rng, count, robot, disturbances=False)

    def reward_terms(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the terms with a weight; each term maps a transition to (N,)."""
        return self.weighted(TERMS)

    def input_noise(self, robot: Quadrotor) -> dict[str, float]:
        """Return the standard deviation of training's noise by input."""
        noise = self.noise
        return {
            "position": noise.position_m,
            "orientation": noise.orientation_rad,
            "linear_velocity": noise.linear_velocity_m_s,
            "angular_velocity": noise.angular_velocity_rad_s,
        }

    def lost(self, view: QuadrotorTransition) -> Tensor:
        """Return (N,) bool: robots that left the region, spin too fast, or have a state that is not finite."""
        near = (view.position.abs() <= self.lost_m).all(dim=-1)
        return ~(near & (view.angular_velocity.abs() <= self.lost_rad_s).all(dim=-1))


class SingleRobotTask(QuadrotorTask, ABC):
    """A task for one robot; a subclass has the fields ``starts`` and ``randomisation``."""

    starts: Starts
    randomisation: Randomisation

    @property
    def max_delay_s(self) -> float:
        """Longest delay of commands that training draws, s."""
        return self.randomisation.delay_s[1]

    @property
    def half_rate_share(self) -> float:
        """Share of training episodes in which the policy is called in every second control period."""
        return self.randomisation.half_rate_share

    def sample(self, rng: np.random.Generator, count: int, robot: Quadrotor, scale: float = 1.0) -> Scenario:
        """Draw training episodes without their paths, which start at the origin: goal at the origin, heading 0."""
        return Scenario(
            state=self.starts.sample(rng, count, robot, scale),
            goal_position=np.zeros((count, 3)),
            goal_yaw=np.zeros(count),
            perturbation=self.randomisation.sample(rng, count, robot),
            labels=np.full(count, "task"),
        )

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {**self.starts.envelope(), "lost_m": self.lost_m, "lost_rad_s": self.lost_rad_s}

    def trained_ranges(self, robot: Quadrotor) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of each quantity that training varies."""
        ranges = self.randomisation.ranges()
        if "command_delay_s" in ranges:  # the loop sees the sum of both only
            ranges["observation_delay_s"] = ranges["command_delay_s"]
        if self.half_rate_share:
            ranges["control_rate_hz"] = (0.5 * self.rate_hz, self.rate_hz)
        return ranges


def rotor_pipeline(terms: list[Term], robot: Quadrotor) -> Pipeline:
    """Return the pipeline of a policy that commands one robot's rotors over their range of speeds.

    Raises:
        UserError: The robot takes rates and thrust.
    """
    from rlstack.tasks.core.pipeline import Pipeline

    if robot.rate_loop is not None:
        raise UserError(
            f"The task commands rotor speeds, and {robot.name} takes rates and thrust: choose a robot whose file has no"
            " rate_loop, or the task quadrotor_rates."
        )
    model, rotors = robot.rotor_model, len(robot.rotors)
    low, high = model.speed_min_rad_s, model.speed_max_rad_s
    made = Pipeline(terms, "rotor_speed", [low] * rotors, [high] * rotors)
    made.resting_action = 2.0 * (robot.hover_speed_rad_s - low) / (high - low) - 1.0
    return made


def draw_disturbances(
    rng: np.random.Generator,
    count: int,
    robot: Quadrotor,
    disturbances: bool,
    kinds: Mapping[str, Randomisation] | None = None,
) -> tuple[Perturbation, NDArray[np.str_]]:
    """Draw the disturbances of held-out episodes, and their labels.

    Args:
        rng: Generator with a seed that training does not use.
        count: Number of episodes.
        robot: The quadrotor.
        disturbances: Cycle through ``kinds``; with False all episodes have the task's own.
        kinds: Disturbances by label; None: :data:`DISTURBANCES`.
    """
    kinds = (kinds or DISTURBANCES) if disturbances else {"task": Randomisation()}
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
