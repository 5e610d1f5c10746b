"""Episodes of tasks in the batch simulators from ROS 2 bags: what the policy's network would have observed, what the
robot was commanded, and what that was worth.

A bag has no rewards: they follow from the recorded motion and the world that the robot moved in
(:class:`rlstack.tasks.core.recorded_judge.RecordedJudge`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.arrays import Array
from rlstack.data.lerobot import ACTION, DatasetWriter
from rlstack.demonstrations.metadata import DONE, OBSERVATION, REWARD, SUCCESS, TERMINATED
from rlstack.demonstrations.task_file import task_description, task_name, write_task_file
from rlstack.errors import UserError
from rlstack.identification.motion_model import KindIdentification
from rlstack.identification.recorded import Recorded, Track, read_recording
from rlstack.interfaces.signals import signal_named
from rlstack.interfaces.topics import GOAL, GOAL_ACTIVE, LATCHED
from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec
from rlstack.sim.world import World
from rlstack.tasks.core.recorded_judge import Judgement, RecordedJudge
from rlstack.tasks.core.task import Task
from rlstack.training.recorded_episodes import check_task, features_of

_SILENT_S = 0.5
"""Age of a message above which it says nothing of the present."""
_SAME_S = 1e-3
"""Times that differ by less are one."""
_OFF = 0.05
"""Difference between a command and that of the nearest action, as a share of its range, above which it is none of the
task's: a guard that took over, or another controller."""
_SLOWER = 1.5
"""Largest time between two commands, in periods of the task."""


@dataclass(frozen=True)
class BagEpisodes:
    """A bag as episodes.

    Args:
        episodes: Frames of each, by feature.
        steps: Recorded steps of the task.
        foreign: Those of them whose command no action of the task gives, or whose inputs were missing.
        notes: Sentences on the bag.
    """

    episodes: list[list[dict[str, Any]]]
    steps: int
    foreign: int
    notes: tuple[str, ...]

    def describe(self) -> str:
        """Describe them in one line."""
        frames = [frame for episode in self.episodes for frame in episode]
        done, lost = (sum(bool(frame[name]) for frame in frames) for name in (SUCCESS, TERMINATED))
        left = f"; {self.foreign} of {self.steps} steps were not commanded as the task does" if self.foreign else ""
        reward = float(np.mean([frame[REWARD] for frame in frames])) if frames else 0.0
        return (
            f"{len(self.episodes)} episodes of {len(frames)} frames, {done} complete the task and {lost - done} are"
            f" lost, {reward:.3g} a step{left}"
        )


def read_episodes(
    path: Path,
    task: Task,
    robot: RobotSpec,
    world: World,
    *,
    goal: Sequence[float] | None = None,
    namespace: str = "",
    command: str = "",
) -> BagEpisodes:
    """Read a bag as episodes of a task: each ends where the task is lost or complete, the goal changes, time is up, or
    somebody else commanded.

    Args:
        path: The bag.
        task: The task.
        robot: The robot.
        world: Where it moved, in the frame of its odometry.
        goal: The goal, m, with the heading 0; None: the bag's.
        namespace: Namespace of the robot's topics; empty: the only one.
        command: Topic of the commands; empty: that which the guard lets through.

    Raises:
        UserError: The task has no rewards of recordings, the bag lacks a signal or is slower than the task, or most of
            its commands are none of the task's.
    """
    made: Any = task
    pipeline = made.pipeline(robot)
    judge: RecordedJudge = task.judge(robot, pipeline, world)
    recorded = _read(path, made, robot, judge, namespace, command, given=goal is not None)
    period_s = 1.0 / task.rate_hz
    commands = recorded.tracks[signal_named(pipeline.output).topic]
    if commands.period_s > _SLOWER * period_s:
        raise UserError(
            f"{path}: its commands come {1.0 / commands.period_s:.3g} times a second, and {task_name(task)} acts"
            f" {task.rate_hz:g} times: record one that is driven at that rate."
        )
    moments = _Moments(recorded, pipeline.output, period_s)
    signals = {
        name: moments.signal(name) for name in dict.fromkeys((*made.inputs, *judge.motion)) if _recorded(name, goal)
    }
    if goal is not None:
        pose = {"goal_position": [*goal][:3], "goal_orientation": [0.0, 0.0, 0.0, 1.0]}
        signals |= {
            name: torch.tensor(pose[name]).expand(len(moments.time_s), -1) for name in pose if name in made.inputs
        }
    known = (
        moments.fresh & torch.stack([values.isfinite().all(dim=1) for values in signals.values()]).all(dim=0).numpy()
    )
    inputs = {name: signals[name].nan_to_num() for name in made.inputs}
    observed, action, memory, off = _answered(pipeline, inputs, moments.command)
    usable = known[:-1] & known[1:] & (off < _OFF)
    if not usable.any() or float(np.mean(off < _OFF)) < 0.5:
        raise UserError(
            f"{path}: {100.0 * float(np.mean(off >= _OFF)):.0f}% of its commands are none that {task_name(task)} gives:"
            " they are faster than the task's, or another controller's that drives otherwise."
        )
    judged = judge({n: v.nan_to_num() for n, v in signals.items()}, memory, action, period_s)
    aims = signals.get("goal_position")
    changed = np.zeros(len(usable), bool) if aims is None else (aims[1:] != aims[:-1]).any(dim=1).numpy()
    episodes = _cut(observed, action, judged, usable, changed, task.steps)
    return BagEpisodes(episodes, len(usable), int((~usable).sum()), recorded.notes)


def write_episodes(out: Path, found: BagEpisodes, task: Task, robot: RobotSpec) -> None:
    """Add episodes to a dataset, a new one or one of the same task, robot and reward.

    Raises:
        UserError: The folder holds another one.
    """
    if (out / "meta" / "info.json").exists():
        check_task(out, task)
    made: Any = task
    with DatasetWriter(out, task.rate_hz, robot.name, features_of(made.pipeline(robot))) as writer:
        write_task_file(out, task_name(task), task)
        for frames in found.episodes:
            for frame in frames:
                writer.add_frame(frame)
            writer.end_episode(task_description(task))


def _recorded(name: str, goal: Sequence[float] | None) -> bool:
    return goal is None or not name.startswith("goal_")


def _read(
    path: Path, task: Any, robot: RobotSpec, judge: RecordedJudge, namespace: str, command: str, *, given: bool
) -> Recorded:
    kind: KindIdentification = find_kind(robot.kind).load("identification")
    wanted = tuple(dict.fromkeys((*judge.motion, *task.inputs, *task.outputs)))
    how: dict[str, Any] = {"reference": judge.motion[0], "names": kind.names(robot), "readers": kind.readers(robot)}
    optional = [name for name in wanted if given and name.startswith("goal_")]
    own = signal_named(task.outputs[0]).topic
    how |= {"instead": {GOAL: GOAL_ACTIVE, own: command or own}, "answers": True}
    return read_recording(path, wanted, optional=optional, namespace=namespace, **how)


class _Moments:
    """The moments at which a policy would have acted, ``period_s`` apart from the first command on."""

    def __init__(self, recorded: Recorded, output: str, period_s: float) -> None:
        self._recorded = recorded
        sent = recorded.tracks[signal_named(output).topic]
        last = min(track.time_s[-1] for name, track in recorded.tracks.items() if name not in LATCHED)
        count = int((last - sent.time_s[0]) / period_s + _SAME_S) + 1
        self.time_s = sent.time_s[0] + period_s * np.arange(count)
        self.fresh = np.ones(count, dtype=bool)
        """(moments,) whether every signal that was asked for had been measured a short time ago."""
        # the last command before the next moment: those of rlstack's nodes come at once, others a little later
        at = self._newest(sent, self.time_s[:-1] + period_s - 2.0 * _SAME_S)
        self.command = torch.from_numpy(sent.values[output][at.clip(0)]).float()
        self.fresh[:-1] &= (at >= 0) & (self.time_s[:-1] - sent.time_s[at.clip(0)] < _SILENT_S)

    def signal(self, name: str) -> Tensor:
        """Return the newest values (moments, width) of a signal at each moment."""
        topic = signal_named(name).topic
        track = self._recorded.tracks[topic]
        at = self._newest(track, self.time_s)
        self.fresh &= at >= 0
        if topic not in LATCHED:
            self.fresh &= self.time_s - track.time_s[at.clip(0)] < _SILENT_S
        return torch.from_numpy(track.values[name][at.clip(0)]).float()

    @staticmethod
    def _newest(track: Track, time_s: Array) -> NDArray[np.intp]:
        return np.asarray(np.searchsorted(track.time_s, time_s + _SAME_S, side="right") - 1)


def _answered(
    pipeline: Any, inputs: Mapping[str, Tensor], command: Tensor
) -> tuple[Tensor, Tensor, list[dict[str, Tensor]], Array]:
    """Return what the network would have observed at each of N + 1 moments, and what the N commands were as actions.

    Returns:
        Observations (N + 1, columns); actions (N, actions); the memory at each moment, with ``last_action``; how far
        (N,) each action's command is from the recorded one, as a share of its range.
    """
    observed, actions, off = list[Tensor](), list[Tensor](), list[float]()
    state, last = pipeline.initial_memory(1), torch.zeros(1, pipeline.action_size)
    memory = [{**state, "last_action": last}]
    span = pipeline.maximum - pipeline.minimum
    with torch.no_grad():
        for k in range(len(command) + 1):
            prepared = pipeline.prepare({name: values[k : k + 1] for name, values in inputs.items()}, state)
            observed.append(pipeline.observe(prepared, state)[0])
            if k == len(command):
                break
            sent = command[k : k + 1]
            last = pipeline.action_of(sent, prepared)
            off.append(float(((pipeline.command(last, prepared) - sent).abs() / span).max()))
            state = pipeline.remember_command(prepared, state, last, sent)
            actions.append(last[0])
            memory.append({**state, "last_action": last})
    return torch.stack(observed), torch.stack(actions), memory, np.array(off)


def _cut(
    observed: Tensor,
    action: Tensor,
    judged: Judgement,
    usable: NDArray[np.bool_],
    changed: NDArray[np.bool_],
    most: int,
) -> list[list[dict[str, Any]]]:
    """Return the steps as episodes; one that is over begins anew when it is no longer lost or complete."""
    episodes, frames, over = list[list[dict[str, Any]]](), list[dict[str, Any]](), False

    def end() -> None:
        nonlocal frames
        if frames:
            frames[-1][DONE] = True
            episodes.append(frames)
        frames = []

    for k in range(len(usable)):
        lost, arrived = bool(judged.lost[k]), bool(judged.arrived[k])
        if usable[k] and not over:
            frame: dict[str, Any] = {
                OBSERVATION: observed[k].numpy(),
                ACTION: action[k].numpy(),
                REWARD: np.float32(judged.reward[k]),
            }
            frame |= {SUCCESS: arrived and not lost, DONE: False, TERMINATED: lost or arrived}
            frames.append(frame)
        if not usable[k] or lost or arrived or changed[k] or len(frames) == most:
            end()
        over = (lost or arrived) and not changed[k]
    end()
    return episodes
