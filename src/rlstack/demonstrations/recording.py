"""Record demonstrations into a dataset; an operator, a policy or a script chooses the actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.data.lerobot import DatasetWriter
from rlstack.demonstrations import metadata
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.demonstration import Acted, DemonstrationEnvironment
from rlstack.tasks.manipulator.task import ArmTask

SAVE, DISCARD, STOP = "save", "discard", "stop"
"""Operator commands: end and keep the episode; drop it; stop recording."""

DISCARDED, BROKEN_OFF = "discarded", "broken off"
"""Reasons for episodes that the operator did not keep."""

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
class Ended:
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
    on_episode: Callable[[Ended], None] | None = None,
) -> list[Ended]:
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
    station = DemonstrationEnvironment(task, robot, seed)
    try:
        with DatasetWriter(path, task.rate_hz, robot.name, metadata.features_of(station)) as writer:
            metadata.write_metadata(path, name, task)
            if writer.episodes:  # otherwise its first episodes would repeat
                station.close()
                drawn = np.random.SeedSequence((seed, writer.episodes)).generate_state(1)
                station = DemonstrationEnvironment(task, robot, int(drawn[0]))
            while kept < episodes:
                ended, stop = _episode(station, writer, decide, keep_failures)
                if ended is not None:
                    found.append(ended)
                    kept += ended.number is not None
                    failed = failed + 1 if ended.number is None and ended.why not in (DISCARDED, BROKEN_OFF) else 0
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
) -> tuple[Ended | None, bool]:
    """Run one episode; return how it ended (None: it never began), and whether to stop."""
    station.begin()
    acted: Acted | None = None
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
        return Ended(None, count, acted.success, DISCARDED if choice.said == DISCARD else BROKEN_OFF), stop
    if acted.success or choice.said == SAVE or keep_failures:
        return Ended(writer.end_episode(metadata.words_of(station.task)), count, acted.success), stop
    writer.discard()
    return Ended(None, count, False, "its time was up" if acted.timed_out else "the object was lost"), stop


def _frame(before: dict[str, np.ndarray], choice: Choice, acted: Acted) -> dict[str, object]:
    return {
        **before,
        metadata.ACTION: np.clip(choice.action, -1.0, 1.0).astype(np.float32),
        metadata.COMMAND: acted.command.astype(np.float32),
        metadata.REWARD: np.float32(acted.reward),
        metadata.SUCCESS: acted.success,
        metadata.DONE: acted.done,
        metadata.TERMINATED: acted.done and not acted.timed_out,
        metadata.BY_HAND: choice.by_hand,
    }
