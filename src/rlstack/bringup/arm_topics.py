"""Trials of an arm over real topics, in lock step, through the nodes that are deployed; and trials shared out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.goal_publisher import GoalPublisher
from rlstack.bringup.parallel import OnProgress, in_processes, workers_for
from rlstack.bringup.turns import LEAST_TURNS, Recorder, take_turns
from rlstack.interfaces.backend import Signals
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies import load_policy
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.arm_cell import ArmCell
from rlstack.verification.arm_trials import TrialBook, try_in
from rlstack.verification.flock import BATCH
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.report import OVER_TOPICS

LEAST_IN_ENGINES = 10
"""Trials that a further process is worth in an engine; the batch simulator has threads of its own."""


def try_in_parallel(
    policy: Path,
    task: Any,
    robot: Manipulator,
    trials: Trials,
    simulator: str,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> ManipulationRecord:
    """Do what :func:`rlstack.verification.arm_trials.try_in` does, in as many processes as are worth it.

    Raises:
        UserError: As there; the first to fail ends all.
    """
    workers = 1 if simulator == BATCH else workers_for(len(trials), LEAST_IN_ENGINES)
    common = {"policy": policy, "task": task, "robot": robot, "simulator": simulator, "seed": seed}
    return _shared(_try_share, common, trials, workers, on_progress)


def _try_share(policy: Path, robot: Manipulator, **options: Any) -> ManipulationRecord:
    return try_in(load_policy(policy, robot=robot), robot=robot, **options)


def try_over_topics(
    policy: str | Path,
    task: Any,
    robot: Manipulator,
    trials: Trials,
    backend_name: str = "mujoco",
    *,
    robot_name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> ManipulationRecord:
    """Do every trial, one after the other, through the policy node and the guard of a deployment.

    The robot node runs in this process, the others in processes of their own, with all of the guard's rules. Time waits
    for every command, so the speed of this machine does not matter.

    Args:
        policy: The policy file.
        task: What is done.
        robot: Which arm.
        trials: N of them.
        backend_name: A simulator.
        robot_name: The name or file that the nodes load; empty takes the robot's name.
        seed: Of the noise, with the trial's number.
        first: The number of the first trial.
        on_progress: Called after every trial with those done and their total.

    Raises:
        UserError: The backend cannot do this, a node ended, or a command did not come.
    """
    cell = ArmCell(backend_name, task, robot, trials, seed, first)
    recorder = _Recorder(cell, on_progress)
    wall_s = take_turns(policy, "", robot_name or robot.name, backend_name, cell, recorder)
    record = recorder.book.judged(f"{backend_name} {OVER_TOPICS}")
    return replace(record, wall_s=wall_s, interventions=recorder.interventions, latency_s=recorder.latency_s)


def try_over_topics_in_parallel(
    policy: str | Path,
    task: Any,
    robot: Manipulator,
    trials: Trials,
    backend_name: str,
    *,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> ManipulationRecord:
    """Do what :func:`try_over_topics` does, in as many processes as are worth it.

    Raises:
        UserError: As there; the first to fail ends all.
    """
    common = {"policy": str(policy), "task": task, "robot": robot, "backend_name": backend_name, **options}
    return _shared(try_over_topics, common, trials, workers_for(len(trials), LEAST_TURNS), on_progress)


def _shared(
    work: Any, common: dict[str, Any], trials: Trials, workers: int, on_progress: OnProgress | None
) -> ManipulationRecord:
    """Return what the workers' shares of the trials come to."""
    if workers <= 1:
        alone: ManipulationRecord = work(**common, trials=trials, on_progress=on_progress)
        return alone
    shares = [
        {**common, "trials": trials.take(index), "first": int(index[0])}
        for index in np.array_split(np.arange(len(trials)), workers)
    ]
    parts: list[ManipulationRecord] = in_processes(work, shares, len(trials), on_progress)
    return ManipulationRecord.joined(parts, max(part.wall_s for part in parts))


@dataclass(frozen=True)
class _Goals:
    """What is sent to where."""

    goal_position: Array
    goal_yaw: Array
    path: None = None


class _Recorder(Recorder):
    """Does trials: a turn is one of them."""

    def __init__(self, cell: ArmCell, on_progress: OnProgress | None) -> None:
        super().__init__(cell, len(cell.trials), on_progress)
        self.book = TrialBook(cell)
        self._sent_goals = _Goals(cell.trials.goal, np.zeros(len(cell.trials)))

    def prepare(self, node: Any) -> None:
        self._goals = GoalPublisher(node, self._sent_goals)

    def announce(self) -> None:
        self._goals.send_goal(self.turn)

    def commanded(self, sent: Signals) -> None:
        """Trials keep no commands."""

    def keep(self) -> bool:
        return self.book.keep(self.turn, self.period)
