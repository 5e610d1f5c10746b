"""Manipulation trials: in process, spread over worker processes, and over ROS topics in lock step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.episode_runner import EpisodeRecorder, StillGoals, run_episodes
from rlstack.bringup.parallel import OnProgress, run_trials
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies import load_policy
from rlstack.sim.vector import BATCH
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.arm_cell import ArmCell
from rlstack.verification.manipulation import ManipulationLog, try_in
from rlstack.verification.records import ManipulationRecord

LEAST_IN_ENGINES = 10
"""Trials that justify another process in an engine; the batch simulator has its own threads."""


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
    """Run :func:`rlstack.verification.manipulation.try_in` in as many processes as pay off.

    Raises:
        UserError: The policy or the simulator does not fit, or a command is not finite.
    """
    least = len(trials) + 1 if simulator == BATCH else LEAST_IN_ENGINES
    common = {"policy": policy, "task": task, "robot": robot, "simulator": simulator, "seed": seed}
    return run_trials(_try_share, trials, least=least, on_progress=on_progress, **common)


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
    """Run every trial in sequence through the policy node and guard of a deployment.

    Args:
        policy: The policy file.
        task: The task.
        robot: The arm.
        trials: N trials.
        backend_name: A simulator.
        robot_name: The name or file that the nodes load; empty for the robot's name.
        seed: Seed of the noise, combined with the trial's number.
        first: The number of the first trial.
        on_progress: Called after every trial with the number done and the total.

    Raises:
        UserError: The backend does not support this, a node exited, or a command did not arrive.
    """
    recorder = _Recorder(ArmCell(backend_name, task, robot, trials, seed, first), on_progress)
    found = run_episodes(policy, robot_name or robot.name, backend_name, recorder)
    return replace(recorder.log.record(found["simulator"]), **{**found, "rate_hz": task.rate_hz})


class _Recorder(EpisodeRecorder):
    """Records the object or tool that must reach the goal; an episode ends at its time limit."""

    def __init__(self, cell: ArmCell, on_progress: OnProgress | None) -> None:
        super().__init__(cell, on_progress)
        self.log = ManipulationLog(cell.task, cell.trials)
        self.goals = StillGoals(cell.trials.goal, np.zeros(len(cell.trials)))

    def record(self) -> bool:
        k, between = divmod(self.period, self.simulator.every)
        if between:
            return False
        return self.log.observe([self.episode], k, self.simulator.achieved[None], self.simulator.lost)
