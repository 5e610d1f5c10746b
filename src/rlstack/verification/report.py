"""The report that a flight needs: one verification as a page to read, pictures, and the same figures as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.policies.contract import Contract
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.disagreement import Disagreement
from rlstack.verification.metrics import Score, judge
from rlstack.verification.records import FlightRecord
from rlstack.verification.transfer import TransferTable

if TYPE_CHECKING:
    from rlstack.verification.plots import Plot

RECORD_VERSION = 2
"""Raised when a key of verify.json changes its meaning."""

PAGE_NAME, RECORD_NAME = "report.html", "verify.json"
IN_PROCESS_NAME = "verify_in_process.json"
"""The record of flights none of which was over topics: no proof, and it must not replace one."""

OVER_TOPICS = "(topics)"
"""Ends what flights through the nodes that are deployed are called."""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """One policy file, flown and judged.

    The mappings are by backend name as the user types it, such as ``batch`` and ``mujoco``, all in the same order.

    Args:
        contract: The policy's.
        sha256: Of the policy file's bytes, as ``sha256sum`` prints it.
        robot: What was flown.
        scores: The figures.
        bounds: What each backend had to reach.
        episodes: The flights; may be left out of the record, not of the report.
        scenarios: What was flown.
        reasons: Why it fails whatever the figures say, such as a backend that was asked for and is not installed.
        baselines: Figures of classical controllers by their names, on the same episodes of a backend; to compare
            with, not judged. A backend in which none was flown is left out.
        transfer: The policy and the classical controllers in each simulator.
        disagreements: How far the simulators come apart under the same commands, the largest first.
        provenance: Seeds, versions, time; plain data.
        command: What to type to get the same again.
    """

    contract: Contract
    sha256: str
    robot: Quadrotor
    scores: Mapping[str, Score]
    bounds: Mapping[str, Bounds]
    episodes: Mapping[str, FlightRecord]
    scenarios: Mapping[str, Scenario]
    reasons: tuple[str, ...] = ()
    baselines: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)
    transfer: TransferTable = TransferTable({})
    disagreements: Sequence[Disagreement] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    def __post_init__(self) -> None:
        names = list(self.scores)
        for what in ("bounds", "episodes", "scenarios"):
            if list(getattr(self, what)) != names:
                raise ValueError(f"{what} are of {list(getattr(self, what))}, but scores of {names}")
        if not set(self.baselines) <= set(names):
            raise ValueError(f"baselines are of {list(self.baselines)}, but scores of {names}")
        criteria = {s.criteria for s in self.scores.values()}
        if len(criteria) > 1:
            raise ValueError(f"the backends are scored by different criteria: {criteria}")
        if not names and not self.reasons:
            raise ValueError("nothing was flown and no reason is given")

    @property
    def record_name(self) -> str:
        """What its record is called."""
        over_topics = any(flown.simulator.endswith(OVER_TOPICS) for flown in self.episodes.values())
        return RECORD_NAME if over_topics or not self.episodes else IN_PROCESS_NAME

    @property
    def failures(self) -> list[str]:
        """Why it does not pass, a sentence each; empty if it passes."""
        failures = list(self.reasons)
        for name, score in self.scores.items():
            failures += [f"{name}: {reason}" for reason in judge(score, self.bounds[name])[1]]
        return failures

    @property
    def passed(self) -> bool:
        """Whether every backend reached its bounds and nothing else spoke against it."""
        return not self.failures


def worth(simulators: Iterable[str], left_out: Mapping[str, str]) -> str:
    """Return in a sentence what a verification proves, from where it was done.

    Args:
        simulators: As columns call them; those over topics end with :data:`OVER_TOPICS`.
        left_out: Simulators that could not hold it, and why.
    """
    names = list(dict.fromkeys(simulators))
    topics = [name.removesuffix(OVER_TOPICS).strip() for name in names if name.endswith(OVER_TOPICS)]
    bare = list(dict.fromkeys(name.removesuffix(OVER_TOPICS).removesuffix("(in process)").strip() for name in names))
    where = ", ".join(bare)
    if not topics:
        told = f"Done in process only, in {where}: this proves nothing of the nodes that are deployed, and deployment"
        told += " asks for more (--force)."
    elif len(bare) == 1:
        told = f"Done in one simulator alone, {where}: nothing here tells what leans on that simulator."
    else:
        told = f"Done in {where}, over topics in {', '.join(topics)}."
    return told + (f" These could not hold it: {', '.join(left_out)}." if left_out else "")


def record(verification: Verification) -> dict[str, Any]:
    """Return what verify.json holds: plain data with the verdict and one entry of figures per backend."""
    v = verification
    return {
        "schema_version": RECORD_VERSION,
        "policy": v.contract.name,
        "sha256": v.sha256,
        "contract_sha256": v.contract.sha256,
        "task": v.contract.task,
        "robot": v.contract.robot,
        "robot_sha256": v.robot.sha256,
        "passed": v.passed,
        "reasons": v.failures,
        "backends": {
            name: {
                "flown_in": v.episodes[name].simulator,
                **score.to_json(),
                "asked": v.bounds[name].limits,
                "baselines": {who: theirs.to_json() for who, theirs in v.baselines.get(name, {}).items()},
            }
            for name, score in v.scores.items()
        },
        "transfer": v.transfer.to_json(),
        "disagreements": [d.to_json() for d in v.disagreements],
        "provenance": dict(v.provenance),
        "command": v.command,
    }


def write_report(folder: str | Path, verification: Verification) -> Path:
    """Write report.html, its pictures and verify.json into ``folder`` and return the page's path.

    The page needs nothing else: pictures and style are inside it. Every file is written whole or not at all, and
    verify.json last, so that what it says always comes with the rest. Files of an earlier report are replaced.

    Raises:
        UserError: matplotlib is missing, or a file cannot be written.
    """
    from rlstack.verification import page, plots

    contract = verification.contract
    rotor_names = contract.outputs[0].element_names if contract.outputs else ()

    def drawn() -> tuple[Sequence[Plot], str]:
        pictures = plots.draw(verification.episodes, verification.scores, rotor_names=rotor_names)
        return pictures, page.render(verification, pictures)

    return write_files(folder, verification.record_name, record(verification), drawn)


def write_files(
    folder: str | Path, name: str, data: Mapping[str, Any], page: Callable[[], tuple[Sequence[Plot], str]]
) -> Path:
    """Write a page, its pictures and a record into ``folder`` and return the page's path.

    Every file is written whole or not at all, and the record last, so that what it says always comes with the rest.

    Args:
        folder: It is made where it is missing.
        name: The record's.
        data: What it holds.
        page: Makes the pictures and the page, once it is clear that the record can be written.

    Raises:
        UserError: A file cannot be written.
    """
    try:
        text = json.dumps(data, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"The provenance cannot be written as JSON ({error}): give plain, finite values.") from error
    pictures, shown = page()
    for picture in pictures:
        write_atomically(Path(folder) / picture.file, picture.png)
    write_atomically(Path(folder) / PAGE_NAME, shown)
    write_atomically(Path(folder) / name, text + "\n")
    return Path(folder) / PAGE_NAME


def environment() -> dict[str, Any]:
    """Return what the flights ran on, for the provenance: time, Python, processors, versions of what takes part."""
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
