"""Backpropagation through time for policy networks, without an autograd graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlstack.fused import GRADIENT, Kernel, minimum, where
from rlstack.tasks.core.rollout import DifferentiableRollout, shortened
from rlstack.training.networks import Network


class NetworkBPTT:
    """Runs a :class:`Network` through a :class:`DifferentiableRollout`, and its gradients back, without a graph.

    Each step is a handful of matrix products into memory that every rollout reuses; each weight gradient is one product
    over all steps.

    Args:
        network: Its gradients are written into ``parameter.grad``.
        window: The rollout that gives its observations and takes its actions.
    """

    def __init__(self, network: Network, window: DifferentiableRollout) -> None:
        self.network, self.window = network, window
        steps, array = window.steps, window.array

        def views(array: Tensor, slots: int = steps) -> list[Tensor]:
            return [window.at(array, t) for t in range(slots)]

        # all views are created once: creating them at each step would take longer than the products
        self.dense: list[nn.Linear] = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
        self.outputs = [array(layer.out_features, steps) for layer in self.dense]
        self.output_gradients = [array(layer.out_features, steps) for layer in self.dense]
        self.wanted = array(window.action.shape[0], steps)
        """Actions before they are clipped."""
        self.pull = array(window.action.shape[0], steps)
        """Gradients of the actions before they are clipped."""
        self._seen, self._seen_gradients = views(window.observation), views(window.observation_gradient)
        self._out = [views(output) for output in self.outputs]
        self._out_gradients = [views(gradient) for gradient in self.output_gradients]
        self._wanted, self._chosen, self._pulls = views(self.wanted), views(window.action), views(self.pull)
        device, bounds = str(window.observation.device), [window.at(window.bound, 0)] * steps
        actions = {"gradient": views(window.action_gradient), "wanted": self._wanted, "bound": bounds}
        self._pull = _prepare(_pulled(window.action.shape[0], device), {**actions, "pull": self._pulls})
        self._others: list[nn.Linear] = [*self.dense[1:], network.last]
        if width := network.gru_width:
            self._others[-1:] = [network.fed, network.back, network.last]
            self.fed, self.back = array(3 * width, steps), array(3 * width, steps)
            self.fed_gradient, self.back_gradient = array(3 * width, steps), array(3 * width, steps)
            self.hidden = array(width, steps + 1)
            """Slot ``t`` is the hidden state before step ``t``."""
            self._fed, self._back = views(self.fed), views(self.back)
            self._fed_gradients, self._back_gradients = views(self.fed_gradient), views(self.back_gradient)
            self._hidden = views(self.hidden, steps + 1)
            self._hidden_gradients = views(array(width, steps + 1), steps + 1)
            (self._direct,), (self._raw,) = views(array(width, 1), 1), views(array(width, 1), 1)
            raw = {"hidden": [self._raw] * steps, "bound": bounds, "shorter hidden": self._hidden_gradients}
            self._shorten = _prepare(shortened({"hidden": width}, device), raw)
            gates = {"fed": self._fed, "back": self._back, "hidden": self._hidden}
            if holds := window.acting is not None:
                gates["acting"] = views(window.acting)
            gradients = {
                "next": self._hidden_gradients[1:],
                "fed": self._fed_gradients,
                "back": self._back_gradients,
                "hidden": [self._direct] * steps,
            }
            reverse = {**gates, **{GRADIENT + name: arrays for name, arrays in gradients.items()}}
            self._gates = _prepare(_gates(width, holds, False, device), {**gates, "next": self._hidden[1:]})
            self._gates_reverse = _prepare(_gates(width, holds, True, device), reverse)
        self._relu = network.activation == "relu"
        layers = [self.dense[0], *self._others]
        self._weights = [torch.empty_like(layer.weight) for layer in layers]
        self._biases = [layer.bias.detach().clone().unsqueeze(1) for layer in layers]
        self._turned = [torch.empty_like(layer.weight.T.contiguous()) for layer in layers]

    def begin(self) -> None:
        """Load the network's current weights, with the normalisation folded into the first layer."""
        network = self.network
        with torch.no_grad():
            first = self.dense[0]
            self._weights[0].copy_(first.weight * network.scale)
            self._biases[0].copy_((first.bias - self._weights[0] @ network.mean).unsqueeze(1))
            for layer, weight, bias in zip(self._others, self._weights[1:], self._biases[1:]):
                weight.copy_(layer.weight)
                bias.copy_(layer.bias.unsqueeze(1))
            for weight, turned in zip(self._weights, self._turned):
                turned.copy_(weight.T)

    def forward(self, t: int) -> None:
        """Compute the action of step ``t``."""
        x = self._seen[t]
        for k in range(len(self.dense)):
            x = torch.addmm(self._biases[k], self._weights[k], x, out=self._out[k][t])
            if self._relu:
                x.relu_()
            else:
                x.tanh_()
        if self.network.gru_width:
            k = len(self.dense)
            torch.addmm(self._biases[k], self._weights[k], x, out=self._fed[t])
            torch.addmm(self._biases[k + 1], self._weights[k + 1], self._hidden[t], out=self._back[t])
            self._gates[t]()
            x = self._hidden[t + 1]
        wanted = torch.addmm(self._biases[-1], self._weights[-1], x, out=self._wanted[t])
        torch.clamp(wanted, -1.0, 1.0, out=self._chosen[t])

    def begin_reverse(self) -> None:
        """Zero the gradients of the previous rollout."""
        if self.network.gru_width:
            self._hidden_gradients[self.window.steps].zero_()

    def reverse(self, t: int) -> None:
        """Backpropagate the gradient of the action of step ``t`` to its observation."""
        self._pull[t]()
        gradient, weight = self._pulls[t], self._turned[-1]
        if self.network.gru_width:
            k = len(self.dense)
            later = self._hidden_gradients[t + 1]
            later.addmm_(weight, gradient)
            self._gates_reverse[t]()
            torch.addmm(self._direct, self._turned[k + 1], self._back_gradients[t], out=self._raw)
            self._shorten[t]()  # as the rollout does for the state
            gradient, weight = self._fed_gradients[t], self._turned[k]
        for k in reversed(range(len(self.dense))):
            out = torch.mm(weight, gradient, out=self._out_gradients[k][t])
            if self._relu:
                gradient = torch.ops.aten.threshold_backward.grad_input(out, self._out[k][t], 0, grad_input=out)
            else:
                gradient = torch.ops.aten.tanh_backward.grad_input(out, self._out[k][t], grad_input=out)
            weight = self._turned[k]
        torch.mm(weight, gradient, out=self._seen_gradients[t])

    def weight_gradients(self, steps: int | None = None) -> None:
        """Write each parameter's gradient, summed over the rollout or over the actions of its first ``steps``."""
        window, network = self.window, self.network
        steps = window.steps if steps is None else steps
        before = [window.observation, *self.outputs]
        for k, layer in enumerate(self.dense):
            self._write(layer, self.output_gradients[k], before[k], k == 0, steps)
        last = before[-1]
        if network.gru_width:
            self._write(network.fed, self.fed_gradient, last, False, steps)
            self._write(network.back, self.back_gradient, self.hidden, False, steps)
            last = self.hidden[:, 1:]
        flat = window.flat(self.pull, steps)
        rows, _, stride = last.shape
        seen = last.as_strided((rows, steps * stride), (last.stride(0), 1), last.storage_offset())
        network.last.weight.grad = flat @ seen.T
        network.last.bias.grad = flat.sum(dim=1)

    def _write(self, layer: nn.Linear, gradient: Tensor, before: Tensor, first: bool, steps: int) -> None:
        flat = self.window.flat(gradient, steps)
        weight, bias = flat @ self.window.flat(before, steps).T, flat.sum(dim=1)
        if first:  # the layer after the normalisation
            weight = (weight - torch.outer(bias, self.network.mean)) * self.network.scale
        layer.weight.grad, layer.bias.grad = weight, bias


def _prepare(kernel: Kernel, arrays: Mapping[str, Sequence[Tensor]]) -> list[Callable[[], None]]:
    """Return a call of a kernel for each step, from its arrays by name for each step."""
    return [kernel.prepare(dict(zip(arrays, step))) for step in zip(*arrays.values())]


def _pulled(actions: int, device: str) -> Kernel:
    """Return the kernel that maps gradients of clipped actions to gradients of unclipped ones.

    An action beyond its range keeps only gradients that lead back: those of a plain clip are zero and would leave it
    there. Each robot's gradient is clipped, as in :class:`DifferentiableRollout`, since it accumulates over steps.
    """

    def pulled(gradient: Any, wanted: Any, bound: Any) -> dict[str, Any]:
        made = np.array(
            [where(((w > 1.0) & (g < 0.0)) | ((w < -1.0) & (g > 0.0)), 0.0, g) for w, g in zip(wanted, gradient)],
            dtype=object,
        )
        share = minimum(bound[0] / np.sqrt((made * made).sum() + 1e-30), 1.0)
        return {"pull": made * share}

    return Kernel(pulled, {"gradient": actions, "wanted": actions, "bound": 1}, device=device)


def _gates(width: int, holds: bool, reverse: bool, device: str) -> Kernel:
    """Return the kernel of the recurrent layer; with ``holds`` the layer rests where the policy is not called."""

    def gates(fed: Any, back: Any, hidden: Any, acting: Any = None) -> dict[str, Any]:
        made = []
        for k in range(width):
            reset = (fed[k] + back[k]).sigmoid()
            update = (fed[width + k] + back[width + k]).sigmoid()
            new = (fed[2 * width + k] + reset * back[2 * width + k]).tanh()
            after = new + update * (hidden[k] - new)
            made.append(after if acting is None else where(acting[0] > 0.5, after, hidden[k]))
        return {"next": np.array(made, dtype=object)}

    rows = {"fed": 3 * width, "back": 3 * width, "hidden": width}
    return Kernel(gates, {**rows, **({"acting": 1} if holds else {})}, tuple(rows) if reverse else None, device)
