"""Manipulation trials in process: the policy file's graph in the batch simulator or in any engine."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies.chunkwise import chunkwise
from rlstack.policies.robot_contract import check_robot
from rlstack.sim.vector import BATCH
from rlstack.tasks.manipulator.scene import make_scene
from rlstack.tasks.manipulator.trials import ArmTrials
from rlstack.verification.camera_inputs import CameraInputs
from rlstack.verification.departures import NOMINAL, Departures, departed
from rlstack.verification.jointed_trials import SceneTrials, run_in_engine
from rlstack.verification.manipulation_simulator import ManipulationSimulator
from rlstack.verification.runner import OnProgress, Rows, Steppable, run, run_batches
from rlstack.verification.trial_records import ManipulationRecord

BATCH_SIZE = 64
"""Arms simulated together in the batch simulator."""

_HELD_OUT = 8_000_000
"""Added to the seed: training draws from small ones."""


def held_out(task: Any, robot: Manipulator, episodes: int, seed: int) -> ArmTrials:
    """Return trials that training does not draw."""
    drawn: ArmTrials = task.draw(robot, np.random.default_rng(_HELD_OUT + seed), episodes)
    return drawn


def manipulate(
    driver: Any,
    task: Any,
    robot: Manipulator,
    trials: ArmTrials,
    simulator: str = BATCH,
    *,
    name: str = "",
    seed: int = 0,
    first: int = 0,
    batch_size: int = BATCH_SIZE,
    threads: int | None = None,
    departures: Departures = NOMINAL,
    on_progress: OnProgress | None = None,
) -> ManipulationRecord:
    """Run every trial of a policy in process: together in the batch simulator, one after the other in an engine.

    The policy receives the same observations as on its topics, with the task's noise; one step is one control period.

    Args:
        driver: The loaded policy, or in the batch simulator any :class:`rlstack.verification.runner.Driver`.
        task: The task; its ``done`` judges.
        robot: The arm.
        trials: N trials.
        simulator: ``batch`` or a backend with an engine.
        name: Name of the policy, for reports.
        seed: Seed of the noise.
        first: Number of the first trial.
        batch_size: Largest number of trials at once in the batch simulator.
        threads: Threads that step the worlds of the batch simulator; None: one per core.
        departures: Departures of signals and commands in the batch simulator, unknown to the policy.
        on_progress: Called with the number of trials done and the total.

    Raises:
        UserError: The policy is for another robot or rate, needs unknown inputs, or its command is not finite; or the
            simulator does not support the robot or the task.
    """
    driver = chunkwise(driver)
    if simulator != BATCH:
        arm = ManipulationSimulator(simulator, task, robot, trials, seed, first)
        check_fits(driver, task, robot)
        arm.images = CameraInputs(arm, driver.contract)
        log = ManipulationLog(arm.task, trials)
        return cast(ManipulationRecord, run_in_engine(driver, arm, log, name, on_progress))
    if hasattr(driver, "contract"):  # an expert has none
        check_fits(driver, task, robot)

    def run_batch(part: ArmTrials, seed: int) -> ManipulationRecord:
        varied = part.departures is not None and part.departures.in_models
        log, scene = ManipulationLog(task, part), make_scene(task, robot, len(part), seed, threads, varied=varied)
        run(driver, departed(SceneTrials(scene, part, log, lambda: (scene.achieved(),)), departures, seed))
        return log.record(BATCH)

    options: dict[str, Any] = {"batch_size": batch_size, "name": name, "seed": seed, "first": first}
    return run_batches(run_batch, trials, BATCH, **options, on_progress=on_progress)


class ManipulationLog:
    """Records the achieved position and loss of the object at each control period; used in process and over topics.

    Args:
        task: The task; its ``done`` judges.
        trials: N trials.
    """

    def __init__(self, task: Any, trials: ArmTrials) -> None:
        self._task, self._goal = task, trials.goal
        self._achieved = np.full((task.steps + 1, len(trials), 3), np.nan)
        self._lost = np.zeros((task.steps + 1, len(trials)), dtype=np.bool_)

    def observe(self, rows: Rows, k: int, lost: Mask, achieved: Array) -> Mask:
        """Record n trials after ``k`` periods; return (n,) which of them are over.

        Args:
            rows: Indices of the n trials.
            k: Periods since the start.
            lost: (n,) whether the object is lost.
            achieved: (n, 3) m, achieved positions.
        """
        self._achieved[k, rows], self._lost[k, rows] = achieved, lost
        return np.full(len(lost), k >= self._task.steps)

    def record(self, simulator: str) -> ManipulationRecord:
        """Return the record of the trials."""
        return judged(self._task, self._achieved, self._goal, self._lost, simulator)


def check_fits(policy: Steppable, task: Any, robot: Manipulator) -> None:
    """Refuse a policy whose inputs or outputs the task does not provide.

    Raises:
        UserError: The policy is for another robot or rate, or has other inputs or outputs.
    """
    contract = policy.contract
    check_robot(contract, robot, str(policy.path))
    if contract.rate_hz != task.rate_hz:
        raise UserError(f"{policy.path} runs at {contract.rate_hz:g} Hz, and this task at {task.rate_hz:g} Hz.")
    inputs, output = [port.name for port in contract.inputs], contract.outputs[0].name
    if missing := [name for name in inputs if name not in task.inputs]:
        raise UserError(f"{policy.path} wants {', '.join(missing)}, and the task senses {', '.join(task.inputs)}.")
    if output != "joint_target":
        raise UserError(f"{policy.path} commands {output}, and arms take joint_target.")


def judged(task: Any, achieved: Array, goal: Array, gone: NDArray[np.bool_], simulator: str) -> ManipulationRecord:
    """Judge N trials: those succeed that have been at their goal for ``hold_s`` at their end, and were never lost.

    Args:
        task: The task; its ``done`` judges.
        achieved: (steps + 1, N, 3) m, achieved positions at every control period.
        goal: (N, 3) m.
        gone: (steps + 1, N) whether each trial was lost by then.
        simulator: Name of the simulator, for reports.
    """
    count = achieved.shape[1]
    held, time_s = np.zeros(count, dtype=np.intp), np.full(count, np.inf)
    distances, error = [], np.zeros(count)
    for k, (place, lost) in enumerate(zip(achieved, gone)):
        held = np.where(task.done(place, goal) & ~lost, held + 1, 0)
        time_s = np.where((held >= task.hold_steps) & np.isinf(time_s), k / task.rate_hz, time_s)
        error = np.where(lost, error, np.linalg.norm(goal - place, axis=1))
        distances.append(np.where(lost, np.nan, error))
    success = (held >= task.hold_steps) & ~gone.any(axis=0)
    return ManipulationRecord(
        simulator=simulator,
        rate_hz=task.rate_hz,
        success=success,
        lost=gone[-1],
        time_s=np.where(success, time_s, np.inf),
        error_m=error,
        distance_m=np.array(distances),
        labels=task.kinds_of(goal),
    )
