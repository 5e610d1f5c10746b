"""The weights of a policy from its file, whose graph has them as constants.

The graph of a network of the same form has the same operations, so that where its own weights are used, which are
known, tells what the file's constants are. Whether the weights make the same commands as the file is tried.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from rlstack.policies import load_policy
from rlstack.policies.graph_checks import clean
from rlstack.training.export import TOLERANCE, PolicyGraph, compare, to_onnx
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.predecessor import Predecessor

_TRIED = 100
"""Random observations for which file and weights must agree."""
_EXACT = "tokeniser."
"""Tensors that are no weights, and make other constants where they differ."""


def weights_of_file(path: Path, policy: LanguageActor, environment: Any, heads: tuple[str, ...]) -> dict[str, Tensor]:
    """Return a policy's tensors by name; those that its graph does not need are as they are in ``policy``.

    Args:
        path: The policy file.
        policy: Of the same form.
        environment: Of its task and robot; the file may have a shift of actions that this task has not, or lack one.
        heads: Heads that the algorithm learns.

    Raises:
        UserError: The file is not readable, is of another form, or makes other commands.
    """
    robot, names = environment.robot, environment.task.inputs
    contract = load_policy(path, robot=robot).contract
    before = Predecessor(path, contract.training.get("recipe") or {}, environment, policy, heads)
    pipeline = before.task().pipeline(robot)
    twin = copy.deepcopy(policy).eval().requires_grad_(False)
    twin.fixed_eyes = False  # a file has one graph, from images on
    draw = torch.Generator().manual_seed(0)
    for name, tensor in twin.state_dict().items():
        if tensor.is_floating_point() and not name.startswith(_EXACT):
            tensor.copy_(torch.rand(tensor.shape, generator=draw) + 0.5)
    graph = PolicyGraph(pipeline, twin, names)
    if {port.name: port.shape for port in contract.state} != graph.memory:
        raise before.misfit("it has another chunk, task or state")
    known, held = _constants(clean(to_onnx(graph, contract), str(path))), _constants(onnx.load(path))
    if [(place, array.shape) for place, array in known] != [(place, array.shape) for place, array in held]:
        raise before.misfit("its graph is that of another network")
    found = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    places: dict[bytes, tuple[str, bool]] = {}
    for name, tensor in twin.state_dict().items():
        places[tensor.T.contiguous().numpy().tobytes() if tensor.ndim == 2 else b""] = name, True
        places[tensor.numpy().tobytes()] = name, False
    for (_, mine), (_, theirs) in zip(known, held):
        name, turned = places.get(mine.tobytes(), ("", False))
        if name:
            shape = found[name].shape[::-1] if turned else found[name].shape
            weight = torch.from_numpy(theirs.reshape(tuple(shape)).copy())
            found[name] = weight.T.contiguous() if turned else weight
    twin.load_state_dict(found)
    apart = compare(graph, contract, path, robot, observations=_TRIED)
    if not apart <= TOLERANCE:
        raise before.misfit(f"weights read from it make commands that differ by {apart:.1e} of their range")
    return found


def _constants(model: onnx.ModelProto) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return the constants of a graph in the order of their use, each with its place.

    Equal ones are written once, and have other names by identities.
    """
    held = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    nodes: list[tuple[str, Any]] = []
    for node in model.graph.node:
        if node.op_type == "Identity" and node.input[0] in held:
            held[node.output[0]] = held[node.input[0]]
        else:
            nodes.append((f"{node.op_type} {len(nodes)}", node))
    return [(place, held[name]) for place, node in nodes for name in node.input if name in held]
