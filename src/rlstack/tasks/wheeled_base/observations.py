"""Observation terms of mobile bases, in the body frame, so that they are invariant to the world's heading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Tensors, Term


class GoalOffset(Term):
    """Goal minus position, horizontal and bounded, in the body frame."""

    name, size, unit, meaning = "goal_offset", 2, "m", "goal minus position in base_link, horizontal, bounded in length"

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
        """Return (batch, 2): (1, 0) along the goal's heading."""
        z, w = inputs["goal_orientation"][:, 2], inputs["goal_orientation"][:, 3]
        cos, sin = w * w - z * z, 2.0 * z * w
        forward = inputs["rotation"][:, :2, 0]
        along = forward[:, 0] * cos + forward[:, 1] * sin
        across = forward[:, 1] * cos - forward[:, 0] * sin
        return torch.stack([along, across], dim=-1)


class Twist(Term):
    """Forward speed and turning rate from odometry, each multiplied by a constant."""

    size, meaning = 2, "speed ahead and turning rate in base_link"

    def __init__(self, name: str = "twist", unit: str = "m/s, rad/s", scale: tuple[float, float] = (1.0, 1.0)) -> None:
        super().__init__()
        self.name, self.unit, self.scale = name, unit, scale

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        speed, turning = inputs["linear_velocity"][:, 0], inputs["angular_velocity"][:, 2]
        return torch.stack([speed * self.scale[0], turning * self.scale[1]], dim=-1)


class Closeness(Term):
    """Closeness of obstacles along some rays of the scan: 1 at the lidar, 0 far away."""

    name, unit, meaning = "closeness", "1", "h / (h + range) of the observed rays, in the scan's order"

    def __init__(self, rays: Sequence[int], half_m: float) -> None:
        super().__init__()
        self.rays, self.half_m, self.size = tuple(rays), half_m, len(rays)

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, rays)."""
        return self.half_m / (self.half_m + inputs["scan"][:, self._chosen()])

    def _chosen(self) -> slice:
        # evenly spaced rays are a slice, which is simple to export and trace
        first, step = self.rays[0], self.rays[1] - self.rays[0] if self.size > 1 else 1
        return slice(first, self.rays[-1] + 1, step)


Frame = Literal["goal", "body"]

_AWAY_M = 1e3
_HALF_M = 0.5
"""Gap at which closeness is one half; with a steeper function the policy's own feedback is chaotic."""
_SMALL = 1e-6
"""Added under square roots for a finite slope at 0; the export to ONNX drops values of 1e-8 and less."""


class NearestPedestrians(Term):
    """The nearest pedestrians, as an unordered set of any size.

    Args:
        slots: Number of observed pedestrians, the nearest ones; unused slots are marked absent.
        reach_m: Distance beyond which pedestrians are absent.
        radius_m: Radius of the robot.
        frame: Directions are along and across the path to the goal, or along and across the body.
    """

    name, unit = "people", "4 m, m/s, 1"
    meaning = "of each: position 2, velocity 2, closeness, direction 2, presence"
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
        """Return relative positions (batch, slots, 2), velocities (batch, slots, 2) and radii (batch, slots)."""
        place = inputs["people_position"][..., :2] - inputs["position"][:, None, :2]
        velocity, radius = inputs["people_velocity"][..., :2], inputs["people_radius"]
        if not torch.onnx.is_in_onnx_export() and place.shape[1] == self.slots:
            return place, velocity, radius  # training has as many as slots, and their order does not matter
        none = place[:, :1] * 0.0
        place = torch.cat([place, (none + _AWAY_M).expand(-1, self.slots, -1)], dim=1)
        velocity = torch.cat([velocity, none.expand(-1, self.slots, -1)], dim=1)
        radius = torch.cat([radius, none[..., 0].expand(-1, self.slots)], dim=1)
        gap = (place * place).sum(dim=-1).sqrt() - radius
        index = torch.topk(gap, self.slots, dim=1, largest=False).indices
        pair = index.unsqueeze(-1).expand(-1, -1, 2)
        return place.gather(1, pair), velocity.gather(1, pair), radius.gather(1, index)


class GoalRange(Term):
    """Distance to the goal."""

    name, size, unit, meaning = (
        "goal_range",
        2,
        "4 m, m",
        "horizontal distance to the goal, and the same up to 1 m",
    )

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        offset = (inputs["goal_position"] - inputs["position"])[:, :2]
        away = torch.sqrt((offset * offset).sum(dim=-1, keepdim=True) + 1e-4)
        return torch.cat([0.25 * away, away.clamp(max=1.0)], dim=-1)


class GoalFrameSpeed(Term):
    """The base's velocity along and across the path to the goal."""

    name, size, unit, meaning = "own_velocity", 2, "m/s", "own velocity along and across the path to the goal"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        ahead, left = inputs["linear_velocity"][:, :1], inputs["linear_velocity"][:, 1:2]
        rotation = inputs["rotation"]
        return along(directions(inputs, "goal"), ahead * rotation[:, :2, 0] + left * rotation[:, :2, 1])


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


_AHEAD_S = 4.0
"""Prediction horizon of encounters."""
_NEAREST_HALF_M = 0.3
"""Gap of an encounter at which closeness is one half."""
_SLOW_M2_S2 = 0.04
"""Added to the squared relative velocity, so that the time of an encounter stays smooth at rest."""


class PedestrianEncounters(NearestPedestrians):
    """Like :class:`NearestPedestrians` in the body frame, with each one's predicted point of closest approach.

    Features of the velocity obstacle (P. Fiorini, Z. Shiller, 1998): products of positions and velocities, which are
    hard to learn for a small network.
    """

    meaning = "of each: position 2, velocity 2, closeness, direction 2, closest approach 2, closeness, time, presence"
    unit = "4 m, m/s, 4 s, 1"
    member_size = 12

    def __init__(self, slots: int, reach_m: float, radius_m: float) -> None:
        super().__init__(slots, reach_m, radius_m, "body")

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, slots * member_size)."""
        size = NearestPedestrians.member_size
        columns = super().observe(inputs, memory).reshape(-1, self.slots, size)
        seen, there = columns[..., : size - 1], columns[..., size - 1 :]
        place, velocity, radius = self._nearest(inputs)
        ahead = inputs["rotation"][:, :2, 0]
        velocity = velocity - (ahead * inputs["linear_velocity"][:, :1]).unsqueeze(1)
        square = (velocity * velocity).sum(dim=-1, keepdim=True) + _SLOW_M2_S2
        # absent ones are far away, with all columns 0
        place = place * there
        when = (-(place * velocity).sum(dim=-1, keepdim=True) / square).clamp(min=0.0, max=_AHEAD_S)
        nearest = place + velocity * when
        gap = torch.sqrt((nearest * nearest).sum(dim=-1, keepdim=True) + 1e-6) - radius.unsqueeze(-1) - self.radius_m
        met = along(ahead.unsqueeze(1), nearest)
        near = _NEAREST_HALF_M / (gap.clamp(min=0.0) + _NEAREST_HALF_M)
        more = torch.cat([0.25 * met, near, when * (1.0 / _AHEAD_S)], dim=-1) * there
        return torch.cat([seen, more, there], dim=-1).flatten(1)
