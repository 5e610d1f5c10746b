"""Policies of arms at held-out trials, in process: the deployed graph, many arms at once, in MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.evaluation.rollout import Steppable
from rlstack.policies import PolicyOutputError
from rlstack.policies.catalogue import check_robot
from rlstack.robots import Manipulator
from rlstack.tasks.arms.bench import Bench
from rlstack.tasks.arms.trials import Trials

Array = NDArray[np.float64]

_HELD_OUT = 8_000_000
"""Added to the seed: training draws from small ones."""


@dataclass(frozen=True)
class Manipulated:
    """How N trials went.

    Args:
        success: (N,) whether what was asked was so for long enough, and nothing was lost before.
        lost: (N,) whether the object left the table, or a number was not finite.
        time_s: (N,) when it had succeeded, s; infinite where it has not.
        error_m: (N,) what was left to the goal at the end.
        distance_m: (steps + 1, N) the same all along; NaN after the loss.
    """

    success: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    time_s: Array
    error_m: Array
    distance_m: Array

    def figures(self) -> dict[str, float]:
        """Return what reports show; all finite."""
        taken = self.time_s[self.success]
        found = {
            "episodes": float(len(self.success)),
            "success": float(self.success.mean()),
            "lost": float(self.lost.mean()),
        }
        if self.success.any():
            found["time_s"] = round(float(taken.mean()), 4)
            found["error_m"] = round(float(np.median(self.error_m[self.success])), 6)
        return found


def held_out(task: Any, robot: Manipulator, episodes: int, seed: int) -> Trials:
    """Return trials that no training drew."""
    drawn: Trials = task.draw(robot, np.random.default_rng(_HELD_OUT + seed), episodes)
    return drawn


def manipulate(
    policy: Steppable, task: Any, robot: Manipulator, trials: Trials, *, seed: int = 0, threads: int | None = None
) -> Manipulated:
    """Let a policy do every trial, each for as long as an episode lasts, and judge it.

    The policy senses what it would sense on its topics, with the task's noise; one step is one control period.

    Args:
        policy: As loaded; it is left with the recurrent state of the last step.
        task: Which; its ``done`` judges.
        robot: Which arm.
        trials: N of them.
        seed: Of the noise.
        threads: That step the worlds; None: as many as there are cores.

    Raises:
        UserError: The policy is for another robot or rate, wants what is not sensed, or its command is not finite.
    """
    contract, count = policy.contract, len(trials)
    check_robot(contract, robot, str(policy.path))
    if contract.rate_hz != task.rate_hz:
        raise UserError(f"{policy.path} runs at {contract.rate_hz:g} Hz, and this task at {task.rate_hz:g} Hz.")
    inputs, output = [port.name for port in contract.inputs], contract.outputs[0].name
    if missing := [name for name in inputs if name not in task.inputs]:
        raise UserError(f"{policy.path} wants {', '.join(missing)}, and the task senses {', '.join(task.inputs)}.")
    if output != "joint_target":
        raise UserError(f"{policy.path} commands {output}, and arms take joint_target.")
    bench = Bench(task, robot, count, seed, threads)
    everyone = np.arange(count)
    bench.start(everyone, trials)
    policy.reset(count)
    held, time_s = np.zeros(count, dtype=np.intp), np.full(count, np.inf)
    lost = np.zeros(count, dtype=np.bool_)
    distances, error = [], np.zeros(count)
    try:
        for k in range(task.steps + 1):
            achieved = bench.achieved()
            held = np.where(task.done(achieved, bench.goal) & ~lost, held + 1, 0)
            time_s = np.where((held >= task.hold_steps) & np.isinf(time_s), k / task.rate_hz, time_s)
            error = np.where(lost, error, np.linalg.norm(bench.goal - achieved, axis=1))
            distances.append(np.where(lost, np.nan, error))
            if k == task.steps:
                break
            sensed = bench.noisy(bench.true())
            try:
                command = policy.step({name: sensed[name] for name in inputs})[output]
            except PolicyOutputError as error_:
                raise UserError(
                    f"{error_} That was {k / task.rate_hz:g} s into the trials: train it again."
                ) from error_
            bench.worlds.step(command)
            gone = bench.lost() & ~lost
            if gone.any():  # one that left the numbers must not end the others' trials
                bench.start(np.flatnonzero(gone), trials.take(np.flatnonzero(gone)))
                lost |= gone
    finally:
        bench.close()
    success = _succeeded(task, held, time_s) & (~lost | np.isfinite(time_s))
    return Manipulated(success, lost & ~success, np.where(success, time_s, np.inf), error, np.array(distances))


def _succeeded(task: Any, held: NDArray[np.intp], time_s: Array) -> NDArray[np.bool_]:
    """Return who has done it: once, where that ends an episode; else who stays there to its end."""
    return np.isfinite(time_s) if task.ends else held >= task.hold_steps
