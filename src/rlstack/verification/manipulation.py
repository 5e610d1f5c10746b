"""Policies of arms at held-out trials, in process: the deployed graph, many arms at once, in MuJoCo."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies import PolicyOutputError
from rlstack.policies.catalogue import check_robot
from rlstack.sim.vector import BATCH
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.rollout import Steppable

_HELD_OUT = 8_000_000
"""Added to the seed: training draws from small ones."""


def held_out(task: Any, robot: Manipulator, episodes: int, seed: int) -> Trials:
    """Return trials that no training drew."""
    drawn: Trials = task.draw(robot, np.random.default_rng(_HELD_OUT + seed), episodes)
    return drawn


def manipulate(
    policy: Steppable, task: Any, robot: Manipulator, trials: Trials, *, seed: int = 0, threads: int | None = None
) -> ManipulationRecord:
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
    begin = time.monotonic()
    inputs, output = check_fits(policy, task, robot)
    count = len(trials)
    scene = ArmScene(task, robot, count, seed, threads)
    scene.start(np.arange(count), trials)
    policy.reset(count)
    lost = np.zeros(count, dtype=np.bool_)
    achieved: list[Array] = []
    gone: list[NDArray[np.bool_]] = []
    try:
        for k in range(task.steps + 1):
            achieved.append(scene.achieved())
            gone.append(lost.copy())
            if k == task.steps:
                break
            sensed = scene.noisy(scene.true())
            scene.worlds.step(commanded(policy, {name: sensed[name] for name in inputs}, output, k / task.rate_hz))
            fresh = scene.lost() & ~lost
            if fresh.any():  # one that left the numbers must not end the others' trials
                scene.start(np.flatnonzero(fresh), trials.take(np.flatnonzero(fresh)))
                lost |= fresh
    finally:
        scene.close()
    record = judged(task, np.array(achieved), trials.goal, np.array(gone), BATCH)
    return replace(record, wall_s=time.monotonic() - begin)


def check_fits(policy: Steppable, task: Any, robot: Manipulator) -> tuple[list[str], str]:
    """Return the names of a policy's inputs and of its output, which the task senses and the arm takes.

    Raises:
        UserError: The policy is for another robot or rate, or wants or commands something else.
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
    return inputs, output


def commanded(policy: Steppable, sensed: Mapping[str, Array], output: str, at_s: float) -> Array:
    """Return what a policy commands for what it senses, ``at_s`` into its trials.

    Raises:
        UserError: It is not finite.
    """
    try:
        return policy.step(sensed)[output]
    except PolicyOutputError as error:
        raise UserError(f"{error} That was {at_s:g} s into the trials: train it again.") from error


def judged(task: Any, achieved: Array, goal: Array, gone: NDArray[np.bool_], simulator: str) -> ManipulationRecord:
    """Return how N trials went.

    Args:
        task: Its ``done`` judges.
        achieved: (steps + 1, N, 3) m: what is to be at the goal, at every control period.
        goal: (N, 3) m.
        gone: (steps + 1, N) whether each was lost by then.
        simulator: Where the trials ran, for reports.
    """
    count = achieved.shape[1]
    held, time_s = np.zeros(count, dtype=np.intp), np.full(count, np.inf)
    distances, error = [], np.zeros(count)
    for k, (place, lost) in enumerate(zip(achieved, gone)):
        held = np.where(task.done(place, goal) & ~lost, held + 1, 0)
        time_s = np.where((held >= task.hold_steps) & np.isinf(time_s), k / task.rate_hz, time_s)
        error = np.where(lost, error, np.linalg.norm(goal - place, axis=1))
        distances.append(np.where(lost, np.nan, error))
    # once, where that ends an episode; else who stays there to its end
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
