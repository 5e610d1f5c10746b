"""A policy as a LEAPP bundle: a YAML file, an ONNX graph, and the recurrent state's initial values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.libraries import import_library
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX, Port
from rlstack.policies.fixed_policy import fixed_policy
from rlstack.robots import RobotSpec

CONFIG_VERSION = "1.3"
"""Version of LEAPP's YAML that is written: that of leapp 0.7."""

NODE = "policy"
"""Name of the one graph."""

_KINDS = {
    "joint_position": "state/joint/position",
    "joint_velocity": "state/joint/velocity",
    "position": "state/body/position",
    "orientation": "state/body/rotation",
    "linear_velocity": "state/body/linear_velocity",
    "angular_velocity": "state/body/angular_velocity",
    "joint_target": "target/joint/position",
}
"""LEAPP's word for a signal, where it has one."""


@dataclass(frozen=True)
class Bundle:
    """The files of a bundle."""

    description: Path
    graph: Path
    initial_values: Path | None


def write_leapp(
    path: str | Path, folder: Path, *, robot: RobotSpec | None = None, sizes: Mapping[str, int] | None = None
) -> Bundle:
    """Write a policy file as ``NAME.yaml``, ``NAME.onnx`` and ``NAME_initial_values.safetensors``.

    Every input and output keeps its name, unit, frame and topic; the recurrent state is fed back by LEAPP.

    Args:
        path: The policy file, or the name of a released policy.
        folder: Where to; made if it is missing.
        robot: The robot that it is for; a policy for a family needs one.
        sizes: Size of each axis that may differ between calls, such as ``points``.

    Raises:
        UserError: The policy is refused, safetensors is missing for a recurrent one, or a file cannot be written.
    """
    policy = fixed_policy(path, robot, sizes or {})
    contract = policy.contract
    name = contract.name
    if not name or Path(name).name != name:
        raise UserError(f"{policy.where}: '{name}' is no name of a file: export the policy again under another name.")
    states = {state.name: (1, *state.shape) for state in contract.state}
    start = b""
    if states:
        save = import_library("safetensors.numpy", "leapp").save
        start = save({f"{NODE}/{STATE_PREFIX}{n}": np.zeros(shape, np.float32) for n, shape in states.items()})
    graph = policy.model.SerializeToString(deterministic=True)
    inputs = [_port(port) for port in contract.inputs] + [_tensor(STATE_PREFIX + n, s) for n, s in states.items()]
    outputs = [_port(port) for port in contract.outputs] + [
        _tensor(NEXT_STATE_PREFIX + n, s) for n, s in states.items()
    ]
    pipeline: dict[str, Any] = {
        "configs": {
            "frequency": float(contract.rate_hz),
            "rlstack": {"robot": contract.robot, "task": contract.task, "policy_sha256": policy.sha256},
        },
        "data_flow": {},
        "feedback_flow": {f"{NODE}/{NEXT_STATE_PREFIX}{n}": [f"{NODE}/{STATE_PREFIX}{n}"] for n in states},
        "inputs": {NODE: [port.name for port in contract.inputs]},
        "outputs": {NODE: [port.name for port in contract.outputs]},
    }
    if states:
        pipeline["initial_values"] = f"{name}_initial_values.safetensors"
    parameters = {
        "model_path": f"{name}.onnx",
        "md5sum": hashlib.md5(graph, usedforsecurity=False).hexdigest(),
        "sha256sum": hashlib.sha256(graph).hexdigest(),
        "backend": "onnx",
        "opset_version": next(o.version for o in policy.model.opset_import if o.domain in ("", "ai.onnx")),
    }
    data = {
        "models": {
            NODE: {
                "inputs": _ordered(inputs, [entry.name for entry in policy.graph.input]),
                "outputs": _ordered(outputs, [entry.name for entry in policy.graph.output]),
                "parameters": parameters,
            }
        },
        "pipeline": pipeline,
        "system information": {"leapp config version": CONFIG_VERSION, "rlstack version": contract.code_version},
    }
    folder.mkdir(parents=True, exist_ok=True)
    bundle = Bundle(
        folder / f"{name}.yaml",
        folder / f"{name}.onnx",
        folder / f"{name}_initial_values.safetensors" if states else None,
    )
    write_atomically(bundle.graph, graph, what="the graph")
    if bundle.initial_values is not None:
        write_atomically(bundle.initial_values, start, what="the initial values")
    text = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120)
    write_atomically(bundle.description, text.encode(), what="the bundle")
    return bundle


def _port(port: Port) -> dict[str, Any]:
    about: dict[str, Any] = _tensor(port.name, (1, *port.sized({})))
    if port.name in _KINDS:
        about["kind"] = _KINDS[port.name]
    if port.element_names:
        about["element_names"] = [list(port.element_names)]
    return about | {"unit": port.unit, "frame": port.frame, "topic": port.topic, "field": port.field}


def _tensor(name: str, shape: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "dtype": "float32", "shape": list(shape), "type": "tensor"}


def _ordered(entries: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return entries in the order of the graph, by which LEAPP's runtime passes tensors."""
    return sorted(entries, key=lambda entry: names.index(entry["name"]))
