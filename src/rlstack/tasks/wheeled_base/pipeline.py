"""A differential base that is steered by a velocity: of a point ahead of its axle, which can go any way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term
from rlstack.tasks.wheeled_base.people_terms import along, directions

_REACH = 4.0
"""An action of 1 asks for so many times the pull of the goal: it is overcome well within the bounds of actions."""


class GoalPull(Pipeline):
    """A pipeline whose actions pull at a point ahead of the axle, which the goal pulls at too; commands a ``twist``.

    A policy that does nothing drives to its goal, so learning begins with what is in the way. Of the sum's length comes
    the speed, by tanh; the point's speed to the left turns the base (J. Snape et al., "Smooth and collision-free
    navigation for multiple robots under differential-drive constraints", IROS 2010).

    Args:
        terms: The observation's terms.
        fastest_m_s: Greatest speed in any direction.
        turning_rad_s: Greatest turning rate.
        offset_m: How far ahead the point is.
    """

    action_scale = 1.0 / _REACH
    """Of actions that matter."""

    def __init__(self, terms: Sequence[Term], fastest_m_s: float, turning_rad_s: float, offset_m: float) -> None:
        super().__init__(terms, "twist", [-fastest_m_s, -turning_rad_s], [fastest_m_s, turning_rad_s])
        self.fastest_m_s, self.turning_rad_s, self.offset_m = fastest_m_s, turning_rad_s, offset_m

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return (batch, 2): speed ahead, m/s, and turning rate, rad/s."""
        offset = (inputs["goal_position"] - inputs["position"])[:, :2]
        towards = offset / torch.sqrt((offset * offset).sum(dim=-1, keepdim=True) + 1e-2)
        pull = along(directions(inputs, "body"), towards) + _REACH * action
        length = torch.sqrt((pull * pull).sum(dim=-1, keepdim=True) + 1e-6)
        wanted = pull * (self.fastest_m_s * torch.tanh(length) / length)
        # bent, not cut: at its greatest, the turning rate still follows the action
        turning = self.turning_rad_s * torch.tanh(wanted[:, 1] * (1.0 / (self.offset_m * self.turning_rad_s)))
        return torch.stack([wanted[:, 0], turning], dim=-1)
