"""Shared by scripted experts: the protocol, and actions towards a target position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array


class Expert(Protocol):
    """A stateless script that does a task from the policy's inputs."""

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions) in -1..1.

        Args:
            seen: Prepared inputs of :class:`rlstack.tasks.manipulator.pipeline.ArmPipeline`, as numpy arrays.
            pipeline: Its scales.
        """


def toward(
    seen: Mapping[str, Array], pipeline: Any, place: Array, *, turn: Array | None = None, grip: Array | None = None
) -> Array:
    """Return the actions (N, actions) that move the tool's target straight to a position at full speed.

    Args:
        seen: Prepared inputs.
        pipeline: Its scales.
        place: (N, 3) m.
        turn: (N,) rad, wanted rotation of the tool about the vertical.
        grip: (N,) action of the gripper.
    """
    motion, period = pipeline.motion, pipeline.period_s
    step = (place - seen["target_position"]) / (motion.speed_m_s * period)
    # scale all axes equally for a straight motion
    step = step / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1.0)
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
