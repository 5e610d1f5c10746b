"""Record demonstrations into a dataset; an operator, a policy or a script chooses the actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.data.lerobot import DatasetWriter
from rlstack.demonstrations import metadata
from rlstack.demonstrations.task_file import task_description, write_task_file
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.action_recovery import action_of
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment, DemonstrationStep
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.verification.manipulation_trials import check_fits
from rlstack.verification.runner import Steppable, commanded, input_names

SAVE, DISCARD, STOP = "save", "discard", "stop"
"""Operator commands: end and keep the episode; drop it; stop recording."""

DISCARDED, ABORTED = "discarded", "aborted"
"""Reasons for episodes that the operator did not keep."""

_OFF = 1e-3
"""Deviation, rad or m, beyond which a command is no motion of this task: far above rounding, a fiftieth of a step."""

_TRIES = 20
"""Number of consecutive failed episodes after which recording stops."""


@dataclass(frozen=True)
class Choice:
    """The action for the next step.

    Attributes:
        action: (actions,) in -1..1.
        by_hand: Whether the operator chose it.
        waiting: The episode has not begun: time stands still and nothing is recorded.
        said: One of ``SAVE``, ``DISCARD``, ``STOP``, or nothing.
    """

    action: Array
    by_hand: bool = False
    waiting: bool = False
    said: str = ""


Decide = Callable[[DemonstrationEnvironment], Choice]
"""Called before every step; keeps real time if an operator acts."""


@dataclass(frozen=True)
class EpisodeResult:
    """How an episode ended.

    Attributes:
        number: Its index in the dataset; None: not kept.
        frames: Its length.
        success: Whether the task succeeded.
        why: Reason for not keeping it, in words, or nothing.
    """

    number: int | None
    frames: int
    success: bool
    why: str = ""


def expert(station: DemonstrationEnvironment) -> Choice:
    """Choose the action of the task's scripted expert."""
    return Choice(station.expert())


class PolicyDemonstrator:
    """Demonstrates with a policy; see :data:`Decide`.

    Args:
        policy: The policy, loaded for the robot.
        task: The task with the settings of the policy's training.
        robot: The arm.

    Raises:
        UserError: The policy is for another robot or rate, or its inputs or outputs differ from the task's.
    """

    def __init__(self, policy: Steppable, task: ArmTask, robot: Manipulator) -> None:
        check_fits(policy, task, robot)
        self._policy, self._inputs = policy, input_names(policy)
        self._next = 0

    def __call__(self, station: DemonstrationEnvironment) -> Choice:
        """Return the policy's action for the observations; it resets with each episode, and after an intervention.

        Raises:
            UserError: Its command is not finite, or not a motion of the task, for example with other settings.
        """
        if station.steps == 0 or station.steps != self._next:
            self._policy.reset(1)
        self._next = station.steps + 1
        seen = station.senses()
        sensed = {name: seen[name][None] for name in self._inputs}
        command = commanded(self._policy, sensed, station.steps / station.task.rate_hz)[0]
        action, off = action_of(station, command)
        if station.steps == 0 and off > _OFF:  # after an intervention the arm is elsewhere than the policy assumes
            raise UserError(
                f"{self._policy.path} commands no tool motion of this task ({off:.2g} rad or m off):"
                " it was trained with other settings, or not by rlstack train."
            )
        return Choice(action)


def record(
    out: str | Path,
    name: str,
    task: ArmTask,
    robot: Manipulator,
    decide: Decide,
    episodes: int,
    *,
    seed: int = 0,
    keep_failures: bool = False,
    on_episode: Callable[[EpisodeResult], None] | None = None,
) -> list[EpisodeResult]:
    """Record demonstrations into the dataset in the folder ``out``, a new or an existing one.

    An episode is kept if it succeeds, or if the operator saves it; the dataset holds complete episodes only.

    Args:
        out: The dataset's folder.
        name: Name of the task.
        task: Its configuration.
        robot: The arm.
        decide: The demonstrator.
        episodes: Number of episodes to keep.
        seed: Seed of starts and noise, combined with the number of existing episodes.
        keep_failures: Keep failed episodes as well.
        on_episode: Called after every episode.

    Returns:
        All episodes, including those not kept.

    Raises:
        UserError: The dataset has another robot, rate, task or camera, or too many episodes fail.
    """
    if episodes < 1:
        raise UserError(f"{episodes} episodes cannot be recorded: give 1 or more.")
    path, found, kept, failed = Path(out), [], 0, 0
    metadata.check_metadata(path, name, task, robot)
    station: DemonstrationEnvironment = task.demonstration(robot, seed)
    try:
        with DatasetWriter(path, task.rate_hz, robot.name, metadata.features_of(station)) as writer:
            write_task_file(path, name, task)
            if writer.episodes:  # otherwise its first episodes would repeat
                station.close()
                drawn = np.random.SeedSequence((seed, writer.episodes)).generate_state(1)
                station = task.demonstration(robot, int(drawn[0]))
            while kept < episodes:
                ended, stop = _episode(station, writer, decide, keep_failures)
                if ended is not None:
                    found.append(ended)
                    kept += ended.number is not None
                    failed = failed + 1 if ended.number is None and ended.why not in (DISCARDED, ABORTED) else 0
                    if on_episode is not None:
                        on_episode(ended)
                if stop:
                    break
                if failed >= _TRIES:
                    raise UserError(
                        f"The last {failed} episodes all failed ({ended.why if ended else ''}), after {kept} that were"
                        " kept: give them longer, make the task easier, or keep failures too."
                    )
    finally:
        station.close()
    return found


def _episode(
    station: DemonstrationEnvironment, writer: DatasetWriter, decide: Decide, keep_failures: bool
) -> tuple[EpisodeResult | None, bool]:
    """Run one episode; return how it ended (None: it never began), and whether to stop."""
    station.begin()
    described = station.instruction or task_description(station.task)
    acted: DemonstrationStep | None = None
    while True:
        choice = decide(station)
        if choice.said:
            break
        if choice.waiting:
            continue
        before = metadata.observed(station)
        acted = station.act(choice.action)
        writer.add_frame(_frame(before, choice, acted))
        if acted.done:
            break
    count, stop = writer.frames, choice.said == STOP
    if acted is None or not count:
        return None, stop
    if choice.said in (DISCARD, STOP):
        writer.discard()
        return EpisodeResult(None, count, acted.success, DISCARDED if choice.said == DISCARD else ABORTED), stop
    if acted.success or choice.said == SAVE or keep_failures:
        return EpisodeResult(writer.end_episode(described), count, acted.success), stop
    writer.discard()
    return EpisodeResult(None, count, False, "it timed out" if acted.timed_out else "the object was lost"), stop


def _frame(before: dict[str, np.ndarray], choice: Choice, acted: DemonstrationStep) -> dict[str, object]:
    return {
        **before,
        metadata.ACTION: np.clip(choice.action, -1.0, 1.0).astype(np.float32),
        metadata.COMMAND: acted.command.astype(np.float32),
        metadata.REWARD: np.float32(acted.reward),
        metadata.SUCCESS: acted.success,
        metadata.DONE: acted.done,
        metadata.TERMINATED: acted.done and not acted.timed_out,
        metadata.INTERVENTION: choice.by_hand,
    }
