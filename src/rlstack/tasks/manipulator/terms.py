"""Observation terms of arms, from the prepared inputs of :class:`rlstack.tasks.manipulator.pipeline.ArmPipeline`.

Lengths are in decimetres, so that columns have a magnitude of about 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Tensors, Term
from rlstack.tasks.manipulator.rewards import placed

DECIMETRES = 10.0
"""Decimetres per metre."""

GOAL = "goal_offset"
"""Name of the only term that depends on the goal."""


class ToolPosition(Term):
    """Position of the tool."""

    name, size, unit, meaning = "tool_position", 3, "dm", "tool in base_link, from the middle of the workspace"

    def __init__(self, middle_m: tuple[float, float, float]) -> None:
        super().__init__()
        self.register_buffer("middle", torch.tensor(middle_m))

    middle: Tensor

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return DECIMETRES * (inputs["tool_position"] - self.middle)


class ToolVelocity(Term):
    """Velocity of the tool, from joint velocities."""

    name, size, unit, meaning = "tool_velocity", 3, "m/s", "of the tool in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return inputs["tool_velocity"]


class Lead(Term):
    """Offset from the tool to its target."""

    name, size, unit, meaning = "lead", 3, "dm", "from the tool to where it is led"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return DECIMETRES * inputs["lead"]


class ToolYaw(Term):
    """Direction of the tool's x axis, seen from above."""

    name, size, unit, meaning = "tool_yaw", 2, "-", "cos and sin of the tool's yaw"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        return inputs["tool_yaw"]


class Opening(Term):
    """Measured and commanded opening of the gripper."""

    name, size, unit, meaning = "opening", 2, "share", "of the gripper, measured, then wanted"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        return torch.cat([inputs["opening"], inputs["opening_target"]], dim=-1)


class ObjectOffset(Term):
    """Position of the object relative to the tool."""

    name, size, unit, meaning = "object_offset", 3, "dm", "object minus tool in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return DECIMETRES * (inputs["object_position"] - inputs["tool_position"])


class ObjectVelocity(Term):
    """Velocity of the object, from its last two positions; zero at the start."""

    name, size, unit, meaning = "object_velocity", 3, "m/s", "of the object, from its last two places"
    memory: Mapping[str, tuple[int, ...]] = {"object_before": (3,)}

    def __init__(self, rate_hz: float) -> None:
        super().__init__()
        self.rate_hz = rate_hz

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return inputs["started"] * self.rate_hz * (inputs["object_position"] - memory["object_before"])

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Store the object's position."""
        return {"object_before": inputs["object_position"]}


class ObjectYaw(Term):
    """Yaw of a square object relative to the tool."""

    name, size, unit, meaning = "object_yaw", 2, "-", "cos and sin of four times the object's yaw minus the tool's"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        x, y, z, w = inputs["object_orientation"].unbind(dim=-1)
        a, b = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)
        cos, sin = inputs["tool_yaw"].unbind(dim=-1)
        cos, sin = a * cos + b * sin, b * cos - a * sin
        for _ in range(2):  # double the angle twice
            cos, sin = cos * cos - sin * sin, 2.0 * cos * sin
        return torch.stack([cos, sin], dim=-1)


class ObjectLean(Term):
    """Tilt of the object."""

    name, size, unit, meaning = "object_lean", 2, "-", "level part of the object's z axis in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        x, y, z, w = inputs["object_orientation"].unbind(dim=-1)
        return torch.stack([2.0 * (x * z + w * y), 2.0 * (y * z - w * x)], dim=-1)


class GoalOffset(Term):
    """Offset from the achieved to the desired goal."""

    name, size, unit = GOAL, 3, "dm"

    def __init__(self, moved: str) -> None:
        super().__init__()
        self.moved, self.meaning = moved, f"goal_position minus {moved} in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return DECIMETRES * (inputs["goal_position"] - inputs[self.moved])


class PlacedOffset(GoalOffset):
    """Goal offset of tasks that require releasing the object; see :func:`rlstack.tasks.manipulator.rewards.placed`."""

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the achieved goal, by its name."""
        return {self.moved: placed(inputs["tool_position"], inputs["object_position"])}


class CloseUp(Term):
    """A term and its tanh, which resolves small values near 0.

    Args:
        term: The term, whose name it keeps.
        near: Scale of the tanh in the term's unit, beyond which it saturates.
    """

    def __init__(self, term: Term, near: float) -> None:
        super().__init__()
        self.term, self.near = term, near
        self.name, self.size, self.memory = term.name, 2 * term.size, term.memory
        self.unit, self.meaning = f"{term.unit}, -", f"{term.meaning}; then tanh of it over {near:g}"

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the values that the term prepares."""
        return self.term.prepare(inputs, memory)

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2 * the term's size)."""
        seen = self.term.observe(inputs, memory)
        return torch.cat([seen, torch.tanh(seen / self.near)], dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Return the term's memory."""
        return self.term.remember(inputs, memory, action)


def taking(middle_m: tuple[float, float, float], rate_hz: float, goal: Term) -> list[Term]:
    """Return the observation of tasks with a grasp.

    Args:
        middle_m: Centre of the workspace.
        rate_hz: Control rate.
        goal: The goal offset.
    """
    return [
        ToolPosition(middle_m),
        ToolVelocity(),
        Lead(),
        ToolYaw(),
        Opening(),
        ObjectOffset(),
        ObjectVelocity(rate_hz),
        ObjectYaw(),
        goal,
    ]
