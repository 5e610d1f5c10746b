"""Whole episodes of any task as a LeRobot dataset: what the policy's network observed, did and was rewarded with.

Arms have datasets of their own, which hold the sensors' signals and serve other learners, too
(:mod:`rlstack.training.dataset_demonstrations`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.data.lerobot import ACTION, Dataset, DatasetWriter, Feature, check_fits, number, vector
from rlstack.demonstrations.metadata import DONE, OBSERVATION, REWARD, SUCCESS, TERMINATED
from rlstack.demonstrations.task_file import (
    TASK_FILE,
    read_task_file,
    settings_of,
    task_description,
    task_name,
    write_task_file,
)
from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.hindsight_replay import Rows, went_on


def features_of(pipeline: Pipeline) -> dict[str, Feature]:
    """Return the features of a frame: observation (columns,), action (actions,) in -1..1, reward and outcome."""
    columns = [f"{row.name}.{k}" for row in pipeline.table() for k in range(row.size)]
    outcome = {SUCCESS: number("bool"), DONE: number("bool"), TERMINATED: number("bool")}
    actions = [f"action.{k}" for k in range(pipeline.action_size)]
    return {OBSERVATION: vector(*columns), ACTION: vector(*actions), REWARD: number(), **outcome}


def record_episodes(
    out: Path, environment: Any, act: Callable[[Tensor], Tensor], seconds: float, robot: str = ""
) -> int:
    """Record episodes of N robots, however they end, into a new dataset; return their number.

    Args:
        out: The dataset's folder.
        environment: N robots of a task; a :class:`rlstack.tasks.core.learning_environment.GoalEnvironment`.
        act: Returns the actions (N, actions) for observations (N, columns).
        seconds: Recorded time of all robots together, s; the last episodes end where it does.
        robot: Name of the robot; empty: the environment's.

    Raises:
        UserError: The folder holds another dataset.
    """
    task, count = environment.task, environment.count
    going: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    left = round(seconds * task.rate_hz)
    with DatasetWriter(out, task.rate_hz, robot or environment.robot.name, features_of(environment.pipeline)) as writer:
        write_task_file(out, task_name(task), task)
        environment.restart(torch.arange(count))
        seen = environment.observe()[0].clone()
        while left > 0:
            action = act(seen).clamp(-1.0, 1.0)
            result = environment.step(action)
            for robot_number in range(min(count, left)):
                going[robot_number].append(_frame(seen, action, result, robot_number))
            left -= min(count, left)
            for robot_number in np.flatnonzero(result.done.numpy() | (left == 0)).tolist():
                frames, going[robot_number] = going[robot_number], []
                for frame in frames:
                    writer.add_frame(frame)
                if frames:
                    writer.end_episode(task_description(task))
            seen = result.actor.clone()
        return int(writer.episodes)


def _frame(seen: Tensor, action: Tensor, result: GoalStep, robot: int) -> dict[str, Any]:
    return {
        OBSERVATION: seen[robot].numpy().copy(),
        ACTION: action[robot].numpy().copy(),
        REWARD: np.float32(result.reward[robot]),
        SUCCESS: bool(result.success[robot]),
        DONE: bool(result.done[robot]),
        TERMINATED: bool(went_on(result)[robot] == 0.0),
    }


def recorded_episodes(path: Path, environment: Any, chosen: Callable[[Dataset], Iterable[int]]) -> list[list[Rows]]:
    """Return episodes of a dataset as steps; see :func:`rlstack.training.dataset_demonstrations.recorded`.

    A dataset lacks the observation after the last frame. If the episode terminated there, it has no effect; otherwise
    that frame's action is dropped.

    Args:
        path: The dataset's folder.
        environment: Environment of the task.
        chosen: Returns the numbers of the episodes.

    Raises:
        UserError: The dataset is of another robot, rate, task or observation, or its rewards have other weights.
    """
    check_task(path, environment.task)
    held, features = Dataset(path), features_of(environment.pipeline)
    wanted = (environment.robot.name, environment.task.rate_hz, features)
    check_fits((held.robot_type, held.fps, held.features), wanted, str(path))
    return [_steps(held.read(episode, list(features))) for episode in chosen(held)]


def _steps(frames: Mapping[str, np.ndarray]) -> list[Rows]:
    seen, none = np.array(frames[OBSERVATION], np.float32), np.zeros(1, np.float32)
    steps: list[Rows] = [{"observation": seen[0], "achieved": none}]
    for k, action in enumerate(np.array(frames[ACTION], np.float32)):
        terminated = bool(np.ravel(frames[TERMINATED][k])[0])
        if k + 1 == len(seen) and not terminated:
            break
        steps.append(
            {
                "observation": seen[min(k + 1, len(seen) - 1)],
                "achieved": none,
                "action": action,
                "reward": np.array(np.ravel(frames[REWARD][k])[0], np.float32),
                "goes_on": np.array(0.0 if terminated else 1.0, np.float32),
            }
        )
    return steps


def check_task(path: Path, task: Any) -> None:
    """Refuse a dataset of another task, or whose rewards have other weights; raises ``UserError``, which says which."""
    held, mine = read_task_file(path), task_name(task)
    if held is None:
        raise UserError(f"{path / TASK_FILE} cannot be read: give a dataset of this task's episodes.")
    if held["task"] != mine:
        raise UserError(f"{path} holds episodes of {held['task']}, not of {mine}: give a dataset of {mine}.")
    reward, now = held["settings"].get("reward"), settings_of(task).get("reward")
    if now != reward:
        weights: dict[str, Any] = now or {}
        changed = [key for key in weights if not isinstance(reward, dict) or reward.get(key) != weights[key]]
        raise UserError(
            f"{path} was recorded with other weights of the reward ({', '.join(changed) or 'reward'}): train with"
            f" those of {path / TASK_FILE}."
        )
