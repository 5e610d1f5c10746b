"""A frozen flow whose noise a small network chooses (DSRL, arXiv 2506.15799), as one policy."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rlstack.training.algorithm import PlanningActor
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.checkpoints.openvla import OpenVLANetwork
from rlstack.training.language.flow import Flow
from rlstack.training.language.network import Network
from rlstack.training.soft_actor_critic import SquashedActor

_FROZEN, _STEERING = "frozen.", "steering."


class SteeredActor(PlanningActor):
    """A frozen flow, and the network that chooses its noise.

    Args:
        frozen: The policy, whose head is a flow.
        steering: Chooses from what the policy makes of an observation; see :func:`seen_by_steering`.
        reach: Largest noise.
        each_step: Whether each planned step has noise of its own.
    """

    def __init__(self, frozen: LanguageActor, steering: SquashedActor, reach: float, each_step: bool) -> None:
        super().__init__(frozen.chunk, frozen.actions)
        self.frozen, self.steering, self.reach, self.each_step = frozen, steering, reach, each_step

    def plan(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return deterministic chunks (batch, chunk, actions) by chosen noise; see :meth:`.PlanningActor.plan`."""
        seen = self.frozen.seen(observation)
        features = self.frozen.features(seen)
        chosen, _ = self.steering(seen_by_steering(self.frozen, seen, features), {})
        return steered(self.frozen, features, chosen, self.reach, self.each_step)

    def copied(self) -> SteeredActor:
        """Return a copy that shares what of a checkpoint is not trained."""
        return SteeredActor(self.frozen.copied(), copy.deepcopy(self.steering), self.reach, self.each_step)

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return all tensors but those of a checkpoint, which stay in its folder."""
        parts = ((_FROZEN, self.frozen), (_STEERING, self.steering))
        return {prefix + name: tensor for prefix, part in parts for name, tensor in part.state_dict().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Restore what :meth:`state_dict` returned."""
        for prefix, part in ((_FROZEN, self.frozen), (_STEERING, self.steering)):
            held = {n.removeprefix(prefix): t for n, t in state_dict.items() if n.startswith(prefix)}
            part.load_state_dict(held, strict, assign)


def seen_by_steering(policy: LanguageActor, seen: Seen, features: Tensor) -> Tensor:
    """Return (batch, columns): the robot's state, and what a policy's network makes of an observation.

    That is the feature of each planned step; of a checkpoint the mean over tokens of what its last layer holds.
    """
    network = policy.network
    assert not isinstance(network, OpenVLANetwork), "it is no flow"
    found = features.flatten(start_dim=1)
    if not isinstance(network, Network):
        there, held = features[..., :1], features[..., -network.held :]
        found = (there * held).sum(dim=1) / there.sum(dim=1)
    return torch.cat([network.normalised(seen.state), found], dim=1)


def steered(policy: LanguageActor, features: Tensor, chosen: Tensor, reach: float, each_step: bool) -> Tensor:
    """Return the chunks (batch, chunk, actions) that noise becomes.

    Args:
        policy: A flow.
        features: Of its network.
        chosen: (batch, axes) noise, -1 to 1, for all steps, or (batch, chunk * axes) of each.
        reach: What 1 means.
        each_step: Whether it is of each.
    """
    assert isinstance(policy.head, Flow)
    steps, axes = policy.head.beyond
    if each_step:
        noise = policy.head.filled(chosen.reshape(-1, policy.chunk, policy.actions))
    else:
        noise = functional.pad(chosen, (0, axes))[:, None].repeat(1, policy.chunk + steps, 1)
    made: Tensor = policy.head(features, reach * noise)
    return made
