"""Observation terms of arms, from the prepared inputs of :class:`rlstack.tasks.manipulator.pipeline.ArmPipeline`.

Lengths are in decimetres, so that columns have a magnitude of about 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.tasks.core.observations import Signal
from rlstack.tasks.core.pipeline import Tensors, Term
from rlstack.tasks.manipulator.rewards import placed

DECIMETRES = 10.0
"""Decimetres per metre."""

GOAL, TARGET_GOAL = "goal_offset", "target_goal_offset"
"""Names of the terms that depend on the goal; tasks may lack the second one."""


def tool_terms(middle_m: Sequence[float]) -> list[Term]:
    """Return position, velocity and lead of the tool.

    Args:
        middle_m: Centre of the workspace.
    """
    meaning = "tool in base_link, from the middle of the workspace"
    return [
        Signal("tool_position", 3, "dm", meaning, DECIMETRES, centre=middle_m),
        Signal("tool_velocity", 3, "m/s", "of the tool in base_link"),
        Signal("lead", 3, "dm", "from the tool to its target", DECIMETRES),
    ]


def tool_yaw() -> Signal:
    """Return the direction of the tool's x axis, seen from above."""
    return Signal("tool_yaw", 2, "-", "cos and sin of the tool's yaw")


def object_offset() -> Signal:
    """Return the object's position relative to the tool."""
    meaning = "object minus tool in base_link"
    return Signal("object_offset", 3, "dm", meaning, DECIMETRES, signal="object_position", minus="tool_position")


class Opening(Term):
    """Measured and commanded opening of the gripper."""

    name, size, unit, meaning = "opening", 2, "share", "of the gripper, measured, then commanded"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        return torch.cat([inputs["opening"], inputs["opening_target"]], dim=-1)


class SinceDescent(Term):
    """How far the tool has gone since it came down to the table, which an image does not show; zero above.

    Args:
        low_m: Height below which it is down.
    """

    name, size, unit = "since_descent", 2, "dm"
    memory: Mapping[str, tuple[int, ...]] = {"came_down": (2,)}

    def __init__(self, low_m: float) -> None:
        super().__init__()
        self.low_m = low_m
        self.meaning = f"tool minus where it was last above {low_m:g} m, horizontally; 0 while it is"

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return where the tool was last above."""
        tool, started = inputs["tool_position"], inputs["started"]
        low = started * (tool[:, 2:] < self.low_m).float()
        return {"above": low * memory["came_down"] + (1.0 - low) * tool[:, :2]}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        return DECIMETRES * (inputs["tool_position"][:, :2] - inputs["above"])

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Store where the tool was last above."""
        return {"came_down": inputs["above"]}


class SinceSentence(Term):
    """How far the tool has gone since it first came down for this sentence, so that what is done is not begun again.

    Needs the signal ``instruction``; another sentence begins anew.

    Args:
        low_m: Height below which it is down.
    """

    name, size, unit = "since_sentence", 3, "dm, -"
    memory: Mapping[str, tuple[int, ...]] = {"first_down": (3,), "sentence": (INSTRUCTION_BYTES,)}

    def __init__(self, low_m: float) -> None:
        super().__init__()
        self.low_m = low_m
        below = f"below {low_m:g} m"
        self.meaning = f"tool minus where this sentence first had it {below}, horizontally, and 1; 0 until then"

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return where the tool first came down, and 1; else 0."""
        tool, before = inputs["tool_position"], memory["first_down"]
        changed = (inputs["instruction"] - memory["sentence"]).abs().sum(dim=1, keepdim=True)
        been = before[:, 2:] * torch.relu(1.0 - changed)
        now = (1.0 - been) * (tool[:, 2:] < self.low_m).float()
        place = been * before[:, :2] + now * tool[:, :2]
        return {"first_down": torch.cat([place, been + now], dim=-1)}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        down = inputs["first_down"]
        gone = DECIMETRES * (inputs["tool_position"][:, :2] - down[:, :2])
        return torch.cat([down[:, 2:] * gone, down[:, 2:]], dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Store where the tool first came down, and the sentence."""
        return {"first_down": inputs["first_down"], "sentence": inputs["instruction"]}


class ObjectVelocity(Term):
    """Velocity of the object, from its last two positions; zero at the start."""

    name, size, unit, meaning = "object_velocity", 3, "m/s", "of the object, from its last two positions"
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

    name, size, unit, meaning = "object_lean", 2, "-", "horizontal part of the object's z axis in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        x, y, z, w = inputs["object_orientation"].unbind(dim=-1)
        return torch.stack([2.0 * (x * z + w * y), 2.0 * (y * z - w * x)], dim=-1)


class GoalOffset(Signal):
    """Offset from the achieved to the desired goal.

    Args:
        moved: Name of the achieved goal.
    """

    def __init__(self, moved: str) -> None:
        meaning = f"goal_position minus {moved} in base_link"
        super().__init__(GOAL, 3, "dm", meaning, DECIMETRES, signal="goal_position", minus=moved)


class TargetGoalOffset(Term):
    """Distance that the tool's target still has to move: the goal's offset less the target's lead.

    The target is where the policy's own actions led, so that late signals do not change it while nothing slips.

    Args:
        moved: Name of the achieved goal.
    """

    name, size, unit = TARGET_GOAL, 3, "dm"

    def __init__(self, moved: str) -> None:
        super().__init__()
        self.moved, self.meaning = moved, f"goal_position minus {moved} minus the lead of the tool's target"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return DECIMETRES * (inputs["goal_position"] - inputs[self.moved] - inputs["lead"])


def target_object_offset() -> Signal:
    """Return the object's position relative to the tool's target."""
    meaning = "object minus the tool's target in base_link"
    return Signal(
        "target_object_offset", 3, "dm", meaning, DECIMETRES, signal="object_position", minus="target_position"
    )


class PlacedOffset(GoalOffset):
    """Goal offset of tasks that require releasing the object; see :func:`rlstack.tasks.manipulator.rewards.placed`."""

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the achieved goal, by its name."""
        return {self.minus: placed(inputs["tool_position"], inputs["object_position"])}


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


def grasp_terms(middle_m: Sequence[float], rate_hz: float, goal: Term) -> list[Term]:
    """Return the observation of tasks with a grasp.

    Args:
        middle_m: Centre of the workspace.
        rate_hz: Control rate.
        goal: The goal offset.
    """
    return [
        *tool_terms(middle_m),
        tool_yaw(),
        Opening(),
        object_offset(),
        ObjectVelocity(rate_hz),
        ObjectYaw(),
        goal,
    ]
