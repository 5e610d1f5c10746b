"""An expert that acts by a flow, beside a vision-language model: what the heads of SmolVLA and pi0 share."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.training.language.flow import Flow


class ExpertHead(Flow):
    """From actions on their way, and the time, to an expert's tokens; and normalisation.

    Args:
        axes: Action axes; the flow has more, up to those that the expert knows.
        chunk: Planned steps.
        further: Steps that the expert plans after them.
        width: Of the expert's tokens.
        every: Axes that the expert knows.
        flow_steps: Steps from noise to an action.
        periods: Shortest and longest period of how it is told the time.
    """

    action_mean: Tensor
    action_std: Tensor
    rates: Tensor

    def __init__(
        self,
        axes: int,
        chunk: int,
        further: int,
        width: int,
        every: int,
        flow_steps: int,
        periods: tuple[float, float],
    ) -> None:
        super().__init__(axes, flow_steps, (further, every - axes))
        self.chunk = chunk
        with torch.device("meta"):
            self.own = nn.ModuleDict(
                {
                    "action_in_proj": nn.Linear(every, width),
                    "action_out_proj": nn.Linear(width, every),
                    "action_time_mlp_in": nn.Linear(2 * width, width),
                    "action_time_mlp_out": nn.Linear(width, width),
                }
            )
        self.noise = nn.Parameter(torch.zeros(axes))
        self.register_buffer("action_mean", torch.zeros(axes))
        self.register_buffer("action_std", torch.ones(axes))
        least, most = periods
        share = torch.linspace(0.0, 1.0, width // 2, dtype=torch.float64)
        rates = 2.0 * math.pi / (least * (most / least) ** share)
        self.register_buffer("rates", rates, persistent=False)

    def normalise_by(self, actions: Tensor) -> None:
        """Set the normalisation of actions (samples, axes)."""
        self.action_mean.copy_(actions.mean(dim=0))
        self.action_std.copy_(actions.std(dim=0).clamp(min=1e-2))

    def inner(self, actions: Tensor) -> Tensor:
        """Return normalised actions (batch, steps, axes), filled up with zeros, after the last step with that one."""
        further = self.beyond[0]
        scaled = (actions - self.action_mean) / self.action_std
        found = self.filled(scaled)
        if further:
            last = functional.pad(scaled[:, -1:], (0, self.beyond[1])).repeat(1, further, 1)
            found = torch.cat([found[:, : self.chunk], last], dim=1)
        return found

    def outer(self, end: Tensor) -> Tensor:
        """Return the actions (batch, steps, axes)."""
        return self.trimmed(end) * self.action_std + self.action_mean

    def times(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Return random times (count, 1, 1), more of them near the noise, as in its training."""
        # the distribution Beta(1.5, 1) of the noise's share has the inverse u^(2/3)
        noise = torch.rand((count, 1, 1), generator=generator) ** (2.0 / 3.0)
        return 1.0 - (0.999 * noise + 0.001)

    def spread(self, features: Tensor) -> Tensor:
        """Return what widens or narrows the noise, the same for each observation: (batch, steps, axes)."""
        return self.noise + torch.zeros_like(features[:, :1, :1]).repeat(1, self.chunk, self.axes)

    def still(self, features: Tensor) -> Tensor:
        """Return zeros (batch, steps, axes of the flow)."""
        steps, axes = self.beyond
        return torch.zeros_like(features[:, :1, :1]).repeat(1, self.chunk + steps, self.axes + axes)

    def begun(self, now: Tensor, noise: Tensor) -> Tensor:
        """Return the expert's tokens (batch, steps, width) of actions on their way, and the share of noise in them."""
        angle = (noise.double() * self.rates).float()
        when = torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)
        acting = self.own["action_in_proj"](now)
        both = torch.cat([acting, when + torch.zeros_like(acting)], dim=-1)
        found: Tensor = self.own["action_time_mlp_out"](functional.silu(self.own["action_time_mlp_in"](both)))
        return found

    def action_parts(self) -> dict[str, nn.Module]:
        """Return the layers of actions and time, by the prefix of their tensors' names in a checkpoint."""
        return {f"model.{name}.": layer for name, layer in self.own.items()}


def check_room(folder: Path, chunk: tuple[int, int], state: tuple[int, int], axes: tuple[int, int]) -> None:
    """Raise ``UserError`` if chunk, state or action are larger here than in a checkpoint; each is (here, there)."""
    for what, (here, there) in (("chunk", chunk), ("the state's size", state), ("the action's size", axes)):
        if here > there:
            raise UserError(f"checkpoint: {folder} does not fit: {what} is {here} here, and at most {there} there.")
