"""Goals that step: a flight or drive that tells what a robot is, and how well its policy reaches goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlstack.bringup.robot_group import Point

SETTLED_S = 2.0
"""The end of a judged hold, over which the distance from the goal counts."""


@dataclass(frozen=True)
class GoalStep:
    """A goal that is held until the next one.

    Args:
        at_s: Time since the policy took over, s.
        position: Where, m, in ``odom``.
        yaw: Heading there, rad.
        judged: Whether it is held long enough for its end to count.
    """

    at_s: float
    position: Point
    yaw: float
    judged: bool


def judged_windows(steps: Sequence[GoalStep], seconds: float) -> list[tuple[float, float]]:
    """Return the begin and end, s, of each time at which the distance from the goal counts, in a run of ``seconds``."""
    ends = [step.at_s for step in steps[1:]] + [seconds]
    return [(end - SETTLED_S, end) for step, end in zip(steps, ends) if step.judged and end <= seconds]
