"""Networks and updates of soft actor-critic, for all off-policy algorithms.

Soft actor-critic with automatic temperature follows Haarnoja et al., "Soft Actor-Critic Algorithms and Applications"
(arXiv 1812.05905); the ensemble of critics with layer normalisation and random subsets for targets follows Ball et al.,
"Efficient Online Reinforcement Learning with Offline Data" (RLPD, arXiv 2302.02948).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.training.algorithm import check_finite, check_widths
from rlstack.training.critics import Critics
from rlstack.training.optimisers import FusedAdam
from rlstack.training.squashed_actor import SquashedActor

_CONSERVATIVE_SAMPLES = 4
"""Sampled actions of each kind for conservative critics; 10 in Cal-QL."""


CHANGEABLE = ("learning_rate", "gamma", "tau", "batch", "target_entropy")
"""Settings that may change in mid-run."""


@dataclass(frozen=True, kw_only=True)
class SoftActorCriticSettings:
    """Settings of the networks and their updates."""

    hidden: tuple[int, ...] = value((256, 256), at_least=1)
    """Widths of the hidden layers of policy and critics."""
    critics: int = value(2, at_least=1)
    """Critics in the ensemble."""
    drawn_critics: int = value(2, at_least=1)
    """Random subset of critics for each target, whose minimum is used."""
    layer_norm: bool = False
    """Whether the critics' hidden layers have layer normalisation."""
    gamma: float = value(0.98, above=0.0, at_most=1.0)
    """Discount per step."""
    learning_rate: float = value(3e-4, above=0.0)
    tau: float = value(0.005, above=0.0, at_most=1.0)
    """Update rate of the target critics (tau)."""
    batch: int = value(256, at_least=1)
    """Batch size of an update."""
    temperature: float = value(0.1, above=0.0)
    """Initial temperature, the weight of the entropy; it is adapted."""
    target_entropy: float = -0.5
    """Target entropy for each action, nats: half of the paper's -1, as in the code of RLPD's authors."""
    entropy_backup: bool = True
    """Whether targets include the entropy of the next action."""
    start_value: float = 0.0
    """Initial value of the critics. With rewards of -1 per step, 0 is optimistic, so that a cloned policy is forgotten
    before the critics have learned; about -1 / (1 - gamma) is not."""
    bounded: bool = False
    """Whether to clip targets to -1 / (1 - gamma) to 0, the range of returns for sparse rewards of -1 to 0 per step;
    section 4.1 of Andrychowicz et al. (HER, arXiv 1707.01495)."""

    def __post_init__(self) -> None:
        check_widths(self, "hidden")
        if self.bounded and (self.gamma == 1.0 or self.entropy_backup):
            raise ValueError(
                "bounded: true is not allowed with gamma 1 or entropy_backup: true: returns have no such bounds then."
            )
        if self.drawn_critics > self.critics:
            raise ValueError(
                f"drawn_critics: {self.drawn_critics} is not allowed: must be at most critics ({self.critics})."
            )


class Further(NamedTuple):
    """A further loss on the critics' values, also on those of other steps than the batch's."""

    observation: Tensor
    """(m, columns)."""
    action: Tensor
    """(m, actions)."""
    loss: Callable[[Tensor, Tensor], Tensor]
    """Maps the values (critics, n) of the batch and (critics, m) of these to a loss (), which autograd derives."""


class SoftActorCriticLearner:
    """Policy, critics and temperature, with their updates from batches of steps.

    A batch holds by name: ``observation``, ``next_observation`` (n, columns), ``action`` (n, actions), ``reward`` (n,),
    ``goes_on`` (n,): 0 where the episode terminated, else 1, and, if not all steps count alike, ``weight`` (n,).

    Args:
        settings: Settings of networks and updates.
        columns: Observation columns.
        actions: Number of actions.
        generator: Draws actions and critics.
    """

    def __init__(
        self, settings: SoftActorCriticSettings, columns: int, actions: int, generator: torch.Generator
    ) -> None:
        self.generator = generator
        self.columns, self.actions = columns, actions
        self.actor = SquashedActor(columns, actions, settings.hidden)
        self.critics = Critics(columns + actions, settings.hidden, settings.critics, settings.layer_norm)
        with torch.no_grad():
            self.critics.biases[-1] += settings.start_value
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.tensor(math.log(settings.temperature), requires_grad=True)
        rate = settings.learning_rate
        self._actor_optimiser = FusedAdam(self.actor.parameters(), rate)
        self._critics_optimiser = FusedAdam(self.critics.parameters(), rate)
        self._temperature_optimiser = FusedAdam([self.log_temperature], rate)
        self.change(settings)

    def change(self, settings: SoftActorCriticSettings) -> None:
        """Go on with other settings, of which those of :data:`CHANGEABLE` may differ."""
        self.settings = settings
        self.target_entropy = settings.target_entropy * self.actions
        for optimiser in self._optimisers():
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate

    def act(self, observation: Tensor) -> Tensor:
        """Return sampled actions (n, actions)."""
        with torch.no_grad():
            return self.actor.sample(observation, self.generator)[0]

    def update_critics(self, batch: Mapping[str, Tensor], further: Further | None = None) -> dict[str, Tensor]:
        """Update the critics once; return scalars to log.

        Args:
            batch: See the class.
            further: A further loss.
        """
        settings = self.settings
        with torch.no_grad():
            after = batch["next_observation"]
            action, density = self.actor.sample(after, self.generator)
            drawn = torch.randperm(settings.critics, generator=self.generator)[: settings.drawn_critics]
            members = drawn if settings.drawn_critics < settings.critics else None  # the minimum of all has no order
            value = self.targets(after, action, members).amin(dim=0)
            if settings.entropy_backup:
                value = value - self.log_temperature.exp() * density
            target = batch["reward"] + settings.gamma * batch["goes_on"] * value
            if settings.bounded:
                target = target.clamp(-1.0 / (1.0 - settings.gamma), 0.0)
        seen, done, count = batch["observation"], batch["action"], len(target)

        def judge(values: Tensor) -> tuple[Tensor, Tensor]:
            error = values[:, :count] - target
            weighted = batch["weight"] * error if "weight" in batch else error
            loss, slopes = (weighted * error).mean(dim=1).sum(), weighted * (2.0 / count)
            if further is None:
                return loss, slopes
            other, by_values = _derived(further.loss, values, count)
            by_values[:, :count] += slopes
            return loss + other, by_values

        if further is not None:
            seen, done = torch.cat([seen, further.observation]), torch.cat([done, further.action])
        loss, values = self.critics.learn(seen, done, judge)
        self._critics_optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.targets.arrays(), self.critics.arrays(), settings.tau)
        return {"critic": loss / settings.critics, "value": values[:, :count].mean()}

    def update_actor(
        self, batch: Mapping[str, Tensor], cloning: float = 0.0, penalty: Callable[[], Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Update the policy and the temperature once; return scalars to log.

        Args:
            batch: See the class; with cloning, also ``demonstrated`` (n,): whether a step was demonstrated.
            cloning: Weight of the behaviour-cloning loss (Nair et al., "Overcoming Exploration in Reinforcement
                Learning with Demonstrations", arXiv 1709.10089, without their filter).
            penalty: Returns a further loss of the policy alone, which autograd derives.
        """
        observation, temperature = batch["observation"], self.log_temperature.detach().exp()
        shown = (batch["action"], batch["demonstrated"] > 0.5) if cloning else None
        improved = self.actor.learn(observation, self._slopes, temperature, self.generator, shown, cloning)
        density, loss = improved.density, (temperature * improved.density - improved.value).mean()
        logged = {}
        if cloning:
            logged = {"clone": improved.clone}
            loss = loss + cloning * improved.clone
        if penalty is not None:
            other = penalty()
            other.backward()  # type: ignore[no-untyped-call]  # adds to the gradients
            loss = loss + other.detach()
        self._actor_optimiser.step()
        surplus = (-density - self.target_entropy).mean()
        self.log_temperature.grad = temperature * surplus  # of the temperature times the surplus
        self._temperature_optimiser.step()
        return logged | {"actor": loss, "entropy": -density.mean(), "temperature": temperature}

    def clone(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Fit the policy's mean to the demonstrated actions once; return scalars to log."""
        rows = batch["demonstrated"] > 0.5
        own, _ = self.actor(batch["observation"][rows], {})
        loss = (own - batch["action"][rows]).square().sum() / len(rows)
        self._actor_optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._actor_optimiser.step()
        return {"clone": loss.detach()}

    @property
    def _least(self) -> bool:
        """Whether the policy maximises the least value of all critics, else their mean."""
        return self.settings.critics <= 2

    def _slopes(self, observation: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value (batch,) that the policy maximises, and its gradient (batch, actions) by the action."""
        return self.critics.slopes(observation, action, self._least)

    @torch.no_grad()
    def conservative(self, batch: Mapping[str, Tensor], weight: float) -> Further:
        """Return a loss that lowers values of actions outside the data, but not below the observed return.

        It is the soft maximum over values of random actions and of the policy's, now and next, above the batch's own:
        calibrated Q-learning, Nakamoto et al. (Cal-QL, arXiv 2303.05479).

        Args:
            batch: See the class; also ``return`` (n,), the return to the end of the episode.
            weight: Of the loss.
        """
        count, kinds = _CONSERVATIVE_SAMPLES, 3
        rows = batch["observation"].repeat_interleave(count, dim=0)
        uniform = 2.0 * torch.rand(len(rows), self.actions, generator=self.generator) - 1.0
        drawn = [(uniform, torch.full((len(rows),), -self.actions * math.log(2.0)))]
        for name in ("observation", "next_observation"):
            drawn.append(self.actor.sample(batch[name].repeat_interleave(count, dim=0), self.generator))
        actions, densities = (torch.cat(parts) for parts in zip(*drawn))
        least = batch["return"].repeat_interleave(count).repeat(kinds)
        least[: len(rows)] = -torch.inf  # values of random actions may be below the return

        def above(values: Tensor, others: Tensor) -> Tensor:
            each = (torch.maximum(others, least) - densities).reshape(len(values), kinds, -1, count)
            soft = each.logsumexp(dim=(1, 3)) - math.log(kinds * count)
            return weight * (soft - values).mean(dim=1).sum()

        return Further(rows.repeat(kinds, 1), actions, above)

    def check(self, logged: Mapping[str, Tensor]) -> dict[str, float]:
        """Return logged scalars as floats.

        Raises:
            NotFinite: One of them is not finite; the message names it.
        """
        numbers = {name: float(number) for name, number in logged.items()}
        check_finite(numbers, "The {}'s mean in an update is not finite")
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, temperature and random state."""
        return copy.deepcopy(
            {
                "actor": self.actor.state_dict(),
                "critics": self.critics.state_dict(),
                "targets": self.targets.state_dict(),
                "log_temperature": self.log_temperature.detach(),
                "optimisers": [o.state_dict() for o in self._optimisers()],
                "generator": self.generator.get_state(),
            }
        )

    def start_from(self, state: Mapping[str, Any]) -> None:
        """Take over the networks and the temperature of :meth:`state_dict`, and neither optimisers nor random state."""
        for name in ("actor", "critics", "targets"):
            getattr(self, name).load_state_dict(state[name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from :meth:`state_dict`, with the learning rate of the settings."""
        for name in ("actor", "critics", "targets"):
            getattr(self, name).load_state_dict(state[name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        for optimiser, saved in zip(self._optimisers(), state["optimisers"]):
            optimiser.load_state_dict(saved)
        self.change(self.settings)  # replace the saved rate: settings may have changed
        self.generator.set_state(state["generator"].cpu())

    def _optimisers(self) -> tuple[torch.optim.Optimizer, ...]:
        return self._actor_optimiser, self._critics_optimiser, self._temperature_optimiser


@torch.enable_grad()
def _derived(loss: Callable[[Tensor, Tensor], Tensor], values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return a loss on the first ``count`` values of each critic and on the others, and its slopes by them."""
    leaf = values.detach().requires_grad_()
    found = loss(leaf[:, :count], leaf[:, count:])
    return found.detach(), torch.autograd.grad(found, leaf)[0]
