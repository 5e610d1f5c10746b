"""Canonical frame for X quadrotors, independent of the order and spin direction of their rotors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term

_CORNERS = ((1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0))
"""Signs of x and y of :attr:`CanonicalPipeline.PLACES`."""

_VECTORS = ("linear_velocity", "angular_velocity")
_ATTITUDES = ("orientation", "path_orientation", "goal_orientation")


class CanonicalPipeline(Pipeline):
    """A pipeline for any quadrotor with one rotor in each quadrant whose neighbours turn opposite ways.

    Values of the robot file are inputs (``rotor_position``, ``rotor_yaw_sign``, ``rotor_speed_min``,
    ``rotor_speed_max``, ``rotor_thrust_coefficients``). If the front right rotor's reaction torque is to the left, the
    frame is rotated by 90 degrees to the left, which reverses the sign as in the training frame. Actions command the
    rotors at the front right, back right, back left and front left of that frame, from their lowest to their highest
    speed. In between, the thrust rises with the action as it does in training, whatever the robot's thrust curve.

    Args:
        terms: The observation's terms.
        output: Name of the command signal.
        curve: c0, c1, c2 of the thrust c0 + c1 s + c2 s^2 of the training's rotors at a share s of their top speed.
    """

    PLACES = ("front right", "back right", "back left", "front left")
    """Positions of the rotors that the actions command, in order."""

    def __init__(self, terms: Sequence[Term], output: str, curve: tuple[float, float, float]) -> None:
        super().__init__(terms, output, [0.0] * len(_CORNERS), [1.0] * len(_CORNERS))
        _, linear, square = curve
        self.linear, self.square = linear / (linear + square), square / (linear + square)

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs in the canonical frame, with values that the terms share."""
        place, sign = inputs["rotor_position"], inputs["rotor_yaw_sign"]
        front_right = _at(place[..., 0], place[..., 1], _CORNERS[0])
        turned = ((front_right * sign).sum(dim=-1, keepdim=True) > 0.0).to(sign.dtype)  # (batch, 1): 1 or 0
        same = 1.0 - turned
        seen = dict(inputs)
        for name in _VECTORS:
            x, y, z = inputs[name].split(1, dim=-1)
            seen[name] = torch.cat([same * x + turned * y, same * y - turned * x, z], dim=-1)
        # half of 90 degrees
        half, whole = turned * math.sin(math.pi / 4), same + turned * math.cos(math.pi / 4)
        for name in _ATTITUDES:
            if name in inputs:
                q = inputs[name]
                sine, cosine = (half, whole) if q.dim() == 2 else (half.unsqueeze(-1), whole.unsqueeze(-1))
                x, y, z, w = q.split(1, dim=-1)
                about_z = [x * cosine + y * sine, y * cosine - x * sine, z * cosine + w * sine, w * cosine - z * sine]
                seen[name] = torch.cat(about_z, dim=-1)
        x, y = place[..., 0], place[..., 1]
        x, y = same * x + turned * y, same * y - turned * x
        seen["rotor_corner"] = torch.stack([_at(x, y, corner) for corner in _CORNERS], dim=-1)
        return super().prepare(seen, memory)

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return the rotors' speeds (batch, 4) rad/s in the robot's order for a clipped action."""
        share = 0.5 * (action + 1.0)
        mine = (inputs["rotor_corner"] * share.unsqueeze(-2)).sum(dim=-1)
        slowest, fastest = inputs["rotor_speed_min"], inputs["rotor_speed_max"]
        c0, c1, c2 = inputs["rotor_thrust_coefficients"].split(1, dim=-1)
        c1, c2, low = c1 * fastest, c2 * fastest * fastest, slowest / fastest  # N, of the share of the top speed
        least = c0 + low * (c1 + low * c2)
        rise = mine * (self.linear + self.square * mine) * (c0 + c1 + c2 - least)
        # the speed of this thrust, in the form of the root that does not divide by c2, which may be 0
        wanted = least + rise - c0
        root = torch.sqrt((c1 * c1 + 4.0 * c2 * wanted).clamp(min=0.0) + 1e-12)
        share = ((2.0 * wanted / (c1 + root) - low) / (1.0 - low)).clamp(0.0, 1.0)
        return slowest + share * (fastest - slowest)


def _at(x: Tensor, y: Tensor, corner: tuple[float, float]) -> Tensor:
    """Return (batch, rotors): 1 for the rotor in that quadrant, 0 for the others."""
    inside = (x * corner[0] > 0.0) & (y * corner[1] > 0.0)
    return inside.to(x.dtype)
