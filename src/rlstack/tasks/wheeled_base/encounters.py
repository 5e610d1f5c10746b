"""People as encounters: beside where they are, how near they will come if they and the robot go straight on."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Tensors
from rlstack.tasks.wheeled_base.people_terms import People, along

_AHEAD_S = 4.0
"""How far ahead is looked."""
_HALF_M = 0.3
"""Gap of an encounter that counts half as near as can be."""
_SLOW_M2_S2 = 0.04
"""Added to the square of the relative velocity, so that the time of an encounter stays smooth where nobody moves."""


class Encounters(People):
    """As :class:`People` in the body frame, with the nearest point that each will come to.

    A velocity obstacle (P. Fiorini, Z. Shiller, 1998) as numbers: a product of places and velocities, which a small
    network finds hard to make by itself.
    """

    meaning = "of each: place 2, velocity 2, closeness, direction 2, nearest place 2, closeness there, when, is there"
    unit = "4 m, m/s, 4 s, 1"
    member_size = 12

    def __init__(self, slots: int, reach_m: float, radius_m: float) -> None:
        super().__init__(slots, reach_m, radius_m, "body")

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, slots * member_size)."""
        size = People.member_size
        columns = super().observe(inputs, memory).reshape(-1, self.slots, size)
        seen, there = columns[..., : size - 1], columns[..., size - 1 :]
        place, velocity, radius = self._nearest(inputs)
        ahead = inputs["rotation"][:, :2, 0]
        velocity = velocity - (ahead * inputs["linear_velocity"][:, :1]).unsqueeze(1)
        square = (velocity * velocity).sum(dim=-1, keepdim=True) + _SLOW_M2_S2
        # who is not there is far away, and all of theirs is 0
        place = place * there
        when = (-(place * velocity).sum(dim=-1, keepdim=True) / square).clamp(min=0.0, max=_AHEAD_S)
        nearest = place + velocity * when
        gap = torch.sqrt((nearest * nearest).sum(dim=-1, keepdim=True) + 1e-6) - radius.unsqueeze(-1) - self.radius_m
        met = along(ahead.unsqueeze(1), nearest)
        near = _HALF_M / (gap.clamp(min=0.0) + _HALF_M)
        more = torch.cat([0.25 * met, near, when * (1.0 / _AHEAD_S)], dim=-1) * there
        return torch.cat([seen, more, there], dim=-1).flatten(1)
