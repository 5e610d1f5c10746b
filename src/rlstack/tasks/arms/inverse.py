"""Which action of a task a command to the joints is, and which leads to where joints are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rlstack.robots.kinematics import tool_motion
from rlstack.tasks.arms.expert import toward
from rlstack.tasks.arms.station import Station

Array = NDArray[np.float64]

_ROUNDS, _PROBE, _CLOSE = 6, 0.25, 1e-6
"""Newton's steps at most; how far an action is moved to see what that does; rad or m off that need no other step."""


def action_of(station: Station, command: Array) -> tuple[Array, float]:
    """Return the action (actions,) in -1..1 that drives a station's joints to a command (joints,) rad or m.

    Where several do, as at a limit, the one that moves least; and how far it is off, rad or m. Found by Gauss and
    Newton's method: commands are nearly linear in actions.
    """
    pipeline, seen = station.pipeline, station.environment.senses()
    count = pipeline.action_size
    moved = np.concatenate([np.zeros((1, count)), _PROBE * np.eye(count)])
    prepared = {name: torch.from_numpy(np.repeat(a.astype(np.float32), count + 1, axis=0)) for name, a in seen.items()}
    action, best, least = np.zeros(count), np.zeros(count), np.inf
    for _ in range(_ROUNDS):
        inwards = np.where(action > 0.0, -1.0, 1.0)
        probes = torch.from_numpy((action + inwards * moved).astype(np.float32))
        with torch.no_grad():
            found = pipeline.command(probes, prepared).numpy().astype(np.float64)
        left = command - found[0]
        if (off := float(np.abs(left).max())) < least:
            best, least = action, off
        if least < _CLOSE:
            break
        slopes = (found[1:] - found[0]).T / (inwards * _PROBE)
        action = np.clip(action + np.linalg.lstsq(slopes, left, rcond=1e-4)[0], -1.0, 1.0)
    return best, least


def action_toward(station: Station, joints: Array) -> Array:
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
