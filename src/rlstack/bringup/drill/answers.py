"""Safe answers to faults, and whether a repeat of a fault ended in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OBSERVATION_PERIODS = 3.0
"""Control periods beyond the guard's timeout for observations: one until the next would have come, and two until the
guard's timer notices."""

ROBOT_PERIODS = 3.0
"""Control periods beyond the robot node's own timeout in which it notices: it looks twice."""


ROBOT_OFF = "robot off"
"""Answer of a robot node that stops the robot itself."""

BATTERY_S = 0.1
"""Time in which two reports of the battery come during a drill."""


@dataclass(frozen=True)
class Answer:
    """The safe answer to a fault.

    Args:
        modes: Modes of the guard that are safe; the last observed one must be among them.
        within: Time in which one of them must be reached, s, or the name of a limit, see :func:`limit_s`; None: they
            must hold throughout, so that the fault may also change nothing.
        via: Modes that may come before, or in between.
        robot_stops: Whether the robot node itself must stop the robot, instead of the guard, and say so.
        robot_may_stop: Whether it may, besides the guard: it does not hear the guard for longer than its own timeout.
    """

    modes: tuple[str, ...]
    within: str | float | None = None
    via: tuple[str, ...] = ()
    robot_stops: bool = False
    robot_may_stop: bool = False

    def text(self, limit: float | None) -> str:
        """Return it for a table: modes, and the time limit in ms."""
        if self.robot_stops:
            return f"robot node stops the robot within {1e3 * (limit or 0.0):.0f} ms"
        named = " or ".join(self.modes)
        return f"{named} throughout" if limit is None else f"{named} within {1e3 * limit:.0f} ms"


@dataclass
class Repeat:
    """What happened in one repeat of a fault; times are in s of the robot from the moment of the fault.

    Args:
        modes: The guard's modes with their times; the first is that before the fault.
        reason: The guard's own reason for the answer.
        robot_off_s: When the robot node said that it had stopped the robot; None: it did not.
        ended: Processes that ended and should not have.
        problem: What else was wrong, such as a command beyond its range; empty: nothing.
        excursion: Worst excursion from the moment of the fault, by its name with the unit.
        path: Times and main excursion, for the chart.
        answer_s: Time to the answer; None: nothing changed.
        answer: The mode that answered.
        why: Why it failed; empty: it passed.
    """

    modes: list[tuple[float, str]]
    reason: str = ""
    robot_off_s: float | None = None
    ended: list[str] = field(default_factory=list)
    problem: str = ""
    excursion: dict[str, float] = field(default_factory=dict)
    path: list[tuple[float, float]] = field(default_factory=list)
    answer_s: float | None = None
    answer: str = ""
    why: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "passed": not self.why,
            "why": self.why,
            "answer": self.answer,
            "answer_s": self.answer_s,
            "reason": self.reason,
            "excursion": self.excursion,
            "modes": [[round(time_s, 4), mode] for time_s, mode in self.modes],
        }


def limit_s(within: str | float | None, config: Any, robot_timeout_s: float) -> float | None:
    """Return a time limit, s of the robot.

    Args:
        within: ``command``: the age at which a command is stale, and a control period for the observation that it
            answers. ``observation``: the timeout for observations and :data:`OBSERVATION_PERIODS`. ``robot``: the
            robot node's timeout for commands and :data:`ROBOT_PERIODS`. Another name: that time of the configuration,
            and :data:`OBSERVATION_PERIODS`; for ``battery_confirm_s`` also :data:`BATTERY_S`.
        config: The guard's configuration.
        robot_timeout_s: The robot node's timeout for commands.
    """
    if within == "command":
        return float(config.staleness_s + config.period_s)
    if within == "observation":
        return float(config.observation_timeout_s + OBSERVATION_PERIODS * config.period_s)
    if within == "robot":
        return robot_timeout_s + ROBOT_PERIODS * float(config.period_s)
    if isinstance(within, str):
        more_s = BATTERY_S if within == "battery_confirm_s" else 0.0
        return float(getattr(config, within) + OBSERVATION_PERIODS * config.period_s + more_s)
    return within


def judge(repeat: Repeat, answer: Answer, limit: float | None) -> None:
    """Set a repeat's ``answer``, ``answer_s`` and ``why``."""
    before, after = repeat.modes[0][1], repeat.modes[1:]
    if answer.robot_stops:
        repeat.answer, repeat.answer_s = ROBOT_OFF, repeat.robot_off_s
    else:
        reached = [(t, mode) for t, mode in after if mode in answer.modes]
        repeat.answer_s, repeat.answer = reached[0] if reached else (None, after[-1][1] if after else before)
    repeat.why = "; ".join(filter(None, [_mode_problem(repeat, answer, limit), repeat.problem, _ended(repeat.ended)]))


def _mode_problem(repeat: Repeat, answer: Answer, limit: float | None) -> str:
    before, after = repeat.modes[0][1], repeat.modes[1:]
    if answer.robot_stops:
        return _late("the robot node did not stop the robot", "the robot stopped", repeat.answer_s, limit)
    may_stop = answer.robot_may_stop or not {"disarmed", "estop"}.isdisjoint(answer.modes)
    if repeat.robot_off_s is not None and not may_stop:
        return "the robot node stopped the robot, which the guard still commanded"
    allowed = {*answer.modes, *answer.via}
    if limit is None:
        wrong = [mode for _, mode in after if mode not in allowed]
        return f"the guard went to {wrong[0]}" if wrong else ""
    found = _late(f"the guard stayed in {after[-1][1] if after else before}", "it took", repeat.answer_s, limit)
    if found:
        return found
    wrong = [mode for _, mode in after if mode not in allowed]
    if wrong:
        return f"the guard went to {wrong[0]}"
    return "" if after[-1][1] in answer.modes else f"the guard ended in {after[-1][1]}"


def _late(never: str, took: str, time_s: float | None, limit: float | None) -> str:
    if time_s is None:
        return never
    if limit is not None and time_s > limit:
        return f"{took} {1e3 * time_s:.0f} ms, more than {1e3 * limit:.0f} ms"
    return ""


def _ended(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} ended" if names else ""


def worst(repeats: Sequence[Repeat]) -> Mapping[str, float]:
    """Return the worst excursion over repeats; names that begin with ``least`` are worst when small."""
    found: dict[str, float] = {}
    for repeat in repeats:
        for name, figure in repeat.excursion.items():
            pick = min if name.startswith("least") else max
            found[name] = pick(found[name], figure) if name in found else figure
    return found
