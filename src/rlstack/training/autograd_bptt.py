"""Going through any actor step by step, and back, by torch's own derivatives."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.tasks.core.rollout import DifferentiableRollout, shortened
from rlstack.training.algorithm import Actor


class AutogradBPTT:
    """Takes an :class:`~rlstack.training.algorithm.Actor` through a window and gradients back.

    On the way back each step is computed once more and differentiated by torch, so that no step's graph is kept. It is
    slower than :class:`rlstack.training.network_bptt.NetworkBPTT` and asks nothing of the network.

    Args:
        actor: Its gradients are written into ``parameter.grad``; its memory, if it has one, is called ``hidden``.
        window: Whose observations it sees and whose actions it chooses.
        learned: The first so many steps' actions are learned from.
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
        """Use the actor's present weights."""

    @torch.no_grad()
    def forward(self, t: int) -> None:
        """Choose the action of step ``t``."""
        window = self.window
        action, after = self.actor(window.at(window.observation, t).T.contiguous(), self._memory(t))
        window.at(window.action, t).copy_(action.T.clamp(-1.0, 1.0))
        if self.width:
            window.at(self.hidden, t + 1).copy_(after["hidden"].T)

    def begin_reverse(self) -> None:
        """Forget the derivatives of the window before."""
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        if self.width:
            self._gradient.zero_()

    def reverse(self, t: int) -> None:
        """Go back from the gradient of the action of step ``t`` to that of its observation and the weights."""
        window = self.window
        seen = window.at(window.observation, t).T.contiguous().requires_grad_()
        memory = {name: tensor.requires_grad_() for name, tensor in self._memory(t).items()}
        with torch.enable_grad():
            action, after = self.actor(seen, memory)
        pull = window.at(window.action_gradient, t).T
        with torch.no_grad():
            # an action beyond the bounds follows what leads it back, and one robot's gradient is bounded
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
        """Do nothing: :meth:`reverse` has summed those of the first ``steps``."""

    def _memory(self, t: int) -> dict[str, Tensor]:
        return {"hidden": self.window.at(self.hidden, t).T.contiguous()} if self.width else {}
