"""Observation terms about people, and about the goal when it gives the directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term

Frame = Literal["goal", "body"]

_AWAY_M = 1e3
_HALF_M = 0.5
"""Gap at which somebody counts half as close as can be: steeper, and the policy's own feedback is chaotic."""
_SMALL = 1e-6
"""Under a square root, so that it has a slope at 0; the export to ONNX takes 1e-8 and less for nothing at all."""
_REACH = 8.0
"""An action commands tanh of so many times its length of the greatest speed: its bounds are never felt."""


class People(Term):
    """The nearest people, as a set: in any order, and any number of them may be given.

    Args:
        slots: How many of them, the nearest, are observed; where there are fewer, the rest are not there.
        reach_m: Who is farther than this is not there.
        radius_m: Of the robot.
        frame: Directions are along and across the way to the goal, or along and across the body.
    """

    name, unit = "people", "4 m, m/s, 1"
    meaning = "of each: place 2, velocity 2, closeness, direction 2, is there"
    member_size = 8

    def __init__(self, slots: int, reach_m: float, radius_m: float, frame: Frame) -> None:
        super().__init__()
        self.slots, self.reach_m, self.radius_m, self.frame = slots, reach_m, radius_m, frame
        self.size = slots * self.member_size

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, slots * member_size)."""
        place, velocity, radius = self._nearest(inputs)
        away = torch.sqrt((place * place).sum(dim=-1, keepdim=True) + _SMALL)
        there = torch.where(away < self.reach_m, 1.0, 0.0)
        gap = (away - radius.unsqueeze(-1) - self.radius_m).clamp(min=0.0)
        x = directions(inputs, self.frame).unsqueeze(1)
        turned = [along(x, vector * there) for vector in (0.25 * place, velocity, place / away)]
        columns = torch.cat([*turned[:2], there / (gap + _HALF_M), turned[2], there], dim=-1)
        return columns.flatten(1)

    def _nearest(self, inputs: Tensors) -> tuple[Tensor, Tensor, Tensor]:
        """Return relative places (batch, slots, 2), velocities (batch, slots, 2) and radii (batch, slots)."""
        place = inputs["people_position"][..., :2] - inputs["position"][:, None, :2]
        velocity, radius = inputs["people_velocity"][..., :2], inputs["people_radius"]
        if not torch.onnx.is_in_onnx_export() and place.shape[1] == self.slots:
            return place, velocity, radius  # training has as many as there are slots, and order does not matter
        none = place[:, :1] * 0.0
        place = torch.cat([place, (none + _AWAY_M).expand(-1, self.slots, -1)], dim=1)
        velocity = torch.cat([velocity, none.expand(-1, self.slots, -1)], dim=1)
        radius = torch.cat([radius, none[..., 0].expand(-1, self.slots)], dim=1)
        gap = (place * place).sum(dim=-1).sqrt() - radius
        index = torch.topk(gap, self.slots, dim=1, largest=False).indices
        pair = index.unsqueeze(-1).expand(-1, -1, 2)
        return place.gather(1, pair), velocity.gather(1, pair), radius.gather(1, index)


class GoalRange(Term):
    """How far the goal is."""

    name, size, unit, meaning = (
        "goal_range",
        2,
        "4 m, m",
        "distance to the goal over the floor, and what of it is the last metre",
    )

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        offset = (inputs["goal_position"] - inputs["position"])[:, :2]
        away = torch.sqrt((offset * offset).sum(dim=-1, keepdim=True) + 1e-4)
        return torch.cat([0.25 * away, away.clamp(max=1.0)], dim=-1)


class GoalWay(Pipeline):
    """A pipeline whose actions are a velocity along and across the way to the goal; commands a ``planar_twist``.

    Args:
        terms: The observation's terms.
        fastest_m_s: Greatest speed in any direction.
    """

    action_scale = 3.0 / _REACH
    """Of actions that matter."""

    def __init__(self, terms: Sequence[Term], fastest_m_s: float) -> None:
        super().__init__(terms, "planar_twist", [-fastest_m_s] * 2, [fastest_m_s] * 2)
        self.fastest_m_s = fastest_m_s

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return (batch, 3): speeds ahead and to the left, m/s, and no turning."""
        # all directions alike, and never so near the greatest speed that a change of direction is not felt
        reach = _REACH * action
        length = torch.sqrt((reach * reach).sum(dim=-1, keepdim=True) + _SMALL)
        wanted = reach * (self.fastest_m_s * torch.tanh(length) / length)
        x = directions(inputs, "goal")
        east = wanted[:, 0] * x[:, 0] - wanted[:, 1] * x[:, 1]
        north = wanted[:, 0] * x[:, 1] + wanted[:, 1] * x[:, 0]
        forward = inputs["rotation"][:, :2, 0]
        ahead = east * forward[:, 0] + north * forward[:, 1]
        left = north * forward[:, 0] - east * forward[:, 1]
        return torch.stack([ahead, left, 0.0 * ahead], dim=-1)


def directions(inputs: Tensors, frame: Frame) -> Tensor:
    """Return the unit vectors (batch, 2) in odom of a frame's x axis."""
    if frame == "body":
        return inputs["rotation"][:, :2, 0]
    offset = (inputs["goal_position"] - inputs["position"])[:, :2]
    return offset / torch.sqrt((offset * offset).sum(dim=-1, keepdim=True) + _SMALL)


def along(x: Tensor, vector: Tensor) -> Tensor:
    """Return vectors (..., 2) along and across unit vectors ``x`` (..., 2)."""
    first = (x * vector).sum(dim=-1)
    second = x[..., 0] * vector[..., 1] - x[..., 1] * vector[..., 0]
    return torch.stack([first, second], dim=-1)
