"""How policies are verified: one module for each way, found by the task's examiner, or else by the robot's kind."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.backend import BACKENDS
from rlstack.registry import Registry
from rlstack.robots import RobotSpec
from rlstack.sim.vector import BATCH
from rlstack.sim.world import World
from rlstack.tasks import TASKS
from rlstack.tasks.bounds import Bounds
from rlstack.verification.report import OVER_TOPICS

VERIFIERS = Registry("way to verify", "rlstack.bringup.verifiers", "VERIFIER", "rlstack.verifiers")
"""Each entry is a function that takes a :class:`Request` and returns a :class:`Verdict`.

Its name is a task's ``examiner``, by which the same task chooses the best policy of a run, or a kind of robot.
"""

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be verified, all of it checked.

    Args:
        policy: The policy file.
        given: It, as it was typed.
        loaded: It, for ``robot``.
        sha256: Of its bytes.
        robot: What moves.
        named: The robot's name or file, as nodes load it.
        robot_option: What was typed as ``--robot``.
        names: ``batch`` and other simulators, all of them installed.
        topics: Whether to go over topics as well.
        episodes: In every simulator; None takes what is usual.
        seed: Of starts, disturbances and noise.
        drivers: Classical planners to compare with; None takes the task's.
        folder: The report's.
        on_progress: Called with a column's name, what is done, and the total.
    """

    policy: Path
    given: str
    loaded: Any
    sha256: str
    robot: RobotSpec
    named: str
    robot_option: str
    names: tuple[str, ...]
    topics: bool
    episodes: int | None
    seed: int
    drivers: tuple[str, ...] | None
    folder: Path
    on_progress: OnProgress | None

    def shown(self, column: str) -> Callable[[int, int], None] | None:
        """Return what is called with the episodes done in a column and their total."""
        told = self.on_progress
        return None if told is None else lambda done, count: told(column, done, count)

    @property
    def command(self) -> str:
        """What to type to get the same again."""
        typed = ["rlstack", "verify", self.given, "--backends", ",".join(self.names), "--seed", str(self.seed)]
        typed += ["--episodes", str(self.episodes)] if self.episodes is not None else []
        typed += ["--robot", self.robot_option] if self.robot_option else []
        typed += ["--drivers", ",".join(self.drivers)] if self.drivers is not None else []
        return shlex.join([*typed, *([] if self.topics else ["--no-topics"])])


class Verdict(Protocol):
    """A verification and where its report lies."""

    @property
    def verification(self) -> Any:
        """Has ``contract`` and ``transfer``."""

    @property
    def report(self) -> Path:
        """The page."""

    @property
    def record(self) -> Path:
        """What deployment asks for."""

    @property
    def passed(self) -> bool:
        """The verdict."""

    def as_data(self) -> dict[str, Any]:
        """Return what verify.json holds."""

    def table(self) -> str:
        """Return figures, transfer table and verdict for reading."""


def over_topics(simulator: str) -> str:
    """Return what reports and records call what was done over topics in a simulator."""
    return f"{simulator} {OVER_TOPICS}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose columns are aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def verifier_of(robot: RobotSpec, task: str = "") -> Callable[[Request], Verdict]:
    """Return what verifies policies of a task for a robot.

    Raises:
        UserError: Nothing verifies such.
    """
    examiner = getattr(TASKS.load(task), "examiner", "") if task in TASKS.names() else ""
    for name in (examiner, robot.kind):
        if name in VERIFIERS.names():
            found: Callable[[Request], Verdict] = VERIFIERS.load(name)
            return found
    raise UserError(
        f"{robot.name} is a {robot.kind}, and there is no way to verify its policies; the ways that there are:"
        f" {', '.join(VERIFIERS.names())}."
    )


def held_by(names: Sequence[str], robot: RobotSpec, world: World | str = "") -> tuple[tuple[str, ...], dict[str, str]]:
    """Return which simulators can hold a robot, and of the others why they cannot.

    Args:
        names: ``batch`` and other simulators, installed.
        robot: What is to be tried.
        world: What is to be held too, a world or its name; empty: a floor.
    """
    held, left_out = [], {}
    for name in names:
        try:
            if name != BATCH:
                backend = BACKENDS.load(name)(robot, **({"world": world} if world else {}))
                backend.connect()
                backend.close()
        except UserError as error:
            left_out[name] = str(error)
            continue
        held.append(name)
    return tuple(held), left_out


def planners_of(names: Sequence[str], asked: Bounds | None = None) -> list[str]:
    """Return names of planners, each once.

    Args:
        names: Of planners.
        asked: The bounds of who is held against the first of them; None: nobody is.

    Raises:
        UserError: One is unknown, or there is none and one is needed.
    """
    for name in names:
        if name not in PLANNERS.names():
            raise unknown_name("planner", name, PLANNERS.names())
    against = ("lead_high", "time_ratio", "lap_ratio", "steps_ratio")
    if not names and asked is not None and any(name in asked.limits for name in against):
        raise UserError(
            "drivers: none is not allowed, because the task asks its policies to be held against a planner: name at"
            " least one, such as --drivers dwa, or leave --drivers out for the task's own."
        )
    return list(dict.fromkeys(names))
