"""Proximal policy optimisation for discrete actions with masking.

Schulman et al., arXiv 1707.06347, with invalid actions masked out of the distribution (Huang, Ontanon, arXiv
2006.14171). The environment executes the action with the highest score; the observation term with the attribute
``masks_actions`` has a column for each action, 1 where it is invalid. One with ``favours_actions``, if any, begins
with a column for each, 1 for those that a rule would choose: with a ``prior`` the policy begins as that rule, and
learns what to add to its scores (residual policy learning, Silver et al., arXiv 1812.06298). rsl_rl, which
:mod:`rlstack.training.algorithms.ppo` uses, has only continuous actions.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import Actor, IterationResult, NotFinite, RolloutTotals, check_finite, check_widths
from rlstack.training.networks import Network, multiplies_halves
from rlstack.training.optimisers import Adam

_NEVER = 1e4
"""Subtracted from the score of a masked action."""


@dataclass(frozen=True, kw_only=True)
class DiscretePPOSettings:
    """Settings of proximal policy optimisation for discrete actions."""

    rollout: int = value(32, at_least=2)
    """Steps per robot in an iteration."""
    epochs: int = value(3, at_least=1)
    """Epochs over an iteration's experience."""
    minibatches: int = value(8, at_least=1)
    """Minibatches in an epoch."""
    gamma: float = value(0.97, above=0.0, at_most=1.0)
    """Discount per step."""
    gae_lambda: float = value(0.95, at_least=0.0, at_most=1.0)
    """Lambda of generalised advantage estimation."""
    clip: float = value(0.2, above=0.0)
    """Bound on the change of an action's probability ratio."""
    learning_rate: float = value(5e-4, above=0.0)
    """Initial learning rate; it decays linearly to a twentieth."""
    entropy: float = value(0.01, at_least=0.0)
    """Initial weight of the entropy bonus; it decays linearly to 0."""
    value_weight: float = value(0.5, above=0.0)
    """Weight of the critic's loss."""
    max_gradient_norm: float = value(1.0, above=0.0)
    """Largest gradient norm."""
    hidden: tuple[int, ...] = value((256, 128), at_least=1)
    """Widths of the policy's hidden layers."""
    critic_hidden: tuple[int, ...] = value((256, 128), at_least=1)
    """Widths of the critic's hidden layers."""
    prior: float = value(0.0, at_least=0.0)
    """Added to the scores of actions that the observation's term with the attribute ``favours_actions`` favours."""
    activation: Literal["tanh", "relu"] = "relu"
    """Activation of all hidden layers."""
    half: bool = False
    """Use bfloat16 if the processor supports it: twice as fast. The exported policy has float32."""

    def __post_init__(self) -> None:
        check_widths(self, "hidden", "critic_hidden")


class MaskedActor(Actor):
    """Scores of the actions; those of masked ones are far below all others.

    Args:
        network: Maps observations to scores.
        blocked: Columns of the mask in the observation.
        favoured: Columns of the prior, if any.
        prior: Its weight.
    """

    def __init__(self, network: Network, blocked: slice, favoured: slice | None = None, prior: float = 0.0) -> None:
        super().__init__()
        self.network, self.blocked, self.favoured, self.prior = network, blocked, favoured, prior

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return scores (batch, choices)."""
        scores, _ = self.network(observation, {})
        if self.favoured is not None:
            scores = scores + self.prior * observation[:, self.favoured]
        return scores - _NEVER * observation[:, self.blocked], {}


class DiscretePPO:
    """Learns a task with discrete actions; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task's actions are not discrete, or there is too little experience for the minibatches.
    """

    Settings = DiscretePPOSettings
    needs_gradients = False
    changeable = (
        *("learning_rate", "entropy", "clip", "gamma", "gae_lambda"),
        *("value_weight", "epochs", "max_gradient_norm"),
    )

    def __init__(self, settings: DiscretePPOSettings, environment: LearningEnvironment) -> None:
        self.settings, self.environment = settings, environment
        self.steps_per_iteration = settings.rollout * environment.count
        if settings.minibatches > self.steps_per_iteration:
            raise UserError(
                f"algorithm_settings: minibatches: {settings.minibatches} is not allowed: an iteration has only"
                f" {self.steps_per_iteration} steps. Simulate more (envs), or use fewer."
            )
        pipeline = environment.pipeline
        table = pipeline.table()
        masks = [row for term, row in zip(pipeline.terms, table) if getattr(term, "masks_actions", False)]
        if len(masks) != 1 or masks[0].size != pipeline.action_size:
            raise UserError(
                "ppo_discrete learns tasks whose observation has one term that masks actions, with a column for each"
                f" action, which this task's lacks ({', '.join(row.name for row in table)}). Use the algorithm ppo."
            )
        blocked = slice(masks[0].start, masks[0].start + pipeline.action_size)
        actor = Network(pipeline.size, pipeline.action_size, settings.hidden, 0, settings.activation, 0.0)
        favours = [row for term, row in zip(pipeline.terms, table) if getattr(term, "favours_actions", False)]
        favoured = slice(favours[0].start, favours[0].start + pipeline.action_size) if favours else None
        if settings.prior and favoured is None:
            raise UserError(
                f"algorithm_settings: prior: {settings.prior:g} is not allowed: no term of the observation favours"
                f" actions ({', '.join(row.name for row in table)}). Set it to 0, or let the task observe one."
            )
        self._actor = MaskedActor(actor, blocked, favoured, settings.prior).to(environment.device)
        critic = Network(environment.critic_size, 1, settings.critic_hidden, 0, settings.activation, 0.0)
        self._critic = critic.to(environment.device)
        for network in (actor, critic):
            network.fold()  # observations are already between 0 and 1
        self._half = settings.half and multiplies_halves(environment.device)
        self._parameters = [*self._actor.parameters(), *self._critic.parameters()]
        self._optimiser = Adam(self._parameters, lr=settings.learning_rate, eps=1e-5)
        self._seen = self._kept(*environment.observe())

    def iterate(self, done: float) -> IterationResult:
        """Roll out, update; raise ``NotFinite`` naming the term that is not finite."""
        self.environment.set_progress(done)
        result, experience = self._roll_out()
        return replace(result, scalars={**result.scalars, **self._update(experience, done)})

    def actor(self) -> Actor:
        """Return a copy of the current actor on the CPU."""
        return copy.deepcopy(self._actor).cpu().eval().requires_grad_(False)

    def change(self, settings: DiscretePPOSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = settings

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimiser, environment and random state."""
        return copy.deepcopy(
            {
                "actor": self._actor.state_dict(),
                "critic": self._critic.state_dict(),
                "optimiser": self._optimiser.state_dict(),
                "environment": self.environment.state_dict(),
                "observations": self._seen,
                "torch_random": torch.get_rng_state(),
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._actor.load_state_dict(state["actor"])
        self._critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.environment.load_state_dict(state["environment"])
        self._seen = self._kept(*(array.to(self.environment.device) for array in state["observations"]))
        torch.set_rng_state(state["torch_random"].cpu())

    def _roll_out(self) -> tuple[IterationResult, tuple[Tensor, ...]]:
        """Return the result, and both observations, the action, its log-probability, return and advantage."""
        settings, environment = self.settings, self.environment
        steps, count = settings.rollout, environment.count
        kept: dict[str, list[Tensor]] = {n: [] for n in ("seen", "all", "choice", "log", "value", "reward", "done")}
        totals = RolloutTotals()
        with torch.inference_mode():
            for _ in range(steps):
                seen, everything = self._halved(*self._seen)
                log, worth = self._judge(seen, everything)
                choice = (log - torch.empty_like(log).exponential_().log()).argmax(dim=-1)  # the Gumbel-max trick
                result = environment.step(F.one_hot(choice, log.shape[-1]).float())
                after = self._kept(result.actor, result.critic)
                # bootstrap after a time-out, from about here
                reward = result.reward + settings.gamma * worth * result.timed_out
                for name, array in zip(kept, (seen, everything, choice, log, worth, reward, result.done)):
                    kept[name].append(array)
                totals.add(result, result.done & ~result.timed_out & (result.terms["lost"] < 0))
                self._seen = after
            ahead = self._judge(*self._halved(*self._seen))[1]
            if same := self._seen[0] is self._seen[1]:
                del kept["all"]
            stacked = {name: torch.stack(arrays) for name, arrays in kept.items()}
            advantage = torch.zeros(count, device=environment.device)
            advantages = torch.empty_like(stacked["value"])
            for k in reversed(range(steps)):
                going = 1.0 - stacked["done"][k].float()
                surprise = stacked["reward"][k] + settings.gamma * going * ahead - stacked["value"][k]
                advantage = surprise + settings.gamma * settings.gae_lambda * going * advantage
                advantages[k], ahead = advantage, stacked["value"][k]
        check_finite(totals.terms, "The reward term '{}' is not finite")
        if not torch.isfinite(advantages.sum()):
            raise NotFinite("The critic's value is not finite")
        chosen = stacked["log"].gather(-1, stacked["choice"][..., None]).squeeze(-1)
        returns = advantages + stacked["value"]
        everything = stacked["seen" if same else "all"]
        parts = (stacked["seen"], everything, stacked["choice"], chosen, returns, advantages)
        learned = totals.result(environment.task.rate_hz / steps, {})
        flat = [part.flatten(0, 1).clone() for part in parts[2:]]  # cloned outside of inference mode, to be trained on
        seen = parts[0].flatten(0, 1).clone()
        return learned, (seen, seen if same else everything.flatten(0, 1).clone(), *flat)

    def _kept(self, actor: Tensor, critic: Tensor) -> tuple[Tensor, Tensor]:
        """Return copies of observations; the same one twice if both are the same."""
        mine = actor.clone()
        return mine, mine if critic is actor else critic.clone()

    def _halved(self, actor: Tensor, critic: Tensor) -> tuple[Tensor, Tensor]:
        mine = actor.bfloat16() if self._half else actor
        return mine, mine if critic is actor else critic.bfloat16() if self._half else critic

    def _judge(self, seen: Tensor, everything: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (batch, choices) and values (batch,)."""
        with torch.autocast(seen.device.type, torch.bfloat16, enabled=self._half):
            scores, value = self._actor(seen, {})[0], self._critic(everything, {})[0]
        return F.log_softmax(scores.float(), dim=-1), value.float().squeeze(-1)

    def _update(self, experience: tuple[Tensor, ...], done: float) -> dict[str, float]:
        settings = self.settings
        seen, everything, choice, log_before, returns, advantages = experience
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        rate = settings.learning_rate * max(0.05, 1.0 - done)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        losses: dict[str, float] = {}
        for _ in range(settings.epochs):
            for pick in torch.randperm(len(choice), device=choice.device).chunk(settings.minibatches):
                part = seen[pick]
                log, worth = self._judge(part, part if everything is seen else everything[pick])
                ratio = (log.gather(-1, choice[pick, None]).squeeze(-1) - log_before[pick]).exp()
                bounded = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
                policy = -torch.minimum(ratio * advantages[pick], bounded * advantages[pick]).mean()
                entropy = -(log.exp() * log.clamp(min=-_NEVER)).sum(dim=-1).mean()
                error = (worth - returns[pick]).square().mean()
                loss = policy + settings.value_weight * error - settings.entropy * (1.0 - done) * entropy
                self._optimiser.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self._parameters, settings.max_gradient_norm)
                self._optimiser.step()
                losses = {"policy": policy.item(), "value": error.item(), "entropy": entropy.item()}
        check_finite(losses, "The {} loss is not finite")
        if not all(torch.isfinite(parameter).all() for parameter in self._parameters):
            raise NotFinite("An update left weights that are not finite")
        return {"train/learning_rate": rate, **{f"loss/{name}": number for name, number in losses.items()}}


ALGORITHM = DiscretePPO
