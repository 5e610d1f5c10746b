"""Goals that step: a flight or drive that tells what a robot is, and how well its policy reaches goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlstack.bringup.robot_group import Point


@dataclass(frozen=True)
class GoalStep:
    """A goal that is held until the next one.

    Args:
        at_s: Time since the policy took over, s.
        position: Where, m, in ``odom``.
        yaw: Heading there, rad.
        counts_s: Time after which the distance from it counts until the next goal, s; None: it does not count.
    """

    at_s: float
    position: Point
    yaw: float
    counts_s: float | None = None


def judged_windows(steps: Sequence[GoalStep], seconds: float) -> list[tuple[float, float]]:
    """Return the begin and end, s, of each time at which the distance from the goal counts, in a run of ``seconds``."""
    ends = [step.at_s for step in steps[1:]] + [seconds]
    counting = [(step.at_s + step.counts_s, end) for step, end in zip(steps, ends) if step.counts_s is not None]
    return [(begin, end) for begin, end in counting if begin < end <= seconds]
