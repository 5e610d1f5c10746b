"""Observation terms of mobile bases. Everything is in the body frame, so a turn of the world changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Tensors, Term


class GoalOffset(Term):
    """Goal minus position over the floor, bounded, in the body frame."""

    name, size, unit, meaning = "goal_offset", 2, "m", "goal minus position in base_link, level, bounded in length"

    def __init__(self, bound_m: float) -> None:
        super().__init__()
        self.bound_m = bound_m

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2) m."""
        offset = (inputs["goal_position"] - inputs["position"])[:, :2]
        length = torch.sqrt((offset * offset).sum(dim=-1, keepdim=True) + 1e-12)
        offset = offset * (self.bound_m / length).clamp(max=1.0)
        forward = inputs["rotation"][:, :2, 0]
        along = (forward * offset).sum(dim=-1)
        across = forward[:, 0] * offset[:, 1] - forward[:, 1] * offset[:, 0]
        return torch.stack([along, across], dim=-1)


class GoalHeading(Term):
    """Direction of the body's x axis in the goal's heading frame."""

    name, size, unit, meaning = "goal_heading", 2, "-", "base_link x axis along and across the goal's heading"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2): (1, 0) on course."""
        z, w = inputs["goal_orientation"][:, 2], inputs["goal_orientation"][:, 3]
        cos, sin = w * w - z * z, 2.0 * z * w
        forward = inputs["rotation"][:, :2, 0]
        along = forward[:, 0] * cos + forward[:, 1] * sin
        across = forward[:, 1] * cos - forward[:, 0] * sin
        return torch.stack([along, across], dim=-1)


class Twist(Term):
    """Speed ahead and turning rate as odometry gives them."""

    name, size, unit, meaning = "twist", 2, "m/s, rad/s", "speed ahead and turning rate in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        return torch.stack([inputs["linear_velocity"][:, 0], inputs["angular_velocity"][:, 2]], dim=-1)


class PlanarTwist(Term):
    """Speed ahead, speed to the left and turning rate as odometry gives them."""

    name, size, unit, meaning = "planar_twist", 3, "m/s, m/s, rad/s", "speeds ahead and left, turning rate, base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return torch.cat([inputs["linear_velocity"][:, :2], inputs["angular_velocity"][:, 2:]], dim=-1)


class Closeness(Term):
    """How near what some rays of the scan see is: 1 at the lidar, 0 far away."""

    name, unit, meaning = "closeness", "1", "h / (h + range) of rays that are looked at, in the scan's order"

    def __init__(self, rays: Sequence[int], half_m: float) -> None:
        super().__init__()
        self.rays, self.half_m, self.size = tuple(rays), half_m, len(rays)

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, rays)."""
        return self.half_m / (self.half_m + inputs["scan"][:, self._chosen()])

    def _chosen(self) -> slice:
        # evenly spaced rays are a slice, which exports and traces plainly
        first, step = self.rays[0], self.rays[1] - self.rays[0] if self.size > 1 else 1
        return slice(first, self.rays[-1] + 1, step)


class LastAction(Term):
    """The last actions, newest first."""

    name, unit, meaning = "last_action", "-1..1", "past actions, newest first"

    def __init__(self, actions: int, length: int = 1) -> None:
        super().__init__()
        self.size, self.actions = actions * length, actions
        self.memory: Mapping[str, tuple[int, ...]] = {"past_actions": (self.size,)}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, actions * length)."""
        return memory["past_actions"]

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Push the newest action to the front."""
        return {"past_actions": torch.cat([action, memory["past_actions"][:, : self.size - self.actions]], dim=-1)}
