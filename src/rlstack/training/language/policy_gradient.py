"""Clipped policy-gradient updates of a vision-language-action policy, for chunks of actions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.schema import Removed, value
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.grounding import unlike
from rlstack.training.language.head import Exploration
from rlstack.training.optimisers import Adam

_STD_RATE = 30.0
"""Learning rate of the deviation of samples, as a multiple of the network's: one number for each axis learns slowly."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradientSettings:
    """Settings of the updates."""

    learning_rate: float = value(1e-4, above=0.0)
    """Of the policy; it decays to 0 at the end of the run. From 3e-4 on a policy without ``fixed_eyes`` forgets
    more than it learns."""
    epochs: int = value(2, at_least=1)
    """Epochs over an iteration's experience."""
    batch: int = value(256, at_least=1)
    """Chunks of an update."""
    clip_low: float = value(0.2, above=0.0)
    """Bound on the decrease of a probability ratio."""
    clip_high: float = value(0.28, above=0.0)
    """Bound on its increase (DAPO, arXiv 2503.14476)."""
    credit: Literal["action", "chunk"] = "action"
    """Whether each planned action has a probability ratio of its own, or a chunk has one."""
    kl: float = value(0.0, at_least=0.0)
    """Weight of the KL divergence from the policy that learning started from; it costs a third more."""
    entropy: float = value(0.0, at_least=0.0)
    """Weight of the entropy bonus."""
    head_rate: float = value(10.0, above=0.0)
    """Learning rate of the head, as a multiple of the rest's: it has few weights, which generalise."""
    temperature: float = value(1.7, above=0.0)
    """Of the samples; above 1 they explore more."""
    places: float = value(0.0, at_least=0.0)
    """Weight of the loss on where the object is in the images of its own trials, which only the simulator knows; not
    with a checkpoint's network."""
    fixed_eyes: bool = False
    """Whether what is seen in images stays as it is: updates are cheaper, and few trials cannot unteach it."""
    exploration: Exploration = "noise"
    """How the head ``flow`` is sampled: learned noise in each of its steps, a stochastic differential equation with the
    flow's own distribution, or one random step of that for each chunk, which is cheaper to learn from."""

    removed_keys: ClassVar[dict[str, Removed]] = {
        "overlap": Removed(False, "set workers to 2 in its place; they are faster and act by the newest policy")
    }


CHANGEABLE = ("learning_rate", "entropy", "epochs", "clip_low", "clip_high")
"""Settings of these that may change in mid-run."""


class PolicyGradient:
    """Updates a policy by the clipped objective of PPO (Schulman et al., arXiv 1707.06347).

    Args:
        settings: Its settings.
        policy: The policy. The settings say how its actions are sampled, and whether its eyes stay as they are.
        generator: Shuffles experience.

    Raises:
        UserError: Its head cannot be sampled so, or its eyes cannot be fixed.
    """

    def __init__(self, settings: PolicyGradientSettings, policy: LanguageActor, generator: torch.Generator) -> None:
        self.settings, self.policy, self.generator = settings, policy, generator
        policy.head.explore_by(settings.exploration)
        if settings.fixed_eyes:
            if settings.places or policy.grounded is None:
                learns = "places is above 0: what is seen would have to learn"
                why = learns if settings.places else "a checkpoint's network"
                raise UserError(f"algorithm_settings: fixed_eyes: true is not allowed with {why}.")
            policy.fix_eyes()
        named = {name: one for name, one in policy.head.named_parameters() if one.requires_grad}
        others = [one for one in policy.network.parameters() if one.requires_grad]
        spread = [named.pop("log_std")] if "log_std" in named else []
        groups = ((others, 1.0), ([*named.values()], settings.head_rate), (spread, _STD_RATE))
        found = [{"params": some, "factor": factor} for some, factor in groups if some]
        self._optimiser = Adam(found, lr=settings.learning_rate, eps=1e-5)
        self._reference: LanguageActor | None = None
        self.anchor: Callable[[], Tensor] | None = None
        """Loss that each update adds, such as one on demonstrations; it is computed anew for each."""

    def refer(self) -> None:
        """Keep the present policy as the reference of the KL divergence, if that has a weight."""
        if self.settings.kl:
            self._reference = self.policy.copied().requires_grad_(False)

    def update(self, chunks: dict[str, Any], advantage: Tensor, share: float) -> dict[str, float]:
        """Update the policy on chunks (n, ...) by name, as of :class:`.Chunks`, and their advantages (n,).

        Args:
            chunks: ``seen``, ``choice``, ``log_prob``, ``inside`` and ``places``.
            advantage: Of each chunk.
            share: Completed share of the run.

        Returns:
            Means of the losses, of the clipped share and of the approximate divergence from before, by name.
        """
        settings, count = self.settings, len(advantage)
        for group in self._optimiser.param_groups:
            group["lr"] = group["factor"] * settings.learning_rate * max(0.0, 1.0 - share)
        logged: list[dict[str, Tensor]] = []
        for _ in range(settings.epochs):
            for some in torch.randperm(count, generator=self.generator).split(settings.batch):
                logged.append(self._update(chunks, advantage, some))
        return {name: torch.stack([one[name] for one in logged]).mean().item() for name in logged[0]}

    def _update(self, chunks: dict[str, Any], advantage: Tensor, some: Tensor) -> dict[str, Tensor]:
        settings, head = self.settings, self.policy.head
        seen: Seen = chunks["seen"].take(some)
        choice, inside, gain = chunks["choice"][some], chunks["inside"][some], advantage[some]
        features, place = self.policy.placed(seen)
        log_prob, entropy = head.log_prob(features, choice, settings.temperature)
        ahead = ((log_prob - chunks["log_prob"][some]).sum(dim=-1)) * inside  # (n, chunk)
        weight = inside
        if settings.credit == "chunk":
            ahead, weight = ahead.sum(dim=1, keepdim=True), (inside.sum(dim=1, keepdim=True) > 0.0).float()
        ratio = torch.exp(ahead.clamp(-10.0, 10.0))
        bounded = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
        better = torch.minimum(ratio * gain[:, None], bounded * gain[:, None])
        mean = weight.sum().clamp(min=1.0)
        policy_loss = -(better * weight).sum() / mean
        spread = (entropy.sum(dim=-1) * inside).sum() / inside.sum().clamp(min=1.0)
        loss = policy_loss - settings.entropy * spread
        scalars = {
            "policy": policy_loss.detach(),
            "entropy": spread.detach(),
            "clipped": (((ratio != bounded).float() * weight).sum() / mean).detach(),
            "divergence": ((((ratio - 1.0) - ahead) * weight).sum() / mean).detach(),
        }
        if self._reference is not None:
            with torch.no_grad():
                other = self._reference.head.distribution(self._reference.features(seen), choice)
            apart = head.divergence(features, other, choice).sum(dim=-1)
            apart = (apart * inside).sum() / inside.sum().clamp(min=1.0)
            loss = loss + settings.kl * apart
            scalars["from_reference"] = apart.detach()
        if self.settings.places and place is not None and place.maps:
            assert self.policy.grounded is not None
            away = unlike(self.policy.grounded, place.maps, chunks["places"][some])
            loss = loss + settings.places * away
            scalars["places"] = away.detach()
        if self.anchor is not None:
            held = self.anchor()
            loss = loss + held
            scalars["anchor"] = held.detach()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self._optimiser.step()
        return scalars

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser and the reference."""
        reference = None if self._reference is None else self._reference.state_dict()
        return copy.deepcopy({"optimiser": self._optimiser.state_dict(), "reference": reference})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned; the policy is loaded before."""
        self._optimiser.load_state_dict(state["optimiser"])
        self.refer()
        if self._reference is not None and state["reference"] is not None:
            self._reference.load_state_dict(state["reference"])
