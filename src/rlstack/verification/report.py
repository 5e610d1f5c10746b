"""A verification of any kind of task: scores by column, the verdict, its record and its report."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from rlstack.policies.contract import Contract
from rlstack.policies.record_check import OVER_TOPICS
from rlstack.robots import RobotSpec
from rlstack.tasks.bounds import Bounds
from rlstack.verification.judgement import judge, requirement
from rlstack.verification.reality import Reality
from rlstack.verification.scores import Figure, Score
from rlstack.verification.transfer import TransferTable

if TYPE_CHECKING:
    from rlstack.verification.drawing import Plot

RECORD_VERSION = 2
"""Incremented when a key of verify.json changes its meaning."""

PAGE_NAME, RECORD_NAME, FILM_NAME = "report.html", "verify.json", "film.webp"
IN_PROCESS_NAME = "verify_in_process.json"
"""The record of trials without topics: it does not permit deployment, and must not replace one that does."""

NOT_JUDGED = "not judged (shown for comparison)"


@dataclass(frozen=True, kw_only=True)
class Column:
    """The results in one simulator.

    Args:
        simulator: Its name, such as ``batch``, ``mujoco (in process)`` or ``mujoco (topics)``.
        score: Score of the policy, or of the planner that replaces it.
        baselines: Scores of classical controllers or planners by name, in process; none of them is judged.
        bounds: Bounds of the score; None: the column is not judged.
        description: The trials, in a sentence.
        labels: Meaning of the score's group names.
    """

    simulator: str
    score: Score
    baselines: Mapping[str, Score] = field(default_factory=dict)
    bounds: Bounds | None
    description: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def judgement(self) -> str:
        """Criteria of the column, in words."""
        if self.bounds is None:
            return NOT_JUDGED
        asked = [f for f in self.score.figures if f.key in self.bounds.limits and f.key != "episodes"]
        return f"judged: {', '.join(f'{f.title.lower()} {requirement(f, self.bounds)}' for f in asked)}"

    def all(self, name: str) -> dict[str, Score]:
        """Return all drivers' scores by name; ``name`` is that of the policy."""
        return {name: self.score, **self.baselines}

    @property
    def failures(self) -> list[str]:
        """Reasons why it does not pass, a sentence each; empty if it passes or is not judged."""
        return [] if self.bounds is None else judge(self.score, self.bounds)


@dataclass(frozen=True)
class Replay:
    """What can be watched.

    Args:
        film: An animated WebP; empty: there is none.
        page: An HTML page with the trials in 3D; empty: there is none.
        missing: Why something is missing, in a sentence; empty: nothing is.
    """

    film: bytes = b""
    page: str = ""
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The verification of one policy file, or of a planner in its place.

    Args:
        name: Name of the policy or planner.
        contract: The policy's contract; None: a planner, which is not judged.
        sha256: SHA-256 of the policy file's bytes, as ``sha256sum`` prints it.
        task: The task's name.
        robot: The robot.
        columns: Columns by the user's name, such as ``batch`` and ``mujoco``.
        first: Keys of the main figures.
        reasons: Reasons to fail regardless of the figures.
        left_out: Requested simulators that do not support the task, and why.
        findings: Further sentences, such as differences between the simulators.
        description: The trials, for the page.
        settings: Unusual settings of the task, in a sentence.
        pictures: Plots for the page.
        replay: What can be watched.
        topics: Whether it was to run over topics.
        incomplete: What is missing because it was interrupted; empty: nothing.
        reality: The reality grid; None: the task has no axes.
        record: Further entries of verify.json; plain data.
        provenance: Seeds, versions, time; plain data.
        command: The command that reproduces it.
    """

    name: str
    contract: Contract | None
    sha256: str
    task: str
    robot: RobotSpec
    columns: Mapping[str, Column]
    first: Sequence[str]
    reasons: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[str] = ()
    description: str = ""
    settings: str = ""
    pictures: Sequence[Plot] = ()
    replay: Replay = Replay()
    topics: bool = False
    incomplete: str = ""
    reality: Reality | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    @property
    def record_name(self) -> str:
        """File name of its record."""
        over_topics = any(column.simulator.endswith(OVER_TOPICS) for column in self.columns.values())
        return RECORD_NAME if over_topics or (self.incomplete and self.topics) else IN_PROCESS_NAME

    @property
    def worth(self) -> str:
        """Scope of the evidence, in a sentence."""
        return worth((column.simulator for column in self.columns.values()), self.left_out)

    @property
    def judged(self) -> list[str]:
        """Names of the judged columns."""
        return [name for name, column in self.columns.items() if column.bounds is not None]

    @property
    def failures(self) -> list[str]:
        """Reasons why it does not pass, a sentence each; empty if it passes."""
        failures = [*([f"Incomplete: {self.incomplete}"] if self.incomplete else []), *self.reasons]
        if self.contract is not None and not self.judged:
            failures.append("No column was judged.")
        for name, column in self.columns.items():
            failures += [f"{name}: {reason}" for reason in column.failures]
        return failures + ([] if self.reality is None else self.reality.failures)

    @property
    def passed(self) -> bool:
        """Whether every judged column reached its bounds, without other reasons to fail."""
        return not self.failures

    @property
    def verdict(self) -> str:
        """``passed``, ``failed``, ``incomplete`` or, for a planner, ``not judged``."""
        if self.incomplete:
            return "incomplete"
        return "failed" if not self.passed else "passed" if self.judged else "not judged"

    @property
    def scope(self) -> str:
        """The judged and unjudged columns, in a sentence."""
        shown = [name for name in self.columns if name not in self.judged]
        judged = f"Judged: {', '.join(self.judged)}." if self.judged else ""
        return f"{judged} Not judged, shown for comparison: {', '.join(shown)}.".strip() if shown else judged

    @cached_property
    def transfer(self) -> TransferTable:
        """Scores by driver and simulator; baselines run in process."""
        scores: dict[str, dict[str, Score]] = {self.name: {}}
        for name, column in self.columns.items():
            scores[self.name][name] = column.score
            for who, score in column.baselines.items():
                if not column.simulator.endswith(OVER_TOPICS):
                    scores.setdefault(who, {})[name] = score
        return TransferTable(scores)

    @property
    def figures(self) -> dict[str, Figure]:
        """All columns' figures by key, the main ones first."""
        found = {key: figure for column in self.columns.values() for key, figure in column.score.by_key.items()}
        return {**{key: found[key] for key in self.first if key in found}, **found}

    def rows(self) -> list[list[str]]:
        """Return the rows of the terminal's table: the judged columns, then one row per figure."""
        columns = [column.score.by_key for column in self.columns.values()]
        judged = ["judged" if name in self.judged else "not judged" for name in self.columns]
        rows = [["", *self.columns], ["", *judged]]
        for key, figure in self.figures.items():
            if not figure.detail:
                rows.append([figure.title, *(column[key].text if key in column else "-" for column in columns)])
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return the content of verify.json: plain data with the verdict and one entry of figures per column."""
        return {
            "schema_version": RECORD_VERSION,
            "policy": self.name,
            "sha256": self.sha256,
            "contract_sha256": "" if self.contract is None else self.contract.sha256,
            "task": self.task,
            "robot": self.robot.name,
            "robot_sha256": self.robot.sha256,
            "passed": self.passed,
            **({"incomplete": self.incomplete} if self.incomplete else {}),
            "reasons": self.failures,
            "worth": self.worth,
            "left_out": dict(self.left_out),
            "backends": {name: _entry(column) for name, column in self.columns.items()},
            "transfer": self.transfer.to_json(),
            **({} if self.reality is None else {"reality": self.reality.to_json()}),
            **self.record,
            "provenance": dict(self.provenance),
            "command": self.command,
        }


def _entry(column: Column) -> dict[str, Any]:
    return {
        "flown_in": column.simulator,
        **column.score.to_json(),
        "asked": {} if column.bounds is None else column.bounds.limits,
        "baselines": {who: score.to_json() for who, score in column.baselines.items()},
    }


def worth(simulators: Iterable[str], left_out: Mapping[str, str]) -> str:
    """Return the scope of a verification's evidence in a sentence, from its simulators.

    Args:
        simulators: Column names; those over topics end with :data:`OVER_TOPICS`.
        left_out: Simulators that do not support the task, and why.
    """
    names = list(dict.fromkeys(simulators))
    topics = [name.removesuffix(OVER_TOPICS).strip() for name in names if name.endswith(OVER_TOPICS)]
    bare = list(dict.fromkeys(name.removesuffix(OVER_TOPICS).removesuffix("(in process)").strip() for name in names))
    where = ", ".join(bare)
    if not topics:
        scope = f"Verified in process only, in {where}, not through the deployed nodes: deployment requires --force."
    elif len(bare) == 1:
        scope = f"Verified in one simulator only, {where}: the policy may exploit flaws of that simulator."
    else:
        scope = f"Verified in {where}, over topics in {', '.join(topics)}."
    return scope + (f" These simulators do not support the task: {', '.join(left_out)}." if left_out else "")


def environment() -> dict[str, Any]:
    """Return the provenance of the machine: time, Python, processors, versions of libraries."""
    versions = {}
    for package in ("rlstack", "numpy", "onnxruntime", "llvmlite", "mujoco", "pybullet", "ros-rclpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "versions": versions,
    }
