"""The mapping as two small modules, and the whole policy: signals in, network, command out."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import torch
from onnx import compose
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.importers.mapping import CONSTANT, PREVIOUS_ACTION, Plan, ResolvedTerm
from rlstack.importers.network import ACTIONS, OBSERVATION, Network, to_onnx
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX, Contract
from rlstack.tasks.core.pipeline import rotation_matrix, to_body, to_world
from rlstack.training.export import valid

_BASE = "command_base"


class Observer(nn.Module):
    """From the signals and the previous action to the observation, and to what the action is added to."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs (batch, size) in the plan's order, and the previous action, to observation and base."""
        inputs = {name: valid(name, tensor) for name, tensor in zip(self.plan.inputs, tensors)}
        previous = tensors[-1]
        nothing = 0.0 * next(iter(inputs.values()), previous)[:, :1]  # tracing fixes the batch of what is expanded
        observation = torch.cat([_value(term, inputs, previous, nothing) for term in self.plan.terms], dim=-1)
        action = self.plan.action
        added = inputs[action.relative_to] if action.relative_to else nothing
        return observation, added + torch.tensor(action.offset, dtype=torch.float32)


class Commander(nn.Module):
    """From the network's actions to the command in SI units, and to the previous action of the next step."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.action = plan.action

    def forward(self, actions: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
        """Map actions (batch, m) and base (batch, n) to the command (batch, n) and the clipped actions (batch, m)."""
        given = self.action
        finite = torch.where(torch.isnan(actions), 0.0, actions).clamp(-1e6, 1e6)
        clipped = finite.clamp(*given.clip) if given.clip else finite
        taken = clipped[:, [max(index, 0) for index in given.order]]  # where nothing is taken, scale is 0
        command = base + torch.tensor(given.scale, dtype=torch.float32) * taken
        low, high = (torch.tensor(ends, dtype=torch.float32) for ends in (given.minimum, given.maximum))
        return torch.minimum(torch.maximum(command, low), high), clipped


def _value(resolved: ResolvedTerm, inputs: Mapping[str, Tensor], previous: Tensor, nothing: Tensor) -> Tensor:
    term = resolved.term
    if term.signal == CONSTANT:
        found = nothing + torch.tensor(term.values, dtype=torch.float32)
    elif term.signal == PREVIOUS_ACTION:
        found = previous
    else:
        found = inputs[term.signal]
        if term.signal.endswith("orientation"):
            found = _form(term.form or "quaternion_xyzw", found, inputs[term.relative_to] if term.relative_to else None)
        elif term.relative_to:
            found = found - inputs[term.relative_to]
        if resolved.turn:
            turn = to_body if resolved.turn == "to_body" else to_world
            found = turn(rotation_matrix(inputs["orientation"]), found)
    found = found[:, list(resolved.order)] - torch.tensor(resolved.minus, dtype=torch.float32)
    found = found * torch.tensor(resolved.scale, dtype=torch.float32)
    return found.clamp(*term.clip) if term.clip else found


def _form(form: str, q: Tensor, reference: Tensor | None) -> Tensor:
    """Return quaternions (batch, 4) xyzw in a form, of the rotation from ``reference`` if there is one."""
    if reference is not None:
        ax, ay, az, aw = (-reference[:, 0], -reference[:, 1], -reference[:, 2], reference[:, 3])
        bx, by, bz, bw = q.unbind(dim=-1)
        q = torch.stack(
            (
                aw * bx + ax * bw + ay * bz - az * by,
                aw * by - ax * bz + ay * bw + az * bx,
                aw * bz + ax * by - ay * bx + az * bw,
                aw * bw - ax * bx - ay * by - az * bz,
            ),
            dim=-1,
        )
    if form == "quaternion_xyzw":
        return q
    if form == "quaternion_wxyz":
        return q[:, [3, 0, 1, 2]]
    matrix = rotation_matrix(q)
    if form == "matrix":
        return matrix.reshape(-1, 9)
    if form == "gravity":
        return -matrix[:, 2]
    yaw = torch.atan2(matrix[:, 1, 0], matrix[:, 0, 0])
    if form == "yaw":
        return yaw[:, None]
    roll = torch.atan2(matrix[:, 2, 1], matrix[:, 2, 2])
    return torch.stack((roll, torch.asin((-matrix[:, 2, 0]).clamp(-1.0, 1.0)), yaw), dim=-1)


def uses_previous_action(plan: Plan) -> bool:
    """Return whether the policy needs the previous action as a state."""
    return any(term.term.signal == PREVIOUS_ACTION for term in plan.terms)


def policy_model(plan: Plan, contract: Contract, network: Network) -> onnx.ModelProto:
    """Return the whole graph, with the inputs, outputs and states of ``contract``.

    Raises:
        UserError: The network's graph cannot be joined to the mapping's.
    """
    sizes = {port.name: port.sized({}) for port in contract.inputs}
    previous, actions = STATE_PREFIX + PREVIOUS_ACTION, network.action_size
    command = contract.outputs[0].name
    elements = len(plan.action.scale)
    front = to_onnx(
        Observer(plan),
        {**{name: sizes[name] for name in plan.inputs}, previous: (actions,)},
        {"observation": (plan.observation_size,), _BASE: (elements,)},
    )
    back = to_onnx(
        Commander(plan),
        {"actions": (actions,), "base": (elements,)},
        {command: (elements,), NEXT_STATE_PREFIX + PREVIOUS_ACTION: (actions,)},
    )
    try:
        parts = [
            compose.add_prefix(part, prefix, rename_inputs=False, rename_outputs=False)
            for part, prefix in ((front, "mapping."), (network.model, "network."), (back, "command."))
        ]
        for part in parts:
            part.ir_version = max(p.ir_version for p in parts)
        joined = compose.merge_models(parts[0], parts[1], io_map=[("observation", OBSERVATION)])
        joined = compose.merge_models(joined, parts[2], io_map=[(ACTIONS, "actions"), (_BASE, "base")])
    except (ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        said = " ".join(str(error).split())[:300]
        raise UserError(f"The network's graph cannot be joined to the mapping's: {said}.") from error
    if not uses_previous_action(plan):
        _without(joined, previous)
    return joined


def _without(model: onnx.ModelProto, state: str) -> None:
    """Take an unused state out of a graph."""
    for declared, name in ((model.graph.input, state), (model.graph.output, "next_" + state)):
        kept = [entry for entry in declared if entry.name != name]
        del declared[:]
        declared.extend(kept)
