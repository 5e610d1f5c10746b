"""The skills of a robot as steps of a plan, and plans from plain data, such as a language model's answer.

Nothing else can be in a plan: whatever writes one, it is loaded into these classes, or refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from rlstack.errors import UserError, unknown_name
from rlstack.schema import load, value

MOST_STEPS = 100
"""Steps of a plan, repetitions included."""
MOST_WAIT_S = 600.0
MOST_MOVE_M = 1000.0


@dataclass(frozen=True)
class Step:
    """One step of a plan."""

    NAME: ClassVar[str] = ""
    MEANING: ClassVar[str] = ""
    """What it does, as a phrase for people and language models."""

    def shown(self) -> str:
        """Return the step as a phrase, such as ``go to 0.50 0.00 1.20 m``."""
        return self.MEANING


@dataclass(frozen=True)
class Arm(Step):
    """Arm the robot; one that flies takes off."""

    NAME = "arm"
    MEANING = "arm"


@dataclass(frozen=True)
class TakeOff(Step):
    """Arm a robot that flies: its guard climbs, then its policy flies to the goal that it has."""

    NAME = "take_off"
    MEANING = "take off"


@dataclass(frozen=True)
class Rest(Step):
    """Bring the robot to rest and disarm it: a base brakes, a quadruped crouches, an arm stays where it is."""

    NAME = "rest"
    MEANING = "come to rest and disarm"


@dataclass(frozen=True)
class Land(Step):
    """Land a robot that flies, where it is, and disarm it."""

    NAME = "land"
    MEANING = "land"


@dataclass(frozen=True)
class Disarm(Step):
    """Switch the motors off."""

    NAME = "disarm"
    MEANING = "switch the motors off"


@dataclass(frozen=True)
class Estop(Step):
    """Switch the motors off until the emergency stop is cleared; for people alone, never from a language model."""

    NAME = "estop"
    MEANING = "emergency stop"


@dataclass(frozen=True)
class Hold(Step):
    """Stay at the present position."""

    NAME = "hold"
    MEANING = "hold the position"


@dataclass(frozen=True)
class GoTo(Step):
    """Go to a position, m in the goal's frame, or to a named place.

    Raises:
        ValueError: Neither or both are given, or the position has another number of coordinates than 2 or 3.
    """

    position: tuple[float, ...] = value((), unit="m")
    place: str = ""
    heading_rad: float | None = None

    NAME = "go_to"
    MEANING = "go to a position [x, y, z] in m (without z: at the present height), or to a named place"

    def __post_init__(self) -> None:
        if bool(self.position) == bool(self.place):
            raise ValueError("give either a position or a place.")
        if self.position and len(self.position) not in (2, 3):
            raise ValueError(f"position: {list(self.position)} is not allowed: must be 2 or 3 numbers.")

    def shown(self) -> str:
        """Return the step as a phrase."""
        where = f"the place '{self.place}'" if self.place else f"{' '.join(f'{x:.2f}' for x in self.position)} m"
        heading = "" if self.heading_rad is None else f", heading {math.degrees(self.heading_rad):.0f} degrees"
        return f"go to {where}{heading}"


@dataclass(frozen=True)
class Move(Step):
    """Move from the present position, m, along the present heading."""

    forward: float = value(0.0, unit="m", at_least=-MOST_MOVE_M, at_most=MOST_MOVE_M)
    left: float = value(0.0, unit="m", at_least=-MOST_MOVE_M, at_most=MOST_MOVE_M)
    up: float = value(0.0, unit="m", at_least=-MOST_MOVE_M, at_most=MOST_MOVE_M)

    NAME = "move"
    MEANING = "move from the present position by m forward, left and up, below 0 backward, right and down"

    def __post_init__(self) -> None:
        if not (self.forward or self.left or self.up):
            raise ValueError("give a distance other than 0.")

    def shown(self) -> str:
        """Return the step as a phrase."""
        ways = (
            ("forward", "backward", self.forward),
            ("to the left", "to the right", self.left),
            ("up", "down", self.up),
        )
        parts = [f"{abs(by):.2f} m {one if by > 0.0 else other}" for one, other, by in ways if by]
        return f"go {', '.join(parts)}"


@dataclass(frozen=True)
class Turn(Step):
    """Turn on the spot, rad, to the left if above 0."""

    angle_rad: float = value(unit="rad", at_least=-10.0 * math.pi, at_most=10.0 * math.pi)

    NAME = "turn"
    MEANING = "turn on the spot by rad, to the left if above 0"

    def shown(self) -> str:
        """Return the step as a phrase."""
        return f"turn {'left' if self.angle_rad >= 0.0 else 'right'} by {abs(math.degrees(self.angle_rad)):.0f} degrees"


@dataclass(frozen=True)
class Wait(Step):
    """Wait, s of the robot's time."""

    seconds: float = value(unit="s", above=0.0, at_most=MOST_WAIT_S)

    NAME = "wait"
    MEANING = "wait at the present goal for seconds"

    def shown(self) -> str:
        """Return the step as a phrase."""
        return f"wait {self.seconds:g} s"


@dataclass(frozen=True)
class Return(Step):
    """Come back to where the robot was when the plan began; one that flies comes back above it."""

    NAME = "return"
    MEANING = "come back to the start"


@dataclass(frozen=True)
class Instruct(Step):
    """Give a language-conditioned policy an instruction, and let it work for a time, s of the robot's time."""

    text: str
    seconds: float = value(20.0, unit="s", above=0.0, at_most=MOST_WAIT_S)

    NAME = "instruct"
    MEANING = "give the policy an instruction as text, and let it work for seconds"

    def shown(self) -> str:
        """Return the step as a phrase."""
        return f'do "{self.text}" for {self.seconds:g} s'


SKILLS: dict[str, type[Step]] = {
    skill.NAME: skill
    for skill in (Arm, TakeOff, GoTo, Move, Turn, Wait, Return, Hold, Instruct, Land, Rest, Disarm, Estop)
}
"""All skills by name; a robot has some of them, :class:`rlstack.agent.abilities.Abilities`."""


def loaded_steps(data: Any, allowed: tuple[str, ...], where: str) -> tuple[Step, ...]:
    """Return the steps of a plan from plain data, a list of mappings, each with the key ``skill`` and the skill's own.

    Args:
        data: The list.
        allowed: Names of the skills that it may use.
        where: Its name in errors.

    Raises:
        UserError: It has another form, no or too many steps, or a skill or value that is not allowed.
    """
    if not isinstance(data, list) or not data:
        raise UserError(f"{where}: steps must be a list of at least one step.")
    if len(data) > MOST_STEPS:
        raise UserError(f"{where}: {len(data)} steps are not allowed: at most {MOST_STEPS}.")
    steps = []
    for number, entry in enumerate(data, 1):
        at = f"{where}, step {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("skill"), str):
            raise UserError(f"{at}: must be a mapping with the key 'skill'.")
        if entry["skill"] not in allowed:
            raise unknown_name("skill", entry["skill"][:40], allowed)
        values = {key: item for key, item in entry.items() if key != "skill"}
        steps.append(load(SKILLS[entry["skill"]], values, at))
    return tuple(steps)


def described_skill(skill: type[Step]) -> str:
    """Return a skill with its arguments as a line, such as ``wait(seconds): wait at ...``."""
    return f"{skill.NAME}({', '.join(f.name for f in fields(skill))}): {skill.MEANING}"
