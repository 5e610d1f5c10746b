"""How likely a simulated step is on the real robot: two classifiers of steps, as in H2O (arXiv 2206.13464)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.training.optimisers import Adam

_RATIO = 1e-5, 1.0
"""Range of the density ratio, as in the code of H2O's authors: no simulated step counts more than a recorded one."""
_GAP = 1e-6, 10.0
"""Range of the estimated divergence, nats."""
_NEXT = 10
"""Observations drawn about a step's next one, for the divergence there; as in the paper."""
_LOGIT = 10.0
"""Largest logit: two classifiers that are sure of themselves say nothing of the odds."""


class DynamicsGap:
    """Estimates how the dynamics of recorded steps differ from those of simulated ones.

    One classifier tells recorded from simulated steps by observation and action, the other by the next observation as
    well. Their difference is the logarithm of p_real(s' | s, a) / p_sim(s' | s, a) (Eysenbach et al.,
    arXiv 2006.13916).

    Args:
        columns: Observation columns.
        actions: Number of actions.
        generator: Draws noise.
        hidden: Widths of their hidden layers.
        learning_rate: Of both classifiers.
        noise: Standard deviation of the noise on their inputs while they learn, in standard deviations of the inputs;
            it keeps them from being sure where only a few steps were recorded.
    """

    def __init__(
        self,
        columns: int,
        actions: int,
        generator: torch.Generator,
        hidden: Sequence[int] = (256, 256),
        learning_rate: float = 3e-4,
        noise: float = 0.1,
    ) -> None:
        self._generator, self._noise = generator, noise
        self.before, self.whole = _classifier(columns + actions, hidden), _classifier(2 * columns + actions, hidden)
        self._optimiser = Adam([*self.before.parameters(), *self.whole.parameters()], lr=learning_rate)
        self._scale, self._change = torch.ones(columns), torch.ones(columns)

    def measure(self, batch: Mapping[str, Tensor]) -> None:
        """Take the scales of observations (n, columns) and of their changes in a step from recorded steps."""
        seen, after = batch["observation"], batch["next_observation"]
        self._scale = seen.std(dim=0).clamp(min=1e-3)
        self._change = (after - seen).std(dim=0).clamp(min=1e-4)

    def update(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Update both classifiers once from steps with ``demonstrated`` (n,): 1 recorded, 0 simulated."""
        parts = self._parts(batch["observation"], batch["action"], batch["next_observation"])
        noisy = [part + self._noise * torch.randn(part.shape, generator=self._generator) for part in parts]
        before, whole = self._logits(*noisy)
        recorded = batch["demonstrated"]
        losses = [functional.binary_cross_entropy_with_logits(logits, recorded) for logits in (before, whole)]
        self._optimiser.zero_grad(set_to_none=True)
        (losses[0] + losses[1]).backward()
        self._optimiser.step()
        right = ((whole > 0.0).float() == recorded).float().mean()
        return {"told_apart": right.detach(), "classifiers": (losses[0] + losses[1]).detach()}

    @torch.no_grad()
    def ratio(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return (n,) how much likelier each step's outcome is on the real robot than in the simulator, at most 1."""
        before, whole = self._logits(*self._parts(batch["observation"], batch["action"], batch["next_observation"]))
        return (whole - before).exp().clamp(*_RATIO)

    @torch.no_grad()
    def divergence(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return (n,) the divergence of the simulator's outcomes from the real robot's at each step, nats.

        It is estimated about the simulated outcome, from outcomes that scatter about it by the recorded changes'
        spread times the classifiers' noise.
        """
        seen, action, change = self._parts(batch["observation"], batch["action"], batch["next_observation"])
        shape = (_NEXT, *change.shape)
        about = change + self._noise * torch.randn(shape, generator=self._generator)
        before, whole = self._logits(seen.expand(shape), action.expand(_NEXT, *action.shape), about)
        return (before - whole).mean(dim=0).clamp(*_GAP)

    def state_dict(self) -> dict[str, Any]:
        """Return networks, scales and optimiser."""
        networks = {"before": self.before.state_dict(), "whole": self.whole.state_dict()}
        scales = {"scale": self._scale, "change": self._change}
        return copy.deepcopy({**networks, **scales, "optimiser": self._optimiser.state_dict()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.before.load_state_dict(state["before"])
        self.whole.load_state_dict(state["whole"])
        self._scale, self._change = state["scale"].clone(), state["change"].clone()
        self._optimiser.load_state_dict(state["optimiser"])

    def _parts(self, seen: Tensor, action: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return seen / self._scale, action, (after - seen) / self._change

    def _logits(self, seen: Tensor, action: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
        before = self.before(torch.cat([seen, action], dim=-1)).squeeze(-1)
        whole = self.whole(torch.cat([seen, action, change], dim=-1)).squeeze(-1)
        return _LOGIT * torch.tanh(before / _LOGIT), _LOGIT * torch.tanh(whole / _LOGIT)


def _classifier(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise([inputs, *hidden]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], 1))
