"""Observation and action pipeline of racing, without map or pose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term

_LEAST_M = 0.01
"""Least range; no lidar measures shorter ones."""


class Ranges(Term):
    """Logarithms of some rays' ranges, so that relative changes weigh the same near and far."""

    name, unit, meaning = "ranges", "ln m", "logarithms of the ranges of some rays, from the right to the left"

    def __init__(self, rays: Sequence[slice]) -> None:
        super().__init__()
        self.rays = tuple(rays)
        self.size = sum(len(range(r.start, r.stop, r.step)) for r in rays)

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, rays)."""
        return torch.log(torch.cat([inputs["scan"][:, rays] for rays in self.rays], dim=-1).clamp(min=_LEAST_M))


@dataclass(frozen=True)
class Driving:
    """Mapping of actions to commands: the first changes the speed, the second is the curvature of the path.

    A change of speed, because distant speed targets saturate the acceleration, which leaves no gradient. A curvature,
    because the steering angle sets it.
    """

    slowest_m_s: float
    """Least commanded speed."""
    fastest_m_s: float
    change_m_s: float
    """Greatest change of the commanded speed in a control period."""
    ahead_m_s: float
    """Greatest difference between the commanded speed and the measured one."""
    bend_1_m: float
    """Greatest curvature."""

    def base(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the speed (batch,), m/s, that the next command changes."""
        speed, last = inputs["linear_velocity"][:, 0], memory["commanded"][:, 0]
        return torch.minimum(torch.maximum(last, speed - self.ahead_m_s), speed + self.ahead_m_s)

    def commanded(self, inputs: Tensors, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return speed, m/s, and curvature, 1/m, (batch,) each; ``inputs`` as prepared by :class:`Commanded`."""
        speed = inputs["base_speed"] + action[:, 0] * self.change_m_s
        return speed.clamp(self.slowest_m_s, self.fastest_m_s), action[:, 1] * self.bend_1_m


class Commanded(Term):
    """Speed and curvature of the last command."""

    name, size, unit, meaning = "commanded", 2, "5 m/s, 1/m", "speed and curvature of the last command"
    memory: Mapping[str, tuple[int, ...]] = {"commanded": (2,)}

    def __init__(self, driving: Driving) -> None:
        super().__init__()
        self.driving = driving

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Find the speed that the next command changes."""
        return {"base_speed": self.driving.base(inputs, memory)}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        last = memory["commanded"]
        return torch.cat([last[:, :1] * 0.2, last[:, 1:]], dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Store the command."""
        return {"commanded": torch.stack(self.driving.commanded(inputs, action), dim=-1)}


class RacingPipeline(Pipeline):
    """A pipeline that commands a twist.

    Args:
        terms: Among them :class:`Commanded`.
        driving: Mapping of actions to commands.
    """

    def __init__(self, terms: Sequence[Term], driving: Driving) -> None:
        turn = driving.fastest_m_s * driving.bend_1_m
        super().__init__(terms, "twist", [driving.slowest_m_s, -turn], [driving.fastest_m_s, turn])
        self.driving = driving

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs with the terms' prepared values; there is no pose."""
        prepared = dict(inputs)
        for term in self._terms():
            prepared.update(term.prepare(prepared, memory))
        return prepared

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return the twist (batch, 2), m/s and rad/s."""
        speed, bend = self.driving.commanded(inputs, action)
        return torch.stack([speed, speed * bend], dim=-1)

    def action_of(self, command: Tensor, inputs: Tensors) -> Tensor:
        """Return the action (batch, 2) of a twist (batch, 2); one that stands counts as the slowest."""
        driving, speed = self.driving, command[:, 0]
        bend = torch.where(speed.abs() > 1e-6, command[:, 1] / speed, torch.zeros_like(speed))
        change = (speed - inputs["base_speed"]) / driving.change_m_s
        return self.clip(torch.stack([change, bend / driving.bend_1_m], dim=-1))
