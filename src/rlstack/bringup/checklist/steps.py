"""Checklists of real robots, ``hardware/<robot>/bringup.yaml``: steps that a program checks or a person answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlstack import schema
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.kind_signals import command_of, shape_of
from rlstack.resources import find_resource, share_directories
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.yaml_files import read_yaml

CheckName = Literal[
    "question", "device", "connect", "sensors", "envelope", "battery", "by_hand", "motion", "stop", "link_loss"
]
BY_PERSON = ("question", "by_hand", "motion", "stop", "link_loss")
"""Checks that need a person."""
MOVING = ("motion", "stop", "link_loss")
"""Checks that power the actuators."""

_MOST = {"twist": (0.1, 0.5), "rates_thrust": (0.0, 0.0, 0.0, 4.0)}
"""Largest numbers of a checklist's command: m/s and rad/s; rad/s and m/s^2, less than half of what lifts a robot."""
_MOST_JOINT = 0.2
"""Largest change of a joint's target, rad or m; always from where it is."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Args:
        name: Its name in the record.
        check: ``question``: the person's answer alone; the others are in :mod:`rlstack.bringup.checklist.checks`.
        text: What to do first, and why.
        ask: What the person answers with yes or no afterwards.
        at_least: ``battery``: least value by signal, such as ``battery_voltage: 11``.
        signal: ``by_hand``: the signal that changes as the person moves the robot.
        element: Its element, from 0.
        by: By how much at least, in the signal's unit; its sign is the direction.
        command: ``motion``, ``stop``, ``link_loss``: the command; of joints, added to where they are.
        seconds: For how long.
    """

    name: str
    check: CheckName = "question"
    text: str = ""
    ask: str = ""
    at_least: dict[str, float] = value(dict)
    signal: str = ""
    element: int = value(0, at_least=0)
    by: float = 0.0
    command: tuple[float, ...] = ()
    seconds: float = value(2.0, unit="s", above=0.0, at_most=30.0)

    def __post_init__(self) -> None:
        for name, given, checks in (
            ("ask", self.ask, ("question", "motion", "stop", "link_loss")),
            ("at_least", self.at_least, ("battery",)),
            ("signal", self.signal, ("by_hand",)),
            ("by", self.by, ("by_hand",)),
            ("command", self.command, MOVING),
        ):
            if bool(given) != (self.check in checks):
                needs = "must be given" if self.check in checks else "is not allowed"
                raise ValueError(f"the step '{self.name}': {name} {needs} with the check '{self.check}'.")

    @property
    def needs_person(self) -> bool:
        """Whether a person has to be there."""
        return self.check in BY_PERSON


@dataclass(frozen=True, kw_only=True)
class Checklist:
    """A robot's checklist.

    Args:
        robot: Its robot file.
        backend: Its driver.
        uri: An example of where that finds it, for messages.
        steps: In their order.
    """

    robot: str
    backend: str
    uri: str
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"steps: the name '{twice[0]}' is there twice: every step needs its own.")


def checklist_names() -> list[str]:
    """Return the robots that have a checklist."""
    return sorted(
        {file.parent.name for folder in share_directories() for file in folder.glob("hardware/*/bringup.yaml")}
    )


def load_checklist(name: str) -> Checklist:
    """Return a robot's checklist.

    Args:
        name: The folder in ``hardware/``, or the path of a YAML file.

    Raises:
        UserError: There is none of that name, or it is not valid.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else find_resource(f"hardware/{name}/bringup.yaml")
    if path is None:
        raise unknown_name("robot with a checklist", name, checklist_names())
    return schema.load(Checklist, read_yaml(path, "checklist"), str(path))


def check_commands(checklist: Checklist, robot: RobotSpec) -> None:
    """Refuse a checklist whose commands are not small ones of a robot.

    Raises:
        UserError: A command has another size, or is larger than a bring-up allows.
    """
    signal = command_of(robot)
    size = int(shape_of(signal, robot)[0])
    most = _MOST.get(signal.name, (_MOST_JOINT,) * size)
    for step in checklist.steps:
        if step.command and len(step.command) != size:
            raise UserError(
                f"The step '{step.name}' has a command of {len(step.command)} numbers, and {signal.name} of"
                f" {robot.name} has {size}."
            )
        for number, limit in zip(step.command, most):
            if not (math.isfinite(number) and abs(number) <= limit):
                raise UserError(
                    f"The step '{step.name}' commands {number:g} by {signal.name}, and {limit:g} is the most in a"
                    " bring-up."
                )
