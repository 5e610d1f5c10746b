"""A model of stable-baselines3 (.zip): the actor of PPO, A2C, SAC, TD3 or DDPG, with the statistics of VecNormalize.

The weights are read as weights alone. ``vecnormalize.pkl`` is a pickle, which could run code: it is read by a reader
that builds arrays of numbers only, and for everything else an empty shell.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
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

_ACTIVATIONS = {
    "ELU": "elu",
    "SELU": "selu",
    "ReLU": "relu",
    "LeakyReLU": "leaky_relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "GELU": "gelu",
    "SiLU": "silu",
    "Mish": "mish",
}


class Actor(nn.Module):
    """Normaliser, layers, and the squashing of SAC, TD3 and DDPG; what is answered without exploration."""

    def __init__(self, layers: nn.Module, squash: bool, statistics: tuple[Tensor, Tensor, float] | None) -> None:
        super().__init__()
        self.layers, self.squash, self.statistics = layers, squash, statistics

    def forward(self, observation: Tensor) -> tuple[Tensor, ...]:
        """Map (batch, n) to actions (batch, m)."""
        if self.statistics is not None:
            mean, std, most = self.statistics
            observation = ((observation - mean) / std).clamp(-most, most)
        actions = self.layers(observation)
        return (torch.tanh(actions) if self.squash else actions,)


def read_stable_baselines3(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the actor of a model."""
    where = str(path)
    check_settings(settings, "stable_baselines3", "activation", "statistics")
    data = read_bytes(path, "the model", MAX_BYTES)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(archive.getinfo(name).file_size > MAX_BYTES for name in ("policy.pth", "data")):
                raise UserError(f"{where} has more than {MAX_BYTES // 2**20} MiB of weights.")
            weights = read_weights(archive.read("policy.pth"), where)
            about = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, RuntimeError, EOFError) as error:
        raise UserError(f"{where} is no model of stable-baselines3 ({error}): it needs policy.pth and data.") from error
    hidden, last, squash, default = _layout(weights, where)
    if (squash and "actor.mu.0.weight" in weights and last) or '"squash_output": true' in json.dumps(about):
        raise UserError(
            f"{where} explores by states (use_sde), which changes its actor: train it without, or use ONNX."
        )
    activation = _activation(settings, about, default)
    layers = perceptron(weights, hidden, activation, where)
    if last:
        layers = nn.Sequential(*layers.children(), ACTIVATIONS[activation](), linear(weights, last, where))
    first = next(layers.children())
    assert isinstance(first, nn.Linear)
    statistics = _statistics(folder / settings.statistics, first.in_features) if settings.statistics else None
    return torch_network(Actor(layers, squash, statistics), first.in_features, {})


def _layout(weights: Mapping[str, Any], where: str) -> tuple[str, str, bool, str]:
    """Return the prefix of the hidden layers, the last layer's name, whether tanh follows, and the usual activation."""
    if "action_net.weight" in weights:
        return "mlp_extractor.policy_net.", "action_net", False, "tanh"
    if "actor.latent_pi.0.weight" in weights:
        return "actor.latent_pi.", "actor.mu", True, "relu"
    if "actor.mu.0.weight" in weights:
        return "actor.mu.", "", True, "relu"
    raise UserError(
        f"{where} has no actor of PPO, A2C, SAC, TD3 or DDPG with a vector as observation. It has {shown(weights)}."
    )


def _activation(settings: NetworkSettings, about: dict[str, Any], default: str) -> str:
    """Return the activation: that of the mapping, else what the file says as text, else the library's default."""
    text = json.dumps(about.get("policy_kwargs", {}))
    found = re.search(r"activation\w*\.(\w+)'", text)
    return settings.activation or (_ACTIVATIONS.get(found[1], found[1]) if found else default)


class _Shell:
    """What stands for every object of a pickle that is no array."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.state: Any = {}

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Numbers(pickle.Unpickler):
    """Builds arrays of numbers, and shells for all else; calls nothing that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "scalar"):
            from numpy._core import multiarray

            return getattr(multiarray, name)
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        return _Shell


def _statistics(path: Path, size: int) -> tuple[Tensor, Tensor, float]:
    """Return mean, standard deviation and clip of the observation."""
    try:
        kept = _Numbers(io.BytesIO(read_bytes(path, "the statistics", 2**24))).load().state
        running = kept["obs_rms"].state
        mean, variance = np.asarray(running["mean"], float), np.asarray(running["var"], float)
        epsilon, most, used = float(kept["epsilon"]), float(kept["clip_obs"]), bool(kept["norm_obs"])
    except UserError:
        raise
    except Exception as error:  # a damaged pickle raises anything
        raise UserError(
            f"{path} holds no statistics of VecNormalize for a vector ({type(error).__name__}): give the file that"
            " VecNormalize.save wrote."
        ) from error
    if not used:
        raise UserError(f"{path} is of a VecNormalize that leaves observations as they are: leave out statistics.")
    if mean.shape != (size,):
        raise UserError(f"{path} is of observations with {mean.size} numbers, but the network takes {size}.")
    std = np.sqrt(variance + epsilon)
    return torch.tensor(mean, dtype=torch.float32), torch.tensor(std, dtype=torch.float32), most


IMPORTER = read_stable_baselines3
