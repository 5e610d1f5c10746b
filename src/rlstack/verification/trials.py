"""A verification of any kind of task: scores by column, what was asked, the verdict, and the record of it.

What is scored is the business of the task's own module, such as :mod:`rlstack.verification.race_score`; a score has
figures, each with its definition (:class:`rlstack.verification.metrics.Judged`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from rlstack.policies.contract import Contract
from rlstack.robots import RobotSpec
from rlstack.verification.metrics import Figure, judge
from rlstack.verification.plots import Plot
from rlstack.verification.report import IN_PROCESS_NAME, OVER_TOPICS, RECORD_NAME, RECORD_VERSION, worth, write_files
from rlstack.verification.transfer import Estimate, TransferTable


class Score(Protocol):
    """The figures of one driver in one column."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition and its value."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""

    def cell(self) -> TrialCell:
        """Return what the transfer table shows."""


@dataclass(frozen=True)
class TrialCell:
    """One driver in one column of the transfer table.

    Args:
        episodes: How many.
        figures: By heading, such as ``success, %``, in the unit that it says; None: it has none.
    """

    episodes: int
    figures: dict[str, Estimate | None]

    def texts(self) -> dict[str, str]:
        """Return each figure with its interval, by what it is."""
        return {
            what: "-" if e is None else f"{e.value:.1f} [{e.low:.1f}, {e.high:.1f}]" for what, e in self.figures.items()
        }


@dataclass(frozen=True, kw_only=True)
class TrialColumn:
    """What was tried in one place.

    Args:
        simulator: Where, such as ``batch``, ``mujoco (in process)`` or ``mujoco (topics)``.
        score: The judged driver's.
        theirs: Of classical planners by their names.
        bounds: What the judged driver had to reach; None: nothing.
        told: What was tried, in a sentence.
    """

    simulator: str
    score: Score
    theirs: Mapping[str, Score]
    bounds: Any | None
    told: str


@dataclass(frozen=True, kw_only=True)
class TrialVerification:
    """One policy file, tried and judged.

    Args:
        contract: The policy's.
        sha256: Of the policy file's bytes.
        robot: What moved.
        columns: By what the user types, such as ``batch`` and ``mujoco``.
        first: Keys of the figures that a reader wants first.
        left_out: Simulators that were asked for and cannot hold it, and why.
        told: Of what was tried, for the page.
        settings: Of the task, where they are not the usual ones, in a sentence.
        pictures: For the page, those that move (GIF) first among them.
        provenance: Seeds, versions, time; plain data.
        command: What to type to get the same again.
    """

    contract: Contract
    sha256: str
    robot: RobotSpec
    columns: Mapping[str, TrialColumn]
    first: Sequence[str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    told: str = ""
    settings: str = ""
    pictures: Sequence[Plot] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    @property
    def record_name(self) -> str:
        """What its record is called."""
        over_topics = any(column.simulator.endswith(OVER_TOPICS) for column in self.columns.values())
        return RECORD_NAME if over_topics else IN_PROCESS_NAME

    @property
    def worth(self) -> str:
        """What it proves, in a sentence."""
        return worth((column.simulator for column in self.columns.values()), self.left_out)

    @property
    def failures(self) -> list[str]:
        """Why it does not pass, a sentence each; empty if it passes."""
        failures = []
        for name, column in self.columns.items():
            if column.bounds is not None:
                failures += [f"{name}: {reason}" for reason in judge(column.score, column.bounds)[1]]
        return failures

    @property
    def passed(self) -> bool:
        """Whether every column reached its bounds."""
        return not self.failures

    @cached_property
    def transfer(self) -> TransferTable:
        """Who was tried, and where."""
        cells: dict[str, dict[str, TrialCell]] = {self.contract.name: {}}
        for name, column in self.columns.items():
            cells[self.contract.name][name] = column.score.cell()
            if column.simulator.endswith(OVER_TOPICS):
                continue  # planners are tried in process
            for who, score in column.theirs.items():
                cells.setdefault(who, {})[name] = score.cell()
        return TransferTable(cells)


def record_trials(verification: TrialVerification) -> dict[str, Any]:
    """Return what verify.json holds: plain data with the verdict and one entry of figures per column."""
    v = verification
    return {
        "schema_version": RECORD_VERSION,
        "policy": v.contract.name,
        "sha256": v.sha256,
        "contract_sha256": v.contract.sha256,
        "task": v.contract.task,
        "robot": v.robot.name,
        "robot_sha256": v.robot.sha256,
        "passed": v.passed,
        "reasons": v.failures,
        "worth": v.worth,
        "left_out": dict(v.left_out),
        "backends": {name: _entry(column) for name, column in v.columns.items()},
        "transfer": v.transfer.to_json(),
        "provenance": dict(v.provenance),
        "command": v.command,
    }


def _entry(column: TrialColumn) -> dict[str, Any]:
    asked = {} if column.bounds is None else column.bounds.limits
    return {
        "flown_in": column.simulator,
        **column.score.to_json(),
        "asked": asked,
        "baselines": {who: score.to_json() for who, score in column.theirs.items()},
    }


def write_trial_report(folder: str | Path, verification: TrialVerification) -> Path:
    """Write report.html, its pictures and the record into ``folder`` and return the page's path.

    The page needs nothing else, and the record is written last.

    Raises:
        UserError: A file cannot be written.
    """
    from rlstack.verification.trial_page import render

    def drawn() -> tuple[Sequence[Plot], str]:
        return verification.pictures, render(verification)

    return write_files(folder, verification.record_name, record_trials(verification), drawn)
