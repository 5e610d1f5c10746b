"""Manipulation trials in process: the policy file's graph in the batch simulator or in any engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.errors import UserError
from rlstack.interfaces.messages import seconds_to_ns
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies.catalogue import check_robot
from rlstack.sim.vector import BATCH, where_in_process
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification import runner
from rlstack.verification.arm_cell import ArmCell
from rlstack.verification.pictures import Pictures
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.runner import OnProgress, Steppable, in_batches, run

TOGETHER = 64
"""Arms simulated together in the batch simulator."""

_HELD_OUT = 8_000_000
"""Added to the seed: training draws from small ones."""


def held_out(task: Any, robot: Manipulator, episodes: int, seed: int) -> Trials:
    """Return trials that training does not draw."""
    drawn: Trials = task.draw(robot, np.random.default_rng(_HELD_OUT + seed), episodes)
    return drawn


def manipulate(
    policy: Steppable, task: Any, robot: Manipulator, trials: Trials, *, seed: int = 0, threads: int | None = None
) -> ManipulationRecord:
    """Run every trial of a policy in the batch simulator, all at once, and judge it.

    The policy receives the same observations as on its topics, with the task's noise; one step is one control period.

    Args:
        policy: The loaded policy; it keeps the recurrent state of the last step.
        task: The task; its ``done`` judges.
        robot: The arm.
        trials: N trials.
        seed: Seed of the noise.
        threads: Threads that step the worlds; None: one per core.

    Raises:
        UserError: The policy is for another robot or rate, needs unknown inputs, or its command is not finite.
    """
    begin = time.monotonic()
    check_fits(policy, task, robot)
    scene = ArmScene(task, robot, len(trials), seed, threads)
    try:
        arms = _Arms(scene, task, trials)
        run(policy, arms)
    finally:
        scene.close()
    return replace(arms.log.record(BATCH), wall_s=time.monotonic() - begin)


def try_in(
    policy: Steppable,
    task: Any,
    robot: Manipulator,
    trials: Trials,
    simulator: str,
    *,
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> ManipulationRecord:
    """Run every trial of a policy in process: in parallel in the batch simulator, one after the other in an engine.

    Args:
        policy: The loaded policy.
        task: The task.
        robot: The arm.
        trials: N trials.
        simulator: ``batch`` or a backend with an engine.
        seed: Seed of the noise.
        first: Number of the first trial.
        on_progress: Called with the number of trials done and the total.

    Raises:
        UserError: The policy or the simulator does not match, or a command is not finite.
    """
    begin, count = time.monotonic(), len(trials)
    if simulator == BATCH:

        def some(part: slice) -> ManipulationRecord:
            mine = trials.take(np.arange(part.start, part.stop))
            return manipulate(policy, task, robot, mine, seed=seed + first + part.start)

        return ManipulationRecord.joined(in_batches(some, count, TOGETHER, on_progress), time.monotonic() - begin)
    cell = ArmCell(simulator, task, robot, trials, seed, first)
    check_fits(policy, task, robot)
    log, pictures = ManipulationLog(cell.task, trials), Pictures(cell, policy.contract)
    cell.connect()
    try:
        in_batches(lambda part: run(policy, _Arm(cell, part.start, log, pictures)), count, 1, on_progress)
    finally:
        cell.close()
    return replace(log.record(where_in_process(simulator)), wall_s=time.monotonic() - begin)


class ManipulationLog:
    """Records the achieved position and loss of the object at each control period; used in process and over topics.

    Args:
        task: The task; its ``done`` judges.
        trials: N trials.
    """

    def __init__(self, task: Any, trials: Trials) -> None:
        self._task, self._goal = task, trials.goal
        self._achieved = np.full((task.steps + 1, len(trials), 3), np.nan)
        self._gone = np.zeros((task.steps + 1, len(trials)), dtype=np.bool_)

    def observe(self, rows: runner.Rows, k: int, achieved: Array, lost: Mask | bool) -> bool:
        """Record n trials after ``k`` periods; return whether they are over.

        Args:
            rows: Indices of the n trials.
            k: Periods since the start.
            achieved: (n, 3) m, achieved positions.
            lost: (n,) whether the object is lost.
        """
        self._achieved[k, rows], self._gone[k, rows] = achieved, lost
        return k >= int(self._task.steps)

    def record(self, simulator: str) -> ManipulationRecord:
        """Return the record of the trials."""
        return judged(self._task, self._achieved, self._goal, self._gone, simulator)


class _Arms(runner.Trials):
    """Trials simulated together in the batch simulator."""

    def __init__(self, scene: ArmScene, task: Any, trials: Trials) -> None:
        super().__init__(len(trials), task.rate_hz)
        self._scene, self._trials, self.log = scene, trials, ManipulationLog(task, trials)
        self._lost = np.zeros(len(trials), dtype=np.bool_)
        scene.start(np.arange(len(trials)), trials)

    def observe(self, k: int) -> Mask:
        return np.full(len(self), self.log.observe(slice(None), k, self._scene.achieved(), self._lost))

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        sensed = self._scene.noisy(self._scene.true())
        return {name: sensed[name] for name in names}

    def step(self, command: Array, over: Mask) -> None:
        self._scene.worlds.step(command)
        fresh = self._scene.lost() & ~self._lost
        if fresh.any():  # a diverged world must not end the other trials
            which: Index = np.flatnonzero(fresh)
            self._scene.start(which, self._trials.take(which))
            self._lost |= fresh


class _Arm(runner.Trials):
    """One trial in an engine, which runs at the robot's control rate."""

    def __init__(self, cell: ArmCell, number: int, log: ManipulationLog, pictures: Pictures) -> None:
        super().__init__(1, cell.task.rate_hz)
        self._cell, self._number, self._log, self._pictures = cell, number, log, pictures
        self._period = 0
        cell.enter(number)
        pictures.begin()

    @property
    def _now_ns(self) -> int:
        return seconds_to_ns(self._period / self._cell.robot.control_rate_hz)

    def observe(self, k: int) -> Mask:
        cell = self._cell
        return np.array([self._log.observe([self._number], k, cell.achieved[None], cell.lost)])

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        self._pictures.look(self._now_ns)
        sensed = {**self._cell.read().signals, "goal_position": self._cell.goal}
        sensed |= self._pictures.signals(names, self._now_ns)
        return {name: sensed[name][None] for name in names}

    def step(self, command: Array, over: Mask) -> None:
        cell = self._cell
        for k in range(cell.every):
            if k > 0:
                self._pictures.look(self._now_ns)
            cell.write({cell.commanded[0]: command[0]})
            cell.step(1.0 / cell.robot.control_rate_hz)
            self._period += 1


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
    """Judge N trials.

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
    # success at any time if it ends the episode; otherwise only if held to the end
    stays = np.isfinite(time_s) if task.ends else held >= task.hold_steps
    success = stays & (~gone[-1] | np.isfinite(time_s))
    return ManipulationRecord(
        simulator=simulator,
        rate_hz=task.rate_hz,
        success=success,
        lost=gone[-1] & ~success,
        time_s=np.where(success, time_s, np.inf),
        error_m=error,
        distance_m=np.array(distances),
    )
