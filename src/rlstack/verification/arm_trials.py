"""Policies of arms at held-out trials in any simulator, in process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.interfaces.messages import seconds_to_ns
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.sim.vector import BATCH
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.arm_cell import ArmCell
from rlstack.verification.manipulation import check_fits, commanded, judged, manipulate
from rlstack.verification.pictures import Pictures
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.rollout import Steppable

TOGETHER = 64
"""Arms in the batch simulator at once."""


class TrialBook:
    """Keeps N trials as they go, one after the other, at the policy's rate.

    Args:
        cell: Where.
    """

    def __init__(self, cell: ArmCell) -> None:
        self._cell, task, count = cell, cell.task, len(cell.trials)
        self.periods = task.steps * cell.every
        """Of the robot, in a trial."""
        self._achieved = np.full((task.steps + 1, count, 3), np.nan)
        self._gone = np.zeros((task.steps + 1, count), dtype=np.bool_)

    def keep(self, number: int, period: int) -> bool:
        """Record a trial's present, after so many periods of the robot; return whether the trial is over."""
        if period % self._cell.every == 0:
            k = period // self._cell.every
            self._achieved[k, number], self._gone[k, number] = self._cell.achieved, self._cell.lost
        return period >= self.periods

    def judged(self, simulator: str) -> ManipulationRecord:
        """Return how they went."""
        return judged(self._cell.task, self._achieved, self._cell.trials.goal, self._gone, simulator)


def try_in(
    policy: Steppable,
    task: Any,
    robot: Manipulator,
    trials: Trials,
    simulator: str,
    *,
    seed: int = 0,
    first: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> ManipulationRecord:
    """Let a policy do every trial in process: many at once in the batch simulator, one after the other in an engine.

    Args:
        policy: As loaded.
        task: What is done.
        robot: Which arm.
        trials: N of them.
        simulator: ``batch`` or a backend with an engine.
        seed: Of the noise.
        first: The number of the first trial.
        on_progress: Called with the trials done and their total.

    Raises:
        UserError: The policy or the simulator does not fit, or a command is not finite.
    """
    begin, count = time.monotonic(), len(trials)
    if simulator == BATCH:
        parts = []
        for k in range(0, count, TOGETHER):
            some = trials.take(np.arange(k, min(k + TOGETHER, count)))
            parts.append(manipulate(policy, task, robot, some, seed=seed + first + k))
            if on_progress is not None:
                on_progress(k + len(some), count)
        return ManipulationRecord.joined(parts, time.monotonic() - begin)
    cell = ArmCell(simulator, task, robot, trials, seed, first)
    inputs, output = check_fits(policy, task, robot)
    cell.connect()
    book, pictures = TrialBook(cell), Pictures(cell, policy.contract)
    try:
        for number in range(count):
            cell.enter(number)
            policy.reset()
            pictures.begin()
            period, command = 0, np.zeros(0)
            while not book.keep(number, period):
                at_s = period / robot.control_rate_hz
                pictures.look(seconds_to_ns(at_s))
                if period % cell.every == 0:
                    sensed = {**cell.read().signals, "goal_position": cell.goal}
                    sensed |= pictures.signals(inputs, seconds_to_ns(at_s))
                    command = commanded(policy, {name: sensed[name] for name in inputs}, output, at_s)
                cell.write({output: command})
                cell.step(1.0 / robot.control_rate_hz)
                period += 1
            if on_progress is not None:
                on_progress(number + 1, count)
    finally:
        cell.close()
    return replace(book.judged(f"{simulator} (in process)"), wall_s=time.monotonic() - begin)
