"""The report of a base's verification: what was driven and judged, as data, as a page, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies.contract import Contract
from rlstack.tasks.bounds import Bounds
from rlstack.verification.courses import Course
from rlstack.verification.drive_cell import drive_cell
from rlstack.verification.drive_score import DriveScore, score_drives
from rlstack.verification.metrics import judge
from rlstack.verification.records import NavigationRecord
from rlstack.verification.report import IN_PROCESS_NAME, OVER_TOPICS, RECORD_NAME, RECORD_VERSION, worth, write_files
from rlstack.verification.transfer import TransferTable

if TYPE_CHECKING:
    from rlstack.verification.plots import Plot

HELD_OUT = (
    "No map of these seeds is ever trained or tuned on. In the batch simulator each robot departs from its file as in"
    " training: lags, delay, slip; in the others it is as the file says."
)
"""What the page says of the ways, unless something else is to be said."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """What was driven in one simulator over one kind of course.

    Args:
        course: The ways.
        drives: Of the driver that is judged.
        baselines: Of classical planners by their names, over the first of the same ways, in process.
        bounds: What the judged driver had to reach; None: nothing.
        reference: Which of the baselines it is held against; empty: none.
        arrival_m: How near the goal is there.
    """

    course: Course
    drives: NavigationRecord
    baselines: Mapping[str, NavigationRecord]
    bounds: Bounds | None
    reference: str
    arrival_m: float

    @cached_property
    def score(self) -> DriveScore:
        """The judged driver's figures."""
        return self.against(self.reference) if self.reference in self.baselines else self._score(self.drives)

    @cached_property
    def theirs(self) -> dict[str, DriveScore]:
        """The planners' figures, by name."""
        return {name: self._score(drives) for name, drives in self.baselines.items()}

    @property
    def all(self) -> dict[str, NavigationRecord]:
        """Everybody's drives, by name, the judged driver's first."""
        return {self.drives.driver: self.drives, **self.baselines}

    @property
    def here(self) -> dict[str, NavigationRecord]:
        """Those of them that were driven in this very simulator: planners are not driven over topics."""
        return {name: drives for name, drives in self.all.items() if drives.simulator == self.drives.simulator}

    def against(self, planner: str) -> DriveScore:
        """Return the judged driver's figures beside one planner's."""
        return score_drives(self.drives, arrival_m=self.arrival_m, beside=self.baselines[planner])

    def _score(self, drives: NavigationRecord) -> DriveScore:
        return score_drives(drives, arrival_m=self.arrival_m)


@dataclass(frozen=True, kw_only=True)
class DriveVerification:
    """One driver, driven and judged.

    Args:
        name: Of the driver: the policy's, or a planner's that is shown alone.
        contract: The policy's; None: it is a planner.
        sha256: Of the policy file's bytes.
        task: The task's name.
        robot: What was driven.
        columns: By what the user types, such as ``batch`` and ``mujoco``.
        reasons: Why it fails whatever the figures say.
        left_out: Simulators that were asked for and cannot hold it, and why.
        told: Of the maps and robots, for the page.
        provenance: Seeds, versions, time; plain data.
        command: What to type to get the same again.
    """

    name: str
    contract: Contract | None
    sha256: str
    task: str
    robot: WheeledBase
    columns: Mapping[str, Column]
    reasons: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    told: str = HELD_OUT
    provenance: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    @property
    def record_name(self) -> str:
        """What its record is called."""
        over_topics = any(column.drives.simulator.endswith(OVER_TOPICS) for column in self.columns.values())
        return RECORD_NAME if over_topics else IN_PROCESS_NAME

    @property
    def failures(self) -> list[str]:
        """Why it does not pass, a sentence each; empty if it passes."""
        failures = list(self.reasons)
        for name, column in self.columns.items():
            if column.bounds is not None:
                failures += [f"{name}: {reason}" for reason in judge(column.score, column.bounds)[1]]
        return failures

    @property
    def passed(self) -> bool:
        """Whether every column reached its bounds and nothing else spoke against it."""
        return not self.failures

    @property
    def worth(self) -> str:
        """What it proves, in a sentence."""
        return worth((column.drives.simulator for column in self.columns.values()), self.left_out)

    @property
    def drivers(self) -> list[str]:
        """Names of all who drove, the judged one first."""
        return list(dict.fromkeys(name for column in self.columns.values() for name in column.all))

    @cached_property
    def transfer(self) -> TransferTable:
        """Who drove, and where."""
        cells = {
            who: {name: drive_cell(column.here[who]) for name, column in self.columns.items() if who in column.here}
            for who in self.drivers
        }
        return TransferTable(cells)


def record_drives(verification: DriveVerification) -> dict[str, Any]:
    """Return what verify.json holds: plain data with the verdict and one entry of figures per column."""
    v = verification
    return {
        "schema_version": RECORD_VERSION,
        "policy": v.name,
        "sha256": v.sha256,
        "contract_sha256": "" if v.contract is None else v.contract.sha256,
        "task": v.task,
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


def _entry(column: Column) -> dict[str, Any]:
    asked = {} if column.bounds is None else column.bounds.limits
    baselines = {}
    for who, score in column.theirs.items():
        beside = column.against(who)
        compared = {"policy_lead": beside.lead, "policy_time_ratio": beside.time_ratio, "paired": beside.paired}
        baselines[who] = {**score.to_json(), **compared}
    return {
        "flown_in": column.drives.simulator,
        **column.score.to_json(),
        "asked": asked,
        "baselines": baselines,
    }


def write_drive_report(folder: str | Path, verification: DriveVerification) -> Path:
    """Write report.html, its pictures and the record into ``folder`` and return the page's path.

    As :func:`rlstack.verification.report.write_report`: the page needs nothing else, and the record is written last.

    Raises:
        UserError: matplotlib is missing, or a file cannot be written.
    """
    from rlstack.verification.drive_page import render
    from rlstack.verification.drive_plots import draw

    def drawn() -> tuple[Sequence[Plot], str]:
        pictures = draw(verification)
        return pictures, render(verification, pictures)

    return write_files(folder, verification.record_name, record_drives(verification), drawn)
