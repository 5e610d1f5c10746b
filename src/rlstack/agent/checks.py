"""Preconditions: whether a robot can do a plan now, found by going through it step by step before anything moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlstack.agent.abilities import Abilities
from rlstack.agent.skills import (
    Arm,
    Disarm,
    Estop,
    GoTo,
    Hold,
    Instruct,
    Land,
    Move,
    Rest,
    Return,
    Step,
    TakeOff,
    Turn,
    Wait,
)
from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.instruction import encoded, understood

BATTERY_LOW = 0.2
"""Charge, 0 to 1, below which no motion begins: where guards warn."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known of a robot.

    Args:
        mode: The guard's mode; empty: unknown.
        reason: Why it is in it.
        off: Whether it is disarmed or stopped.
        stopped: Whether its emergency stop is set.
        interventions: How often its guard has taken over.
        position: (3,) m, of what goes to goals, in the frame of goals; None: nothing measures it.
        heading_rad: Its heading.
        goal: (3,) m, the goal that it pursues; None: none.
        goal_heading_rad: The heading there.
        battery: Charge, 0 to 1; None: not measured.
        instruction: What its policy follows; empty: it waits for a sentence; None: it says of none.
        object_seen: Whether the pose of the object that it handles is known.
        hears_goals: Whether something takes goals.
        hears_instructions: Whether something takes instructions.
    """

    mode: str = ""
    reason: str = ""
    off: bool = True
    stopped: bool = False
    interventions: int = 0
    position: Array | None = None
    heading_rad: float = 0.0
    goal: Array | None = None
    goal_heading_rad: float = 0.0
    battery: float | None = None
    instruction: str | None = None
    object_seen: bool = True
    hears_goals: bool = True
    hears_instructions: bool = True

    @property
    def here(self) -> Array | None:
        """Where it is, (3,) m, or else where it is to be."""
        return self.goal if self.position is None else self.position


@dataclass(frozen=True)
class Target:
    """A goal: (3,) m, and its heading, rad."""

    position: Array
    heading_rad: float


def target_of(step: Step, now: Situation, start: Situation, abilities: Abilities) -> Target | None:
    """Return the goal of a step; None: the step has none.

    Args:
        step: The step.
        now: When the step begins.
        start: When the plan began.
        abilities: The robot's.

    Raises:
        UserError: The robot's position is needed and not known, or there is no such place.
    """
    here, heading = now.here, now.goal_heading_rad
    if isinstance(step, GoTo):
        if step.place and step.place not in abilities.places:
            raise UserError(f"there is no place '{step.place}'. Places: {', '.join(abilities.places) or 'none'}")
        place = abilities.places[step.place] if step.place else step.position
        if len(place) == 2:
            height = now.goal if now.goal is not None else here
            place = (*place, 0.0 if height is None else float(height[2]))
        return Target(np.array(place, dtype=float), heading if step.heading_rad is None else step.heading_rad)
    if not isinstance(step, (Move, Turn, Return)):
        return None
    if here is None:
        raise UserError("where the robot is is not known: wait for its odometry, or name a position")
    if isinstance(step, Turn):
        return Target(here, math.remainder(now.heading_rad + step.angle_rad, 2.0 * math.pi))
    if isinstance(step, Return):
        if start.here is None:
            raise UserError("where the robot was at the start is not known")
        back = np.array(start.here, dtype=float)
        if abilities.flies and start.off and now.goal is not None:
            back[2] = now.goal[2]  # above the place that it took off from
        return Target(back, heading)
    turn = 0.0 if abilities.fixed else now.heading_rad
    x = step.forward * math.cos(turn) - step.left * math.sin(turn)
    y = step.forward * math.sin(turn) + step.left * math.cos(turn)
    return Target(here + np.array([x, y, step.up]), heading)


def check_plan(steps: Sequence[Step], start: Situation, abilities: Abilities, now: Situation | None = None) -> None:
    """Refuse a plan that the robot cannot do.

    Args:
        steps: The plan.
        start: When it began.
        abilities: The robot's.
        now: What is known now, if some of it is done; None: ``start``.

    Raises:
        UserError: Names the first step that cannot be done, and why.
    """
    now = start if now is None else now
    for number, step in enumerate(steps, 1):
        why = precondition(step, now, start, abilities)
        if why:
            raise UserError(f"Step {number}, {step.shown()}: {why}.")
        now = _after(step, now, start, abilities)


def precondition(step: Step, now: Situation, start: Situation, abilities: Abilities) -> str:
    """Return why a robot cannot do a step now; empty if it can. Arguments as :func:`target_of`."""
    if step.NAME not in abilities.skills:
        return _lacking(step, abilities)
    if isinstance(step, Estop):
        return ""
    if isinstance(step, Instruct) and abilities.text is not None:
        try:
            encoded(step.text)
        except ValueError as error:
            return str(error)
        if told := understood(step.text, abilities.text.words, abilities.text.meanings)[1]:
            return told[0]
    if isinstance(step, (Arm, TakeOff)):
        if now.stopped:
            return "the emergency stop is set: `rlstack estop --clear` first"
        return _too_empty(now)
    if isinstance(step, (Wait, Disarm, Rest)):
        return ""
    if now.off:
        verb = "take off" if abilities.flies else "arm"
        state = "its emergency stop is set" if now.stopped else "it is disarmed"
        return f"{state}: begin with '{verb}'" if not now.stopped else f"{state}: `rlstack estop --clear` first"
    if isinstance(step, Land):
        return ""
    if isinstance(step, Instruct):
        return _too_empty(now) or (
            "" if now.hears_instructions else "nothing takes instructions: see whether its policy node runs"
        )
    if not now.hears_goals:
        return "nothing takes goals: see whether its policy or planner runs"
    if isinstance(step, Hold):
        return ""
    if abilities.carries and not now.object_seen:
        return "the object is not seen: nothing publishes its pose on `object`"
    try:
        target = target_of(step, now, start, abilities)
    except UserError as error:
        return str(error)
    assert target is not None
    if isinstance(step, Move) and step.up and abilities.axes == 2:
        return "it does not leave the ground"
    if isinstance(step, GoTo) and step.heading_rad is not None and not abilities.turns:
        return f"{abilities.policy} takes no heading: leave it out"
    return abilities.refusal(target.position) or _too_empty(now)


def _lacking(step: Step, abilities: Abilities) -> str:
    if isinstance(step, Disarm) and abilities.flies:
        return "in the air it would fall: say 'land', or use `rlstack disarm`"
    if isinstance(step, (TakeOff, Land)):
        return f"{abilities.robot} does not fly: say '{'arm' if isinstance(step, TakeOff) else 'rest'}'"
    if isinstance(step, Instruct):
        return f"{abilities.policy or 'its policy'} takes no instructions"
    if isinstance(step, Hold):
        return f"{abilities.policy or 'its policy'} holds no position: say '{'land' if abilities.flies else 'rest'}'"
    if abilities.text is not None and isinstance(step, (GoTo, Move, Turn, Return)):
        said = f", such as '{abilities.text.examples[0]}'" if abilities.text.examples else ""
        return f"{abilities.policy} takes instructions{said}, and no goals"
    return f"{abilities.robot} with {abilities.policy or 'no policy'} cannot do that"


def _too_empty(now: Situation) -> str:
    if now.battery is not None and now.battery < BATTERY_LOW:
        return f"the battery has {100.0 * now.battery:.0f}%, and below {100.0 * BATTERY_LOW:.0f}% no motion begins"
    return ""


def _after(step: Step, now: Situation, start: Situation, abilities: Abilities) -> Situation:
    """Return what is expected once a step is done."""
    if isinstance(step, (Arm, TakeOff)):
        flown = abilities.flies and now.off and now.goal is not None
        return replace(now, off=False, position=now.goal if flown else now.position)
    if isinstance(step, (Land, Rest, Disarm)):
        return replace(now, off=True)
    if isinstance(step, Estop):
        return replace(now, off=True, stopped=True)
    if isinstance(step, Hold):
        return replace(now, goal=now.here)
    target = target_of(step, now, start, abilities)
    if target is None:
        return now
    turned = target.heading_rad if abilities.turns else now.heading_rad
    return replace(
        now, position=target.position, goal=target.position, heading_rad=turned, goal_heading_rad=target.heading_rad
    )
