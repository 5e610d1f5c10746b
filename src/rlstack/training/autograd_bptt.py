"""Backpropagation through time for any actor, with torch's autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.tasks.core.rollout import DifferentiableRollout, shortened
from rlstack.training.algorithm import Actor


class AutogradBPTT:
    """Runs an :class:`~rlstack.training.algorithm.Actor` through a rollout, and its gradients back.

    The backward pass recomputes each step and differentiates it with torch, so that no graph is kept. It is slower than
    :class:`rlstack.training.network_bptt.NetworkBPTT`, but works with any network.

    Args:
        actor: Its gradients are written into ``parameter.grad``; its memory, if any, is named ``hidden``.
        window: The rollout that gives its observations and takes its actions.
        learned: Number of steps, from the first, whose actions are learned from.
    """

    def __init__(self, actor: Actor, window: DifferentiableRollout, learned: int) -> None:
        if set(actor.memory) - {"hidden"}:
            raise ValueError(f"an actor's memory may be 'hidden', not {', '.join(actor.memory)}")
        self.actor, self.window, self.learned = actor, window, learned
        (width,) = actor.memory.get("hidden", (0,))
        self.width = width
        self.parameters = [p for p in actor.parameters() if p.requires_grad]
        if width:
            self.hidden = window.array(width, window.steps + 1)
            """Slot ``t`` is the hidden state before step ``t``."""
            self._raw, self._gradient = window.array(width, 1), window.array(width, 1)
            self._shorten = shortened({"hidden": width}, str(window.observation.device)).prepare(
                {
                    "hidden": window.at(self._raw, 0),
                    "bound": window.at(window.bound, 0),
                    "shorter hidden": window.at(self._gradient, 0),
                }
            )

    def begin(self) -> None:
        """Load the actor's current weights."""

    @torch.no_grad()
    def forward(self, t: int) -> None:
        """Compute the action of step ``t``."""
        window = self.window
        action, after = self.actor(window.at(window.observation, t).T.contiguous(), self._memory(t))
        window.at(window.action, t).copy_(action.T.clamp(-1.0, 1.0))
        if self.width:
            window.at(self.hidden, t + 1).copy_(after["hidden"].T)

    def begin_reverse(self) -> None:
        """Zero the gradients of the previous rollout."""
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        if self.width:
            self._gradient.zero_()

    def reverse(self, t: int) -> None:
        """Backpropagate the gradient of the action of step ``t`` to its observation and the weights."""
        window = self.window
        seen = window.at(window.observation, t).T.contiguous().requires_grad_()
        memory = {name: tensor.requires_grad_() for name, tensor in self._memory(t).items()}
        with torch.enable_grad():
            action, after = self.actor(seen, memory)
        pull = window.at(window.action_gradient, t).T
        with torch.no_grad():
            # an action beyond its bounds only follows gradients that lead back; each robot's gradient is clipped
            beyond = ((action > 1.0) & (pull < 0.0)) | ((action < -1.0) & (pull > 0.0))
            pull = pull.masked_fill(beyond, 0.0)
            length = pull.square().sum(dim=1, keepdim=True).add_(1e-30).sqrt_()
            pull = pull * (window.at(window.bound, 0).T / length).clamp(max=1.0)
        outputs, gradients = [action], [pull]
        if self.width:
            outputs.append(after["hidden"])
            gradients.append(window.at(self._gradient, 0).T)
        weights = self.parameters if t < self.learned else []
        wanted = [seen, *memory.values(), *weights]
        found = torch.autograd.grad(outputs, wanted, gradients, allow_unused=True)
        window.at(window.observation_gradient, t).copy_(found[0].T)
        if self.width:
            window.at(self._raw, 0).copy_(found[1].T)
            self._shorten()
        for parameter, gradient in zip(weights, found[1 + len(memory) :]):
            if gradient is not None and parameter.grad is not None:
                parameter.grad += gradient

    def weight_gradients(self, steps: int) -> None:
        """No-op: :meth:`reverse` sums the gradients of the first ``steps``."""

    def _memory(self, t: int) -> dict[str, Tensor]:
        return {"hidden": self.window.at(self.hidden, t).T.contiguous()} if self.width else {}
