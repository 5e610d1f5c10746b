"""Action pipelines of bases, relative to the path to the goal."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term
from rlstack.tasks.wheeled_base.observations import along, directions

_REACH = 4.0
"""Pull of an action of 1, as a multiple of the goal's: actions overcome it well within their bounds."""


_GOAL_REACH = 8.0
"""Slope of the tanh from an action's length to the share of the top speed: bounds of actions never limit it."""


class GoalAttraction(Pipeline):
    """A pipeline whose actions add to the goal's pull on a point ahead of the axle; commands a ``twist``.

    A zero action drives to the goal, so that learning begins with obstacle avoidance. The speed is a tanh of the sum's
    length; the point's lateral speed turns the base (J. Snape et al., "Smooth and collision-free navigation for
    multiple robots under differential-drive constraints", IROS 2010).

    Args:
        terms: The observation's terms.
        fastest_m_s: Greatest speed in any direction.
        turning_rad_s: Greatest turning rate.
        offset_m: Distance of the point ahead of the axle.
    """

    action_scale = 1.0 / _REACH
    """Typical magnitude of actions."""

    def __init__(self, terms: Sequence[Term], fastest_m_s: float, turning_rad_s: float, offset_m: float) -> None:
        super().__init__(terms, "twist", [-fastest_m_s, -turning_rad_s], [fastest_m_s, turning_rad_s])
        self.fastest_m_s, self.turning_rad_s, self.offset_m = fastest_m_s, turning_rad_s, offset_m

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return (batch, 2): speed ahead, m/s, and turning rate, rad/s."""
        offset = (inputs["goal_position"] - inputs["position"])[:, :2]
        towards = offset / torch.sqrt((offset * offset).sum(dim=-1, keepdim=True) + 1e-2)
        wanted = _within_speed(along(directions(inputs, "body"), towards) + _REACH * action, self.fastest_m_s)
        # a soft limit: at its greatest, the turning rate still depends on the action
        turning = self.turning_rad_s * torch.tanh(wanted[:, 1] * (1.0 / (self.offset_m * self.turning_rad_s)))
        return torch.stack([wanted[:, 0], turning], dim=-1)


class GoalFrameVelocity(Pipeline):
    """A pipeline whose actions are a velocity along and across the path to the goal; commands a ``planar_twist``.

    Args:
        terms: The observation's terms.
        fastest_m_s: Greatest speed in any direction.
    """

    action_scale = 3.0 / _GOAL_REACH
    """Typical magnitude of actions."""

    def __init__(self, terms: Sequence[Term], fastest_m_s: float) -> None:
        super().__init__(terms, "planar_twist", [-fastest_m_s] * 2, [fastest_m_s] * 2)
        self.fastest_m_s = fastest_m_s

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return (batch, 3): speeds ahead and to the left, m/s, and no turning."""
        wanted = _within_speed(_GOAL_REACH * action, self.fastest_m_s)
        x = directions(inputs, "goal")
        east = wanted[:, 0] * x[:, 0] - wanted[:, 1] * x[:, 1]
        north = wanted[:, 0] * x[:, 1] + wanted[:, 1] * x[:, 0]
        forward = inputs["rotation"][:, :2, 0]
        ahead = east * forward[:, 0] + north * forward[:, 1]
        left = north * forward[:, 0] - east * forward[:, 1]
        return torch.stack([ahead, left, 0.0 * ahead], dim=-1)


def _within_speed(reach: Tensor, fastest_m_s: float) -> Tensor:
    """Return velocities (batch, 2) along ``reach`` (batch, 2), below a greatest speed.

    Isotropic, and never saturated, so that a change of direction always has an effect.
    """
    length = torch.sqrt((reach * reach).sum(dim=-1, keepdim=True) + 1e-6)
    return reach * (fastest_m_s * torch.tanh(length) / length)
