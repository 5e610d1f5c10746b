"""An ACT policy of LeRobot that sees vectors: its folder with config.json, model.safetensors and its processors.

The robot's state and the environment's are the network's inputs. The chunk of actions and how much of it was used are
recurrent states of the policy file, so that it answers one action a step as LeRobot's ``select_action`` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.data.lerobot.processors import ACTION_FEATURE, read_json, read_scales
from rlstack.errors import UserError
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.network import MAX_BYTES, Network, NetworkInput, check_settings, shown, torch_network
from rlstack.libraries import import_library
from rlstack.yaml_files import read_bytes

_STATE, _WORLD = "observation.state", "observation.environment_state"
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}


class Act(nn.Module):
    """The transformer without its variational encoder, which is for training, and the queue of actions."""

    def __init__(self, weights: Mapping[str, Tensor], config: Mapping[str, Any], scales: Mapping[str, Any]) -> None:
        super().__init__()
        self.weights, self.scales = dict(weights), dict(scales)
        self.heads, self.pre_norm = int(config["n_heads"]), bool(config["pre_norm"])
        self.activation = _ACTIVATIONS[config["feedforward_activation"]]
        self.layers = int(config["n_encoder_layers"]), int(config["n_decoder_layers"])
        self.sizes = {name: int(about["shape"][0]) for name, about in config["input_features"].items()}
        self.used, self.latent = int(config["n_action_steps"]), int(config["latent_dim"])

    def forward(self, observation: Tensor, chunk: Tensor, taken: Tensor) -> tuple[Tensor, ...]:
        """Map (batch, n), the chunk (batch, steps, m) and the number of used actions (batch, 1) to the next ones."""
        chunk = torch.where(taken[..., None] < 0.5, self._chunk(observation), chunk)
        place = torch.arange(self.used, dtype=torch.float32)
        chosen = ((place - taken).abs() < 0.5).float()  # (batch, steps)
        after = torch.where(taken > self.used - 1.5, torch.zeros_like(taken), taken + 1.0)
        return (chosen[..., None] * chunk).sum(dim=1), chunk, after

    def _chunk(self, observation: Tensor) -> Tensor:
        parts = dict(zip(self.sizes, observation.split(list(self.sizes.values()), dim=-1)))
        nothing = 0.0 * observation[:, :1]
        tokens = [self._linear("encoder_latent_input_proj", nothing.repeat(1, self.latent))]
        for name, layer in ((_STATE, "encoder_robot_state_input_proj"), (_WORLD, "encoder_env_state_input_proj")):
            if name in parts:
                scale, offset = self.scales[name]
                tokens.append(self._linear(layer, parts[name] * scale + offset))
        seen, where = torch.stack(tokens, dim=1), self.weights["encoder_1d_feature_pos_embed.weight"]
        for number in range(self.layers[0]):
            seen = self._encode(f"encoder.layers.{number}", seen, where)
        if self.pre_norm:
            seen = self._norm("encoder.norm", seen)
        asked = self.weights["decoder_pos_embed.weight"]
        found = nothing[:, :, None] + torch.zeros(asked.shape)
        for number in range(self.layers[1]):
            found = self._decode(f"decoder.layers.{number}", found, asked, seen, where)
        actions = self._linear("action_head", self._norm("decoder.norm", found))[:, : self.used]
        scale, offset = self.scales[ACTION_FEATURE]
        return actions * scale + offset

    def _encode(self, layer: str, x: Tensor, where: Tensor) -> Tensor:
        y = self._norm(f"{layer}.norm1", x) if self.pre_norm else x
        x = x + self._attend(f"{layer}.self_attn", y + where, y + where, y)
        return self._widen(layer, x, "norm1", "norm2")

    def _decode(self, layer: str, x: Tensor, asked: Tensor, seen: Tensor, where: Tensor) -> Tensor:
        y = self._norm(f"{layer}.norm1", x) if self.pre_norm else x
        x = x + self._attend(f"{layer}.self_attn", y + asked, y + asked, y)
        if not self.pre_norm:
            x = self._norm(f"{layer}.norm1", x)
        y = self._norm(f"{layer}.norm2", x) if self.pre_norm else x
        x = x + self._attend(f"{layer}.multihead_attn", y + asked, seen + where, seen)
        return self._widen(layer, x, "norm2", "norm3")

    def _widen(self, layer: str, x: Tensor, before: str, after: str) -> Tensor:
        """Apply the layers of each token, with the norm that comes before or after by the network's form."""
        if not self.pre_norm:
            x = self._norm(f"{layer}.{before}", x)
        y = self._norm(f"{layer}.{after}", x) if self.pre_norm else x
        x = x + self._linear(f"{layer}.linear2", self.activation(self._linear(f"{layer}.linear1", y)))
        return x if self.pre_norm else self._norm(f"{layer}.{after}", x)

    def _attend(self, layer: str, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weight, bias = self.weights[f"{layer}.in_proj_weight"], self.weights[f"{layer}.in_proj_bias"]
        size = weight.shape[1]
        turned = []
        for number, given in enumerate((query, key, value)):
            rows = slice(number * size, (number + 1) * size)
            some = functional.linear(given, weight[rows], bias[rows])
            turned.append(some.reshape(-1, some.shape[1], self.heads, size // self.heads).transpose(1, 2))
        q, k, v = turned
        share = torch.softmax(q @ k.transpose(-1, -2) / (size // self.heads) ** 0.5, dim=-1)
        return self._linear(f"{layer}.out_proj", (share @ v).transpose(1, 2).reshape(-1, query.shape[1], size))

    def _linear(self, layer: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.weights[f"{layer}.weight"], self.weights[f"{layer}.bias"])

    def _norm(self, layer: str, x: Tensor) -> Tensor:
        weight = self.weights[f"{layer}.weight"]
        return functional.layer_norm(x, (len(weight),), weight, self.weights[f"{layer}.bias"])


def read_lerobot_act(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the policy in a folder that LeRobot's ``save_pretrained`` wrote."""
    check_settings(settings, "lerobot_act")
    path = path if path.is_dir() else path.parent
    hashes: dict[str, str] = {}
    config = read_json(path, "config.json", hashes)
    where = str(path)
    try:
        _check(config, where)
        weights = _tensors(path, "model.safetensors", hashes)
        weights = {n.removeprefix("model."): w for n, w in weights.items() if not n.startswith("model.vae_encoder")}
        scales = {
            name: (torch.from_numpy(scale), torch.from_numpy(offset))
            for name, (scale, offset) in read_scales(path, config, hashes).items()
        }
        act = Act(weights, config, scales)
        actions = int(config["output_features"][ACTION_FEATURE]["shape"][0])
        network = torch_network(act, sum(act.sizes.values()), {"chunk": (act.used, actions), "taken": (1,)})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"{where} is not as LeRobot writes an ACT policy ({type(error).__name__}: {said}).") from error
    inputs = tuple(NetworkInput(name, size) for name, size in act.sizes.items())
    return replace(network, inputs=inputs, facts={"source_files": hashes})


def _check(config: Mapping[str, Any], where: str) -> None:
    if config.get("type") != "act":
        raise UserError(f"{where} holds a policy of the type '{config.get('type')}', and 'act' alone is read.")
    if images := [name for name in config["input_features"] if name not in (_STATE, _WORLD)]:
        raise UserError(
            f"{where} sees {', '.join(images)}: an imported policy sees vectors alone ({_STATE}, {_WORLD}). Fly it from"
            " LeRobot's policy server."
        )
    if config.get("temporal_ensemble_coeff") is not None:
        raise UserError(
            f"{where} averages overlapping chunks (temporal_ensemble_coeff {config['temporal_ensemble_coeff']}), which"
            " is not read: set it to null and n_action_steps to the length that is executed."
        )
    if config["feedforward_activation"] not in _ACTIVATIONS:
        raise UserError(f"{where}: feedforward_activation '{config['feedforward_activation']}' is unknown.")


def _tensors(path: Path, name: str, hashes: dict[str, str]) -> dict[str, Tensor]:
    if Path(name).name != name:
        raise UserError(f"{path}: {name} is not within the folder.")
    load = import_library("safetensors.torch", "leapp").load
    data = read_bytes(path / name, "the tensors", MAX_BYTES)
    hashes[name] = hashlib.sha256(data).hexdigest()
    try:
        found = {key: value.float() for key, value in load(data).items()}
    except Exception as error:  # safetensors raises kinds of its own
        raise UserError(f"{path / name} holds no tensors: {error}. Copy it again.") from error
    if not found:
        raise UserError(f"{path / name} has {shown([])}.")
    return found


IMPORTER = read_lerobot_act
