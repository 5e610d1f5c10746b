"""Recover a task's actions from joint commands or joint positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.arrays import Array
from rlstack.robots.kinematics import tool_motion
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment
from rlstack.tasks.manipulator.expert import toward
from rlstack.tasks.manipulator.pipeline import ArmPipeline

_ROUNDS, _PROBE, _CLOSE = 6, 0.25, 1e-6
"""Most Newton steps; step of finite differences; tolerance, rad or m."""


class RecoveredActions(NamedTuple):
    """Joint commands over N frames as actions."""

    action: Array
    """(N, actions) in -1..1."""
    tool_m: Array
    """(N, 3) tool positions."""
    off_m: Array
    """(N,) errors between the tool motions of each command and its action."""


def action_of(station: DemonstrationEnvironment, command: Array) -> tuple[Array, float]:
    """Return the action (actions,) in -1..1 for a joint command (joints,) rad or m, and its error, rad or m.

    If several actions fit, as at a limit, it is the smallest one. The error counts beyond what the arm sags: a command
    for drives of another stiffness makes up for more or less of that.
    """
    pipeline, seen = station.pipeline, station.environment.senses()
    prepared = {name: torch.from_numpy(array.astype(np.float32)) for name, array in seen.items()}
    action, left = _nearest(pipeline, prepared, command, lambda commands, _: commands)
    sags = float(np.abs(seen["sag"]).max()) if pipeline.sags else 0.0
    return action, max(float(np.abs(left).max()) - sags, 0.0)


def recover_actions(
    pipeline: ArmPipeline, seen: Iterable[Mapping[str, NDArray[Any]]], commands: Array
) -> RecoveredActions:
    """Return the actions that move the tool, from frame to frame, as the joint commands did.

    It matches tool motion, not joints: a redundant arm reaches a pose with many joint configurations. Each action
    starts where the previous command led, as in :mod:`rlstack.training.dataset_demonstrations`.

    Args:
        pipeline: The task's pipeline.
        seen: The pipeline's inputs at each of N frames in sequence, without a batch dimension.
        commands: (N, joints) rad or m.
    """
    memory = pipeline.initial_memory(1)
    actions, tools, off = [], [], []
    for inputs, command in zip(seen, commands):
        with torch.no_grad():
            prepared = pipeline.prepare(
                {name: torch.from_numpy(np.asarray(a, np.float32)[None]) for name, a in inputs.items()}, memory
            )
            driven = torch.from_numpy(command.astype(np.float32)[None])
            there = pipeline.tool_target(driven, prepared)
            action, left = _nearest(pipeline, prepared, there[0].numpy().astype(np.float64), pipeline.tool_target)
            _to_its_end(pipeline, action, command)
            done = torch.from_numpy(action.astype(np.float32)[None])
            memory = pipeline.remember_command(prepared, memory, done, driven)
        actions.append(action)
        tools.append(prepared["tool_position"][0].numpy().astype(np.float64))
        off.append(float(np.linalg.norm(left[:3])))
    return RecoveredActions(np.array(actions), np.array(tools), np.array(off))


def _to_its_end(pipeline: ArmPipeline, action: Array, command: Array) -> None:
    """Saturate the gripper's action at an end of its range, which has the same effect.

    Otherwise a policy learns to leave an open gripper alone, and does not open a closed one.
    """
    if "gripper" not in pipeline.axes:
        return
    low, high = (limit[pipeline.arm :].numpy() for limit in (pipeline.minimum, pipeline.maximum))
    hand, close = command[pipeline.arm :], 1e-4 * (high - low)
    if (hand >= high - close).all() or (hand <= low + close).all():
        action[pipeline.axes.index("gripper")] = 1.0 if (hand >= high - close).all() else -1.0


def _nearest(
    pipeline: ArmPipeline,
    prepared: Mapping[str, Tensor],
    wanted: Array,
    outcome: Callable[[Tensor, Mapping[str, Tensor]], Tensor],
) -> tuple[Array, Array]:
    """Return the action (actions,) whose command has the outcome nearest to the wanted one, and the residual.

    Gauss-Newton: commands are nearly linear in actions, except at ends of ranges, beyond which an action has no effect.
    """
    count = pipeline.action_size
    moved = _PROBE * np.concatenate([np.zeros((1, count)), np.eye(count), -np.eye(count)])
    several = {name: array.expand(len(moved), *array.shape[1:]) for name, array in prepared.items()}
    action, best, least = np.zeros(count), np.zeros(count), wanted + np.inf
    for _ in range(_ROUNDS):
        probes = torch.from_numpy((action + moved).astype(np.float32))
        with torch.no_grad():
            found = outcome(pipeline.command(probes, several), several).numpy().astype(np.float64)
        left = wanted - found[0]
        if np.linalg.norm(left) < np.linalg.norm(least):
            best, least = action, left
        if np.abs(least).max() < _CLOSE:
            break
        ahead, behind = (found[1 : count + 1] - found[0]).T, (found[0] - found[count + 1 :]).T
        further = np.linalg.norm(ahead, axis=0) >= np.linalg.norm(behind, axis=0)
        slopes = np.where(further, ahead, behind) / _PROBE
        action = np.clip(action + np.linalg.lstsq(slopes, left, rcond=1e-4)[0], -1.0, 1.0)
    return best, least


def action_toward(station: DemonstrationEnvironment, joints: Array) -> Array:
    """Return the action (actions,) in -1..1 that moves the tool to its pose for ``joints`` (joints,) rad or m.

    It moves straight, matches the yaw, and respects the action's speed limit; the gripper follows its own joints.
    """
    pipeline, seen = station.pipeline, station.environment.senses()
    arm, range_ = pipeline.arm, (pipeline.minimum.numpy(), pipeline.maximum.numpy())
    there = tool_motion(pipeline.chain.screws, joints[None, :arm])
    apart = there.rotation[0] @ seen["target_rotation"][0].T
    turn = np.arctan2(apart[1, 0] - apart[0, 1], apart[0, 0] + apart[1, 1])  # also valid for a tilted tool
    grip = np.zeros(1)
    if pipeline.hands:  # fingers that the leader arm lacks stay where they are
        left = (np.clip(joints, *range_) - seen["target"][0])[arm:]
        steps = left / [drive.velocity_max * pipeline.period_s for drive in station.robot.drives[arm:]]
        grip = np.clip(steps[[np.abs(steps).argmax()]], -1.0, 1.0)
    return toward(seen, pipeline, there.position, turn=np.array([turn]), grip=grip)[0]
