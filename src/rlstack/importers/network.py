"""A network from elsewhere as one ONNX graph, beside its own library's answer to the same observations."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.importers.mapping import NetworkSettings
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX
from rlstack.tasks.core.onnx_tracing import OPSET, trace_to_onnx

OBSERVATION, ACTIONS = "network_observation", "network_actions"
"""Names of the graph's input (batch, n) and output (batch, m)."""

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "elu": nn.ELU,
    "selu": nn.SELU,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
}
"""Activations by the name in a mapping."""

MAX_BYTES = 512 * 2**20
"""Size limit of what is imported: a checkpoint also has the optimiser's state."""

Stepper = Callable[[Array], Array]
"""From one robot's observation (n,) to its action (m,); keeps the recurrent state of one episode."""


@dataclass(frozen=True)
class NetworkInput:
    """A named part of the observation of a network with several inputs, or with one whose elements are named."""

    name: str
    size: int
    element_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """A network as it was trained.

    Args:
        model: From :data:`OBSERVATION` to :data:`ACTIONS`, float32 with a leading batch axis; a state ``x`` is
            ``state.x`` and ``next_state.x`` (batch, \\*shape), zero at the start.
        observation_size: n.
        action_size: m.
        state: Shape of each state.
        start: Returns a stepper of the original for a new episode, which decides on parity.
        facts: What else to write into the policy file.
        inputs: The parts of the observation in order, where they have names.
        rate_hz: What it was trained at, where the file says so.
        action_names: Joints or rotors in the order of the actions, where the file says so.
    """

    model: onnx.ModelProto
    observation_size: int
    action_size: int
    start: Callable[[], Stepper]
    state: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[NetworkInput, ...] = ()
    rate_hz: float = 0.0
    action_names: tuple[str, ...] = ()


class Importer(Protocol):
    """What a source's ``IMPORTER`` is."""

    def __call__(self, path: Path, settings: NetworkSettings, folder: Path) -> Network:
        """Return the network in ``path``; files that ``settings`` name are relative to ``folder``.

        Raises:
            UserError: The file is not of this source, or holds a network that this source does not know.
        """


def torch_network(module: nn.Module, observation_size: int, state: Mapping[str, tuple[int, ...]]) -> Network:
    """Return the network of a module ``(observation, *state) -> (actions, *state)``, batch first."""
    module = module.eval().requires_grad_(False)

    def start() -> Stepper:
        held = [torch.zeros(1, *shape) for shape in state.values()]

        def step(observation: Array) -> Array:
            with torch.inference_mode():
                actions, *held[:] = module(torch.tensor(observation, dtype=torch.float32)[None], *held)
            return np.asarray(actions[0].numpy(), dtype=float)

        return step

    example = (torch.zeros(2, observation_size), *(torch.zeros(2, *shape) for shape in state.values()))
    with torch.inference_mode():
        actions = int(module(*example)[0].shape[-1])
    model = to_onnx(
        module,
        {OBSERVATION: (observation_size,), **{STATE_PREFIX + n: s for n, s in state.items()}},
        {ACTIONS: (actions,), **{NEXT_STATE_PREFIX + n: s for n, s in state.items()}},
    )
    return Network(model, observation_size, actions, start, dict(state))


def to_onnx(
    module: nn.Module, inputs: Mapping[str, tuple[int, ...]], outputs: Mapping[str, tuple[int, ...]]
) -> onnx.ModelProto:
    """Return a module as ONNX by tracing; shapes are of one robot, the batch axis is free."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of recurrent layers, whose batch is free all the same: parity tries ten
        return trace_to_onnx(module, inputs, outputs)


def at_opset(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Return a graph in the opset of rlstack's own; raise ``UserError`` if it cannot be converted."""
    versions = {entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")}
    if versions == {OPSET}:
        return model
    try:
        return onnx.version_converter.convert_version(model, OPSET)
    except Exception as error:  # onnx raises kinds of its own
        said = " ".join(str(error).split())[:200]
        raise UserError(f"{where}: opset {sorted(versions)} cannot be converted to {OPSET}: {said}.") from error


def check_settings(settings: NetworkSettings, source: str, *taken: str) -> None:
    """Raise ``UserError`` if the mapping has settings that a source does not take."""
    for entry in fields(settings):
        given = getattr(settings, entry.name)
        if given and entry.name not in taken:
            raise UserError(
                f"network.{entry.name} is not for {source}, which takes {', '.join(taken) or 'no settings'}: leave it"
                " out of the mapping."
            )


def perceptron(weights: Mapping[str, Tensor], prefix: str, activation: str, where: str) -> nn.Sequential:
    """Return the layers ``PREFIX<number>.weight`` and ``.bias`` in the order of their numbers, linear at the end.

    Raises:
        UserError: There are none, one is no linear layer, their sizes do not follow, or the activation is unknown.
    """
    if activation not in ACTIVATIONS:
        said = f"'{activation}' is unknown" if activation else "the file holds weights only, not the activation"
        raise UserError(f"{where}: network.activation: {said}. Write one of {', '.join(ACTIVATIONS)} in the mapping.")
    numbers = sorted(
        int(name[len(prefix) : -len(".weight")])
        for name in weights
        if name.startswith(prefix) and name.endswith(".weight") and name[len(prefix) : -len(".weight")].isdigit()
    )
    if not numbers:
        raise UserError(f"{where} has no layers called {prefix}<number>.weight. It has {shown(weights)}.")
    layers: list[nn.Module] = []
    for number in numbers:
        name = f"{prefix}{number}"
        new = linear(weights, name, where)
        if layers:
            before = next(layer for layer in reversed(layers) if isinstance(layer, nn.Linear))
            if before.out_features != new.in_features:
                raise UserError(
                    f"{where}: {name} takes {new.in_features} numbers, but the layer before it gives"
                    f" {before.out_features}."
                )
            layers.append(ACTIVATIONS[activation]())
        layers.append(new)
    return nn.Sequential(*layers)


def linear(weights: Mapping[str, Tensor], name: str, where: str) -> nn.Linear:
    """Return one linear layer of a state dictionary; raise ``UserError`` where it is none."""
    weight, bias = weights.get(f"{name}.weight"), weights.get(f"{name}.bias")
    if weight is None or bias is None or weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise UserError(f"{where}: {name} is no linear layer with a bias. It has {shown(weights)}.")
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight.float(), "bias": bias.float()})
    return layer


def shown(names: Mapping[str, Any] | Sequence[str]) -> str:
    """Return some names of a file, for an error."""
    first = list(map(str, names))[:12]
    return ", ".join(first) + (" and more" if len(names) > len(first) else "") or "nothing"


def read_weights(data: bytes, where: str) -> dict[str, Any]:
    """Return what a torch checkpoint holds, without running code from it.

    Raises:
        UserError: It is no checkpoint, or needs code of its own to be read.
    """
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for what is no checkpoint
        said = " ".join(str(error).partition("WeightsUnpickler error:")[2].split() or str(error).split())
        said = said.partition(" Please use")[0].rstrip(".")[:200]
        raise UserError(
            f"{where} cannot be read as weights alone: {said}. rlstack never runs code from a file, as unpickling"
            " would. Save the state dictionary (torch.save(model.state_dict(), ...))."
        ) from error
    if not isinstance(found, dict):
        raise UserError(f"{where} holds a {type(found).__name__}, not a dictionary of weights.")
    return found
