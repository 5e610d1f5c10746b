"""What a user says of an environment, checked: the task with its settings, the robot, the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlstack import schema
from rlstack.errors import UserError, unknown_name
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.external_step import ExternalStep, Seen
from rlstack.tasks.quadrotor.task import QuadrotorTask

_SEEN = ("policy", "signals")


@dataclass(frozen=True)
class Setting:
    """A task for one robot, ready to be simulated.

    Args:
        name: The task's.
        task: Its configuration.
        robot: What flies: for a family, its reference.
        step: Its kernels.
    """

    name: str
    task: Any
    robot: Quadrotor
    step: ExternalStep

    @property
    def max_steps(self) -> int:
        """Control periods of an episode."""
        return max(round(self.task.episode_s * self.task.rate_hz), 1)


def make_setting(name: str, robot: str | Quadrotor, observation: str | Mapping[str, Any], settings: Any) -> Setting:
    """Return a task for a robot.

    Args:
        name: The task's.
        robot: A quadrotor's name or file, or what it says.
        observation: What is seen, ``"policy"`` or ``"signals"``; or the task's settings of that name.
        settings: The task's other settings, by name.

    Raises:
        UserError: A name is unknown, the task is not for quadrotors, or a value is not allowed.
    """
    if not issubclass(TASKS.load(name), QuadrotorTask):
        raise UserError(f"Environments are there for tasks of quadrotors so far: learn {name} with `rlstack train`.")
    kind: Any = "policy"
    given = {key: schema.to_data(entry) for key, entry in dict(settings).items()}
    if not isinstance(observation, str):
        given["observation"] = schema.to_data(observation)
    elif observation in _SEEN:
        kind = observation
    else:
        raise unknown_name("observation", observation, _SEEN)
    task = schema.load(TASKS.load(name), given, f"environment of {name}")
    spec = task.reference(load_quadrotor(robot) if isinstance(robot, str) else robot)
    return Setting(name, task, spec, _step(name, task, spec, kind))


def _step(name: str, task: Any, robot: Quadrotor, kind: Seen) -> ExternalStep:
    try:
        return ExternalStep(task, robot, task.pipeline(robot), kind)
    except ImportError as error:
        raise UserError(
            f"The environment of {name} needs {error.name}, which is not installed: pip install 'rlstack[gym]'."
        ) from error
