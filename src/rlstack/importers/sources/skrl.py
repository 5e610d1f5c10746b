"""A checkpoint of skrl (``agent_<n>.pt``, ``best_agent.pt``): its policy, with the scaler of the observation.

It is read as weights alone, of releases 1.4 to 2.1. skrl makes models of generated code, which a checkpoint does not
hold: what is read is the form that its model instantiators and Isaac Lab's configurations give, one chain of layers,
alone or shared with the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.network import (
    ACTIVATIONS,
    MAX_BYTES,
    Network,
    check_settings,
    linear,
    perceptron,
    read_weights,
    shown,
    torch_network,
)
from rlstack.yaml_files import read_bytes

_EPSILON, _CLIP = 1e-8, 5.0
"""Of skrl's RunningStandardScaler, unless it was told otherwise, which a checkpoint does not say."""

_SCALERS = ("observation_preprocessor", "state_preprocessor")
"""What scales the policy's observation: since release 2, before it; in release 2 the second is the critic's."""

_LAST = ("policy_layer", "output_layer", "mean_layer")
"""The layer of the actions: shared or alone since 1.4, alone in 2, and in skrl's examples."""


class Actor(nn.Module):
    """Scaler, layers, and what follows them; the mean of the distribution."""

    def __init__(self, layers: nn.Module, mean: Tensor | None, std: Tensor | None) -> None:
        super().__init__()
        self.layers, self.mean, self.std = layers, mean, std

    def forward(self, observation: Tensor) -> tuple[Tensor, ...]:
        """Map (batch, n) to actions (batch, m)."""
        if self.mean is not None and self.std is not None:
            observation = ((observation - self.mean) / (self.std + _EPSILON)).clamp(-_CLIP, _CLIP)
        return (self.layers(observation),)


def read_skrl(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the policy of a checkpoint."""
    where = str(path)
    check_settings(settings, "skrl", "activation", "output_activation")
    holds = read_weights(read_bytes(path, "the checkpoint", MAX_BYTES), where)
    weights = holds.get("policy")
    if not isinstance(weights, Mapping) or not all(isinstance(w, Tensor) for w in weights.values()):
        raise UserError(
            f"{where} has no policy of skrl. It has {shown(holds)}. Give the agent's checkpoint, agent_<n>.pt or"
            " best_agent.pt, which has the scaler as well."
        )
    layers = _layers(weights, settings, where)
    first = next(layers.children())
    assert isinstance(first, nn.Linear)
    mean, std = _scaler(holds, first.in_features, where)
    return torch_network(Actor(layers, mean, std), first.in_features, {})


def _layers(weights: Mapping[str, Tensor], settings: NetworkSettings, where: str) -> nn.Sequential:
    if recurrent := [name for name in weights if ".weight_hh_l" in name or name.startswith("weight_hh_l")]:
        raise UserError(f"{where}: {recurrent[0]} is of a recurrent model, whose code is not in the file: export ONNX.")
    chains = sorted({found[1] for name in weights if (found := re.match(r"(\w+\.)\d+\.weight$", name))})
    if len(chains) != 1:
        raise UserError(
            f"{where}: the policy has {len(chains)} chains of layers ({', '.join(chains) or shown(weights)}), and how"
            " they are joined is not in the file: export ONNX."
        )
    layers = [*perceptron(weights, chains[0], settings.activation, where).children()]
    last = [name for name in _LAST if f"{name}.weight" in weights]
    if len(last) > 1:
        raise UserError(f"{where}: the policy has the layers {' and '.join(last)}; only one can give the actions.")
    if last:
        top = linear(weights, last[0], where)
        before = layers[-1]
        assert isinstance(before, nn.Linear)
        if before.out_features != top.in_features:
            raise UserError(
                f"{where}: {last[0]} takes {top.in_features} numbers, but {chains[0]} gives {before.out_features}."
            )
        layers += [ACTIVATIONS[settings.activation](), top]
    if settings.output_activation:
        if settings.output_activation not in ACTIVATIONS:
            raise UserError(
                f"{where}: network.output_activation: '{settings.output_activation}' is unknown. Write one of"
                f" {', '.join(ACTIVATIONS)}, or leave it out."
            )
        layers.append(ACTIVATIONS[settings.output_activation]())
    return nn.Sequential(*layers)


def _scaler(holds: Mapping[str, Any], size: int, where: str) -> tuple[Tensor | None, Tensor | None]:
    """Return mean and standard deviation of the observation, if it is scaled."""
    found = next((holds[name] for name in _SCALERS if name in holds), None)
    if found is None:
        return None, None
    if not isinstance(found, Mapping) or not {"running_mean", "running_variance"} <= set(found):
        raise UserError(f"{where}: the observation is scaled by something else than skrl's RunningStandardScaler.")
    mean, variance = found["running_mean"].float(), found["running_variance"].float()
    if mean.shape != (size,) or variance.shape != (size,):
        raise UserError(f"{where}: the scaler is of {mean.numel()} numbers, but the policy takes {size}.")
    return mean, torch.sqrt(variance)


IMPORTER = read_skrl
