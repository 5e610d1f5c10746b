"""Base class of all tasks."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from rlstack.errors import UserError
from rlstack.robots import RobotSpec, robot_names

Term = TypeVar("Term")


class Task:
    """A task for one kind of robot; its settings are the fields of a dataclass that derives from it.

    A task also defines ``inputs``, ``outputs``, ``differentiable``, ``pipeline``, ``card`` and
    ``envelope``; docs/tasks.md describes each of them.
    """

    kind: ClassVar[str]
    """The kind of robot, as in robot files."""
    environment_class: ClassVar[str]
    """``module:Class`` of its training environment, which is imported only for training."""
    judge_class: ClassVar[str] = ""
    """``module:Class`` of what gives recorded steps their rewards; empty: nothing does."""
    demonstration_class: ClassVar[str] = ""
    """``module:Class`` of one robot at the task, for demonstrations of it; empty: it cannot be demonstrated."""
    rate_hz: float
    """Control rate."""
    episode_s: float
    reward: Any
    """Weights of the reward terms by name."""

    @property
    def steps(self) -> int:
        """Steps of an episode."""
        return max(1, round(self.episode_s * self.rate_hz))

    def check_kind(self, robot: RobotSpec) -> None:
        """Refuse a robot of another kind than the task's.

        Raises:
            UserError: It is one; robots of the task's kind are named.
        """
        if robot.kind != self.kind:
            kind, other = (one.replace("_", " ") for one in (self.kind, robot.kind))
            name = type(self).__module__.rpartition(".")[2]
            raise UserError(
                f"{name} is a task for {kind}s; {robot.name} is a {other}. Give --robot one"
                f" of {', '.join(robot_names(self.kind))}, or a file of that kind."
            )

    def reference(self, robot: RobotSpec) -> Any:
        """Return the robot to train on: ``robot`` itself by default.

        Raises:
            UserError: It is a robot of another kind.
        """
        self.check_kind(robot)
        return robot

    def trained_ranges(self, robot: Any) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of each quantity that training varies, for the policy's envelope.

        Names end with the unit; see :data:`rlstack.policies.envelope.QUANTITIES`.
        """
        return {}

    def input_noise(self, robot: Any) -> dict[str, float]:
        """Return the standard deviation of training's noise by input, in its unit; of orientations in rad."""
        return {}

    def fitted(self, robot: Any) -> Any:
        """Return the task adapted to ``robot``: itself by default."""
        return self

    def environment(self, robot: Any, pipeline: Any, count: int, device: str, seed: int) -> Any:
        """Return N copies of the task for training, a :class:`.learning_environment.LearningEnvironment`."""
        made = pkgutil.resolve_name(self.environment_class)
        return made(self.fitted(robot), robot, pipeline, count, device=device, seed=seed)

    def judge(self, robot: Any, pipeline: Any, world: Any) -> Any:
        """Return what gives steps recorded in a world their rewards, a :class:`.recorded_judge.RecordedJudge`.

        Raises:
            UserError: Nothing does, or the world is not of the task's kind.
        """
        if not self.judge_class:
            raise UserError(
                f"Recordings of {type(self).__module__.rpartition('.')[2]} have no rewards: none are computed for this"
                " task yet."
            )
        made = pkgutil.resolve_name(self.judge_class)
        return made(self.fitted(robot), robot, pipeline, world)

    def demonstration(self, robot: Any, seed: int = 0) -> Any:
        """Return one robot at the task, which a script or a person moves step by step.

        Raises:
            UserError: The robot cannot do the task.
        """
        return pkgutil.resolve_name(self.demonstration_class)(self, robot, seed)

    def weighted(self, terms: Mapping[str, Term]) -> dict[str, tuple[float, Term]]:
        """Return ``{name: (weight, term)}`` of the terms whose weight in :attr:`reward` is not 0."""
        weights = {name: getattr(self.reward, name) for name in terms}
        return {name: (weight, terms[name]) for name, weight in weights.items() if weight != 0.0}

    def check_rate(self, what: str, hertz: float) -> None:
        """Check that a rate is a whole multiple of the task's.

        Raises:
            UserError: It is not; ``what`` happens at it.
        """
        if abs(hertz / self.rate_hz - round(hertz / self.rate_hz)) > 1e-6:
            raise UserError(
                f"task_settings: rate_hz: {self.rate_hz:g} is not allowed: {what} at {hertz:g} Hz, which is no whole"
                " multiple of it."
            )
