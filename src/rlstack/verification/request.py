"""What is asked of a verification: the policy, the simulators, numbers of trials, and whom to tell how far it is."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlstack.robots import RobotSpec
from rlstack.sim.vector import BATCH
from rlstack.verification.parallel import Spread
from rlstack.verification.schedule import OnColumn, Progress

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checked request for a verification.

    Args:
        policy: The policy file; None: a planner alone.
        given: The policy file as typed by the user.
        loaded: The policy, loaded for ``robot``.
        sha256: SHA-256 of its bytes.
        driver: A planner to verify instead, which may use the policy file; empty: the policy.
        task: The policy's task, or the task whose maps the planner drives.
        task_name: Its name.
        robot: The robot.
        named: The robot's name or file, as nodes load it.
        robot_option: The value of ``--robot``.
        names: ``batch`` and other simulators, all of them installed.
        topics: Whether to run over topics as well.
        episodes: Trials in every simulator; None takes the default.
        seed: Seed of starts, disturbances and noise.
        drivers: Classical planners to compare with; None takes the task's.
        thorough: Whether to run the large numbers of trials.
        margins: Axes of the reality grid to measure; None: all; ``("none",)``: none.
        quick: Whether trials may be shorter, for a proof within seconds.
        replay: Whether to make a film and a replay of trials.
        report: Called with how far the verification is.
        on_progress: Called with a part's name, the number done, and the total.
        on_column: Called with the name of a column that is complete, titles and values of its figures, and trials of it
            to watch.
        spread: Runs trials and margins in process elsewhere; None: on this machine.
    """

    policy: Path | None
    given: str
    loaded: Any
    sha256: str
    driver: str = ""
    task: Any
    task_name: str
    robot: RobotSpec
    named: str
    robot_option: str
    names: tuple[str, ...]
    topics: bool
    episodes: int | None
    seed: int
    drivers: tuple[str, ...] | None = None
    thorough: bool = False
    margins: tuple[str, ...] | None = None
    quick: bool = False
    replay: bool = True
    report: Callable[[Progress], None] | None = None
    on_progress: OnProgress | None = None
    on_column: OnColumn | None = None
    spread: Spread | None = None

    @classmethod
    def of_policy(cls, loaded: Any, robot: RobotSpec, named: str, **further: Any) -> Request:
        """Return the request for a policy in process, in the batch simulator, unless ``further`` fields say otherwise.

        Args:
            loaded: The policy, loaded for the robot.
            robot: The robot.
            named: Its name or file.
            further: Other fields; ``task``, ``episodes`` and ``seed`` are needed.
        """
        path = loaded.path
        own = {"policy": path, "given": str(path), "sha256": loaded.sha256, "task_name": loaded.contract.task}
        usual = {"robot_option": named, "names": (BATCH,), "topics": False}
        return cls(loaded=loaded, robot=robot, named=named, **{**own, **usual, **further})

    @property
    def name(self) -> str:
        """Name of the policy or planner."""
        return self.driver or str(self.loaded.contract.name)

    def progress_of(self, column: str) -> Callable[[int, int], None] | None:
        """Return a column's progress callback, called with the number done and the total."""
        report = self.on_progress
        return None if report is None else lambda done, count: report(column, done, count)

    def for_another_process(self) -> Request:
        """Return it without what only this process can hold: the loaded policy, and whom to tell."""
        return replace(self, loaded=None, report=None, on_progress=None, on_column=None, spread=None)

    @property
    def command(self) -> str:
        """The command that reproduces the verification."""
        typed = ["rlstack", "verify", *([self.given] if self.given else [])]
        typed += ["--driver", self.driver, "--task", self.task_name] if self.driver else []
        typed += ["--backends", ",".join(self.names), "--seed", str(self.seed)]
        typed += ["--episodes", str(self.episodes)] if self.episodes is not None else []
        typed += ["--thorough"] if self.thorough else []
        typed += ["--robot", self.robot_option] if self.robot_option else []
        typed += ["--drivers", ",".join(self.drivers)] if self.drivers is not None else []
        typed += ["--margins", ",".join(self.margins)] if self.margins is not None else []
        typed += [] if self.replay else ["--no-replay"]
        return shlex.join([*typed, *([] if self.topics else ["--no-topics"])])
