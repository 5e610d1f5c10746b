"""A checkpoint of rsl_rl (``model_<n>.pt``): its actor, with the observation's normaliser and a GRU or LSTM.

It is read as weights alone, of releases 1 to 5, whose names differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.network import MAX_BYTES, Network, check_settings, perceptron, read_weights, shown, torch_network
from rlstack.yaml_files import read_bytes

_EPSILON = 1e-2
"""What rsl_rl adds to the standard deviation."""

_NORMALISERS = ("obs_normalizer.", "actor_obs_normalizer.")
_RECURRENT = ("rnn.rnn.", "memory_a.rnn.")
_LAYERS = ("mlp.", "actor.")


class Actor(nn.Module):
    """Normaliser, recurrent layers if there are any, perceptron; the output is the mean of the distribution."""

    def __init__(
        self, layers: nn.Sequential, recurrent: nn.GRU | nn.LSTM | None, mean: Tensor | None, std: Tensor | None
    ) -> None:
        super().__init__()
        self.layers, self.recurrent = layers, recurrent
        self.mean, self.std = mean, std

    def forward(self, observation: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Map (batch, n) and states (batch, layers, size) to actions and states."""
        if self.mean is not None and self.std is not None:
            observation = (observation - self.mean) / (self.std + _EPSILON)
        if self.recurrent is None:
            return (self.layers(observation),)
        held = tuple(part.transpose(0, 1).contiguous() for part in state)
        latent, after = self.recurrent(observation[None], held if len(held) == 2 else held[0])
        after = after if isinstance(after, tuple) else (after,)
        return (self.layers(latent[0]), *(part.transpose(0, 1) for part in after))


def read_rsl_rl(path: Path, settings: NetworkSettings, folder: Path) -> Network:
    """Return the actor of a checkpoint."""
    where = str(path)
    check_settings(settings, "rsl_rl", "activation")
    holds = read_weights(read_bytes(path, "the checkpoint", MAX_BYTES), where)
    weights = holds.get("actor_state_dict", holds.get("model_state_dict"))
    if not isinstance(weights, dict):
        raise UserError(f"{where} has no actor_state_dict or model_state_dict of rsl_rl. It has {shown(holds)}.")
    prefix = next((p for p in _LAYERS if f"{p}0.weight" in weights), _LAYERS[0])
    layers = perceptron(weights, prefix, settings.activation, where)
    recurrent = _recurrent(weights, where)
    mean, std = _normaliser(weights, holds)
    first = layers[0]
    assert isinstance(first, nn.Linear)
    if recurrent is not None and recurrent.hidden_size != first.in_features:
        raise UserError(
            f"{where}: the recurrent layers give {recurrent.hidden_size} numbers, but {prefix}0 takes"
            f" {first.in_features}."
        )
    size = first.in_features if recurrent is None else recurrent.input_size
    if mean is not None and mean.numel() != size:
        raise UserError(f"{where}: the normaliser is of {mean.numel()} numbers, but the actor takes {size}.")
    state = {}
    if recurrent is not None:
        shape = (recurrent.num_layers, recurrent.hidden_size)
        state = {n: shape for n in (("hidden", "cell") if isinstance(recurrent, nn.LSTM) else ("hidden",))}
    return torch_network(Actor(layers, recurrent, mean, std), size, state)


def _normaliser(weights: Mapping[str, Tensor], holds: Mapping[str, object]) -> tuple[Tensor | None, Tensor | None]:
    old = holds.get("obs_norm_state_dict")  # releases before 3 keep it beside the network
    if isinstance(old, dict) and "_mean" in old:
        return old["_mean"].float(), old["_std"].float()
    for prefix in _NORMALISERS:
        if f"{prefix}_mean" in weights:
            return weights[f"{prefix}_mean"].float(), weights[f"{prefix}_std"].float()
    return None, None


def _recurrent(weights: Mapping[str, Tensor], where: str) -> nn.GRU | nn.LSTM | None:
    for prefix in _RECURRENT:
        found = {n.removeprefix(prefix): w.float() for n, w in weights.items() if n.startswith(prefix)}
        if not found:
            continue
        hidden = found["weight_hh_l0"].shape[1]
        gates = found["weight_hh_l0"].shape[0] // hidden
        if gates not in (3, 4):
            raise UserError(f"{where}: {prefix} has {gates} gates, and must be a GRU (3) or an LSTM (4).")
        kind = nn.GRU if gates == 3 else nn.LSTM
        layer = kind(found["weight_ih_l0"].shape[1], hidden, sum(n.startswith("weight_hh_l") for n in found))
        try:
            layer.load_state_dict(found)
        except RuntimeError as error:
            raise UserError(f"{where}: {prefix} is no GRU or LSTM: {' '.join(str(error).split())[:200]}.") from error
        return layer
    return None


IMPORTER = read_rsl_rl
