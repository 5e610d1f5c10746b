"""Which action of a task a command to the joints is, and which leads to where joints are."""

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
"""Newton's steps at most; how far an action is moved to see what that does; rad or m off that need no other step."""


class Followed(NamedTuple):
    """Commands over N frames as actions."""

    action: Array
    """(N, actions) in -1..1."""
    tool_m: Array
    """(N, 3) where the tool is at each frame."""
    off_m: Array
    """(N,) how far from where each command leads the tool its action does."""


def action_of(station: DemonstrationEnvironment, command: Array) -> tuple[Array, float]:
    """Return the action (actions,) in -1..1 that drives a station's joints to a command (joints,) rad or m.

    Where several do, as at a limit, the one that moves least; and how far it is off, rad or m.
    """
    pipeline, seen = station.pipeline, station.environment.senses()
    prepared = {name: torch.from_numpy(array.astype(np.float32)) for name, array in seen.items()}
    action, left = _nearest(pipeline, prepared, command, lambda commands, _: commands)
    return action, float(np.abs(left).max())


def followed(pipeline: ArmPipeline, seen: Iterable[Mapping[str, NDArray[Any]]], commands: Array) -> Followed:
    """Return the actions that lead the tool, from frame to frame, where commands to the joints led it.

    By the tool and not by the joints, whose commands need not be those of a policy: an arm with more joints than it
    needs can be led there in many ways. Each begins where the command before it led, as
    :mod:`rlstack.training.dataset_demonstrations` has it, too.

    Args:
        pipeline: Of the task.
        seen: What is sensed at each of N frames in their sequence, by the pipeline's inputs, without a batch dimension.
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
            there = pipeline.led_to(driven, prepared)
            action, left = _nearest(pipeline, prepared, there[0].numpy().astype(np.float64), pipeline.led_to)
            _to_its_end(pipeline, action, command)
            done = torch.from_numpy(action.astype(np.float32)[None])
            memory = pipeline.remember_command(prepared, memory, done, driven)
        actions.append(action)
        tools.append(prepared["tool_position"][0].numpy().astype(np.float64))
        off.append(float(np.linalg.norm(left[:3])))
    return Followed(np.array(actions), np.array(tools), np.array(off))


def _to_its_end(pipeline: ArmPipeline, action: Array, command: Array) -> None:
    """Let a gripper that is commanded to an end of its range go there with all it has, and stay: what does the same.

    Who learns that an open gripper is to be left alone would not open one that is not.
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
    """Return the action (actions,) whose command has an outcome as near as can be to what is wanted, and what is left.

    By Gauss and Newton's method: commands are nearly linear in actions, but for ends of ranges, on one side of which an
    action does nothing.
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
    """Return the action (actions,) in -1..1 that leads a station's tool to where joints (joints,) rad or m have it.

    Straight, turned about the vertical as they have it, and no faster than actions go; the gripper follows its own.
    """
    pipeline, seen = station.pipeline, station.environment.senses()
    arm, range_ = pipeline.arm, (pipeline.minimum.numpy(), pipeline.maximum.numpy())
    there = tool_motion(pipeline.chain.screws, joints[None, :arm])
    apart = there.rotation[0] @ seen["target_rotation"][0].T
    turn = np.arctan2(apart[1, 0] - apart[0, 1], apart[0, 0] + apart[1, 1])  # also of a tool that leans over
    grip = np.zeros(1)
    if pipeline.hands:  # fingers that the leader arm has not are where they are
        left = (np.clip(joints, *range_) - seen["target"][0])[arm:]
        steps = left / [drive.velocity_max * pipeline.period_s for drive in station.robot.drives[arm:]]
        grip = np.clip(steps[[np.abs(steps).argmax()]], -1.0, 1.0)
    return toward(seen, pipeline, there.position, turn=np.array([turn]), grip=grip)[0]
