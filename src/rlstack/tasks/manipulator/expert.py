"""Scripted experts: their protocol, motions towards a position, and the grasp of a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array

ABOVE = 0.08
"""m above the object where the hand turns and opens before it descends, for objects of :data:`USUAL_HALF_M`."""

USUAL_HALF_M = 0.023
"""Half length of objects that these distances are for; they scale down for smaller ones."""

FINGERS = ("opening", "opening_target", "joint_velocity")
"""Inputs that detect whether an object stops the fingers."""

_SQUEEZED = 0.1
"""Share of the gripper's range by which fingers lag behind their target when an object is between them."""
_CLOSED = 0.9
"""Share of the gripper's range above which fingers have not begun to close."""
_OFF_TABLE = 0.02
"""m above an object's height on the table at which it has been lifted."""
_LEVEL, _TURNED, _SHUT = (0.008, 0.03), (0.08, 0.4), (0.15, 0.4)
"""Horizontal distance in m, rad, and share of the gripper's range by which it is not open: up to the first a hand that
comes down by degrees is right above the object, from the second on it is as high as ever."""
_TOO_LOW_M = 0.03
"""How far below that height a hand no longer moves across."""
_STILL = 0.2
"""1/s, as a share of that range: finger speed above which the lag is not evidence of an object."""


class Expert(Protocol):
    """A stateless script that does a task from the policy's inputs."""

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions) in -1..1.

        Args:
            seen: Prepared inputs of :class:`rlstack.tasks.manipulator.pipeline.ArmPipeline`, as numpy arrays.
            pipeline: Its scales.
        """


def toward(
    seen: Mapping[str, Array],
    pipeline: Any,
    place: Array,
    *,
    turn: Array | None = None,
    grip: Array | None = None,
    pace: Array | float = 1.0,
) -> Array:
    """Return the actions (N, actions) that move the tool's target straight to a position, at full speed by default.

    Args:
        seen: As of :meth:`Expert.act`, like ``pipeline``.
        pipeline: Its scales.
        place: (N, 3) m.
        turn: (N,) rad, wanted rotation of the tool about the vertical.
        grip: (N,) action of the gripper.
        pace: (N,) or one for all, largest share of the full speed along each axis.
    """
    motion, period = pipeline.motion, pipeline.period_s
    step = (place - seen["target_position"]) / (motion.speed_m_s * period)
    # scale all axes equally for a straight motion
    step = step / np.maximum(np.abs(step).max(axis=1) / pace, 1.0)[:, None]
    none = np.zeros(len(place))
    parts: dict[str, Array] = {"x": step[:, 0], "y": step[:, 1], "z": step[:, 2], "yaw": none, "gripper": none}
    if turn is not None:
        parts["yaw"] = np.clip(turn / (motion.yaw_rate_rad_s * period), -1.0, 1.0)
    if grip is not None:
        parts["gripper"] = grip
    return np.stack([parts[axis] for axis in pipeline.axes], axis=1)


def yaw_to_sides(seen: Mapping[str, Array], tool: str = "target_yaw") -> Array:
    """Return the smallest rotation (N,) rad that aligns the tool, or its target, with a square object."""
    x, y, z, w = seen["object_orientation"].T
    own = np.arctan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))
    now = np.arctan2(seen[tool][:, 1], seen[tool][:, 0])
    quarter = np.pi / 2
    return np.asarray((own - now + quarter / 2) % quarter - quarter / 2)


@dataclass(frozen=True)
class Grasp:
    """Next move of N hands towards a grasp.

    Args:
        place: (N, 3) m, target of the tool.
        turn: (N,) rad, its rotation about the vertical.
        grip: (N,) action of the gripper.
        held: (N,) whether the object is between the fingers.
    """

    place: Array
    turn: Array
    grip: Array
    held: NDArray[np.bool_]


def grasp(seen: Mapping[str, Array], pipeline: Any, half_m: float = USUAL_HALF_M) -> Grasp:
    """Return the next move of N hands, for objects of at most ``half_m``; the rest as of :meth:`Expert.act`."""
    size = min(half_m / USUAL_HALF_M, 1.0)
    above_m = max(size * ABOVE, 0.05)
    thing, tool = seen["object_position"], seen["tool_position"]
    opening = seen["opening"][:, 0]
    away = tool - thing
    level, height = np.linalg.norm(away[:, :2], axis=1), away[:, 2]
    # fingers that are commanded to close and do not: an object is between them
    held = (level < size * 0.025) & (np.abs(height) < size * 0.025) & stopped(seen, pipeline)
    around = (level < size * 0.02) & (height < 0.012)
    aligned = (level < size * 0.012) & (np.abs(yaw_to_sides(seen, "tool_yaw")) < 0.15)
    over = thing + np.array([0.0, 0.0, above_m])
    descending = (aligned | (height < 0.4 * above_m) & (level < size * 0.02)) & (opening > 0.7)
    place = np.where(descending[:, None], thing, over)
    # up first, if the hand is low beside the object
    beside = ~descending & (height < 0.6 * above_m)
    place = np.where(beside[:, None], np.stack([tool[:, 0], tool[:, 1], over[:, 2]], axis=1), place)
    place = np.where((around & ~held)[:, None], thing, place)
    turn = np.where(held | around, 0.0, yaw_to_sides(seen))
    return Grasp(place, turn, np.where(around | held, -1.0, 1.0), held)


def grasp_by_degrees(seen: Mapping[str, Array], pipeline: Any, half_m: float = USUAL_HALF_M) -> Grasp:
    """Return what :func:`grasp` does, of hands that come down the nearer they are: arguments as there.

    Whoever learns from images where the object is never knows it to the millimetre, and hovers for ever above it where
    what the expert shows changes at a threshold; here it changes by degrees.
    """
    size = min(half_m / USUAL_HALF_M, 1.0)
    above_m, straight = max(size * ABOVE, 0.05), grasp(seen, pipeline, half_m)
    thing, tool = seen["object_position"], seen["tool_position"]
    away, turned = tool - thing, np.abs(yaw_to_sides(seen, "tool_yaw"))
    level, height = np.linalg.norm(away[:, :2], axis=1), away[:, 2]
    closed = 1.0 - seen["opening"][:, 0]
    unready = [share_between(level, *(size * part for part in _LEVEL)), share_between(turned, *_TURNED)]
    over = above_m * np.maximum.reduce([*unready, share_between(closed, *_SHUT)])
    # up before across, as far as the hand is too low
    across = 1.0 - share_between(over - height, 0.0, _TOO_LOW_M)[:, None]
    place = np.stack([*(tool + across * (thing - tool))[:, :2].T, thing[:, 2] + over], axis=1)
    around = (level < size * 0.02) & (height < 0.012)
    place = np.where((around | straight.held)[:, None], straight.place, place)
    return Grasp(place, straight.turn, straight.grip, straight.held)


def share_between(value: Array, least: float, most: float) -> Array:
    """Return (N,) how far values are from ``least`` to ``most``, 0 to 1."""
    return np.asarray(np.clip((value - least) / (most - least), 0.0, 1.0))


def stopped(seen: Mapping[str, Array], pipeline: Any) -> NDArray[np.bool_]:
    """Return (N,) whether an object stops the fingers, from their lag in the inputs :data:`FINGERS`."""
    behind = (seen["opening"] - seen["opening_target"])[:, 0]
    # they lag as far behind while they move, and before late signals show that they do
    moving = np.abs((seen["joint_velocity"][:, pipeline.arm :] / pipeline.hand_range).mean(axis=1))
    closed = seen["opening"][:, 0] < _CLOSED
    return np.asarray((behind > min(_SQUEEZED, 0.75 * pipeline.press)) & (moving < _STILL) & closed)


def hangs(seen: Mapping[str, Array], half_m: float, on_table: bool = True) -> NDArray[np.bool_]:
    """Return (N,) whether objects hang in the hand, whatever the fingers' speed seems to be.

    Args:
        seen: As of :meth:`Expert.act`.
        half_m: Half length of the largest objects.
        on_table: Whether an object that is higher has been lifted.
    """
    behind = (seen["opening"] - seen["opening_target"])[:, 0]
    lifted = seen["object_position"][:, 2] > half_m + _OFF_TABLE
    squeezed = (behind > 0.0) & lifted if on_table else behind > _SQUEEZED
    away = seen["tool_position"] - seen["object_position"]
    return np.asarray(squeezed & (np.linalg.norm(away, axis=1) < half_m))


class GraspExpert:
    """Move above the object and align with it; lower; close; and move it straight to the goal.

    Args:
        half_m: Half length of the largest objects.
        on_table: Whether an object that is higher has been lifted.
        by_degrees: Whether hands come down as :func:`grasp_by_degrees`.
    """

    def __init__(self, half_m: float = USUAL_HALF_M, on_table: bool = True, by_degrees: bool = False) -> None:
        self._half_m, self._on_table = half_m, on_table
        self._grasp = grasp_by_degrees if by_degrees else grasp

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        hold = self._grasp(seen, pipeline, self._half_m)
        away = seen["tool_position"] - seen["object_position"]
        held = hold.held | hangs(seen, self._half_m, self._on_table)
        place = np.where(held[:, None], seen["goal_position"] + away, hold.place)
        turn, grip = np.where(held, 0.0, hold.turn), np.where(held, -1.0, hold.grip)
        return toward(seen, pipeline, place, turn=turn, grip=grip)
